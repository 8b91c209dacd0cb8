"""A job's status as values, and the one way in which they become JSON (docs/reference/status.md).

What does not live here: gathering it (`job/status.py`), showing it to people (`cli/status.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from anabranch.model.position import HeldLog

SPARE = {"spare": True}  # a field that is left out where it has nothing to say
INLINE = {"inline": True}  # a field whose own fields stand in its place; of None, nothing
Facts = Mapping[str, Any]  # as state.db has it, in JSON's own values


@dataclass(frozen=True)
class StateStatus:
    """State of a job or a target (model/condition.py). `error`: what holds it up, or ended it."""

    state: str
    sub_state: str
    state_detail: str
    since: str | None
    active: bool
    error: Facts | None


@dataclass(frozen=True)
class PhaseStatus:
    """Phase that a part has noted last, with its detail for people."""

    phase: str
    detail: str


@dataclass(frozen=True)
class PartStatus:
    """Process at work. `target`: the one of several that it is for; `how`: of capture, its decoder."""

    name: str
    target: str | None = field(metadata=SPARE)
    pid: int
    host: str
    since: str
    how: str | None = field(default=None, metadata=SPARE)


@dataclass(frozen=True)
class PlaceStatus:
    """Place in the source's log, and when what ends there was committed (ISO 8601)."""

    text: str
    commit_time: str | None


@dataclass(frozen=True)
class PositionsStatus:
    """Ends of what capture has read, of the trail, and of the source's log."""

    read: PlaceStatus | None
    written: PlaceStatus | None
    source_end: PlaceStatus | None


@dataclass(frozen=True)
class StageStatus:
    """Part of a lag. `seconds`: how long the oldest transaction that is not applied was, or is, in this stage; `bytes` of the
    source's log that are in it now; None where that is not known. `why`: what holds it up there, for people."""

    stage: str
    seconds: float | None
    bytes: int | None
    why: str | None


@dataclass(frozen=True)
class EtaStatus:
    """Estimate of when a target will have caught up. `error`: mean of |estimated - real| / real of estimates of the last hours
    that came true; None before one did."""

    at: str | None
    seconds: float
    error: float | None


@dataclass(frozen=True)
class LagStatus:
    """The lag of a target behind its source; None where it is not known. `culprit`: what holds it up, as `{kind, text, …}`."""

    seconds: float | None
    bytes: int | None
    stages: list[StageStatus] = field(default_factory=list)
    culprit: Facts | None = None
    eta: EtaStatus | None = None


@dataclass(frozen=True)
class VerifiedStatus:
    """Last result of `verify --watch` for a table since its last load (model/verified.py)."""

    result: str
    at: str | None
    positions: list[str]
    rows: int
    differing: int
    pending: int
    is_complete: bool
    seconds: float
    why: str
    sample: str | None = field(default=None, metadata=SPARE)
    place: str | None = field(default=None, metadata=SPARE)


@dataclass(frozen=True)
class VouchedStatus:
    """A table that streams without a load: from which place on, by whose word, and when that was given."""

    place: str
    by: str
    at: str


@dataclass(frozen=True)
class UndecidedStatus:
    """Change of a definition that waits for a person. `number`: as `ddl approve` takes it; `table`: the source's, which it
    alters; `statement`: "" where the log has none; `since`: when the target noted it."""

    number: int
    table: str
    statement: str
    since: str | None


@dataclass(frozen=True)
class TableStatus:
    """State of a table at a target, with its rows and changes as counted."""

    source: str
    target: str
    state: str
    reason: str
    rows_loaded: int
    changes_applied: int
    set_aside: int | None = field(default=None, metadata=SPARE)
    conflicts: int | None = field(default=None, metadata=SPARE)
    not_built: list[str] | None = field(default=None, metadata=SPARE)
    verified: VerifiedStatus | None = field(default=None, metadata=SPARE)
    vouched: VouchedStatus | None = field(default=None, metadata=SPARE)
    undecided: UndecidedStatus | None = field(default=None, metadata=SPARE)
    left_out: list[str] | None = field(default=None, metadata=SPARE)


@dataclass(frozen=True)
class SeveralStatus:
    """The facts that a target has for itself where a job has several."""

    url: str
    phase: str
    detail: str
    last_error: Facts | None


@dataclass(frozen=True)
class TargetStatus:
    """Target of a job. `name`: of the only one, its place; `consistency`: "between_barriers" where commits keep no order."""

    name: str
    several: SeveralStatus | None = field(metadata=INLINE)
    applied: PlaceStatus | None
    lag: LagStatus
    tables: list[TableStatus]
    counters: Facts | None
    slow_epochs: Facts | None = field(default=None, metadata=SPARE)
    consistency: str | None = field(default=None, metadata=SPARE)
    state: StateStatus | None = field(default=None, metadata=INLINE)


@dataclass(frozen=True)
class PreparedStatus:
    """Prepared transaction that waits for its commit (K6)."""

    xid: str
    since: str | None
    rows: int


@dataclass(frozen=True)
class EncryptionStatus:
    """Encryption of the trail. `key`: the id of the present key, null where new segments are not encrypted; `keys`: of how many
    files it, and former ones, wrap the data key; `not_encrypted`: segments."""

    key: str | None
    keys: Mapping[str, int]
    not_encrypted: int


@dataclass(frozen=True)
class LoadFilesStatus:
    """Rows of loads in a trail between two jobs, while there are any. `bytes`: of all files; `awaited`: how many tables each
    reader has yet to take; `kept`: how many tables stay only for readers that join later, of `kept_bytes`, the last of them
    until `kept_until`."""

    bytes: int
    awaited: Mapping[str, int]
    kept: int
    kept_bytes: int
    kept_until: str | None


@dataclass(frozen=True)
class Status:
    """All that `status` tells of a job. `waits`: for whom its sessions wait; `log_held`: what the source keeps for it;
    `encryption`: only of a trail that is, or was, encrypted; `load_files`: of a job that captures into
    a trail; `unreachable`: errors of ends that could not be asked."""

    version: int
    software_version: str
    at: str | None
    job: str
    state: StateStatus = field(metadata=INLINE)
    phase: PhaseStatus = field(metadata=INLINE)
    parts: list[PartStatus]
    positions: PositionsStatus
    counters: Facts | None
    targets: list[TargetStatus]
    waits: Sequence[Facts]
    last_error: Facts | None
    prepared: list[PreparedStatus] | None = field(default=None, metadata=SPARE)
    log_held: HeldLog | None = field(default=None, metadata=SPARE)
    encryption: EncryptionStatus | None = field(default=None, metadata=SPARE)
    load_files: LoadFilesStatus | None = field(default=None, metadata=SPARE)
    unreachable: list[str] | None = field(default=None, metadata=SPARE)


def as_json(value: Any) -> Any:
    """Make JSON's values of a status, or of anything in it, in the order of the fields."""
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if not is_dataclass(value):
        return value
    found: dict[str, Any] = {}
    for one in fields(value):
        inner = getattr(value, one.name)
        if one.metadata.get("inline"):
            found |= as_json(inner) if inner is not None else {}
        elif inner or not one.metadata.get("spare"):
            found[one.name] = as_json(inner)
    return found
