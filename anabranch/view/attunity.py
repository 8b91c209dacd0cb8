"""Hand on to the parts of a job what Attunity's configuration row says of them: by a file in the home, so that capture needs
no target. The process that keeps the tables writes it (`job/attunity.py`); parts read it as they start.

What does not live here: the row and its options (`model/attunity*.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.config import ONLY, JobConfig
from anabranch.model.attunity import ConfigRow
from anabranch.model.attunity_options import Value

if TYPE_CHECKING:
    from anabranch.config.section import Section
    from anabranch.view.job_view import JobView

FILE = "attunity.json"
J = TypeVar("J", bound="JobView")
S = TypeVar("S", bound="Section")
# Option -> section and key of the job file in whose place it is.
KEYS = {
    "sql_reconnect_interval": ("target", "interval_s"),
    "sql_reconnect_limit": ("target", "limit"),
    "target_command_timeout": ("target", "statement_s"),
    "source_reconnect_interval": ("source", "interval_s"),
    "source_reconnect_limit": ("source", "limit"),
    "source_command_timeout": ("source", "statement_s"),
    "source_connection_timeout": ("source", "connect_s"),
}
STOPS = "CDC_stop_on_breaking_schema_changes"
LEAST = 1  # of both limits of capture, as in the job file
AT_ONCE = "target_max_batched_transactions"


@dataclass(frozen=True)
class Noted:
    """The row as it was seen last. `digest`: of all that counts a version; `report`: the number that asked for the last report
    of memory; `options`: those that are said and act on parts, by their names."""

    digest: str = ""
    version: int = 0
    report: int = 0
    memory_limit: int = 0
    staging_timeout: int = 0
    options: dict[str, Value] = field(default_factory=dict)


def digest_of(row: ConfigRow) -> str:
    """Return a digest of what a row says, whatever its version is. A password is not in it."""
    said = json.dumps(asdict(replace(row, version=0)), sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def noted(job: JobView) -> Noted:
    """Return what was noted last; nothing where nothing was, or it cannot be read."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        found = json.loads(_file(job).read_text())
        return Noted(**{one.name: found[one.name] for one in fields(Noted) if one.name in found})
    return Noted()


def note(job: JobView, seen: Noted) -> None:
    new = _file(job).with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(asdict(seen)))
    new.replace(_file(job))


def as_asked(job: J) -> J:
    """Return the job as its parts are to run: with what the row of the configuration says in place of the job file."""
    if not job.config.compat.attunity:
        return job
    seen = noted(job)
    return type(job)(overlaid(job.config, seen), job.path, job.target) if seen.digest else job


def overlaid(config: JobConfig, seen: Noted) -> JobConfig:
    """Return a job file with what was noted in place of its keys."""
    options = seen.options
    limits = {"memory_limit_mb": seen.memory_limit, "transaction_staging_timeout_s": seen.staging_timeout}
    capture = {key: value for key, value in limits.items() if value >= LEAST}  # a copy of a model checks nothing
    retry = config.retry
    for end in ("source", "target"):
        said = {key: options[name] for name, (of, key) in KEYS.items() if of == end and name in options}
        retry = _with(retry, {end: _with(getattr(retry, end), said)})
    if "cdc_restart_limit" in options:
        retry = _with(retry, {"restarts_per_hour": options["cdc_restart_limit"]})
    stops = {"action": "stop"} if options.get(STOPS) and config.ddl.action is None else {}
    found = config.model_copy(
        update={"capture": _with(config.capture, capture), "retry": retry, "ddl": _with(config.ddl, stops)}
    )
    if (idle := options.get("target_idle_lsn_update_interval")) is None:
        return found
    held: Any = found.target_options(ONLY)  # of a database that has change tables: it has this option
    return found.with_target_options(replace(held, heartbeat_s=int(idle)), ONLY)


def transactions_at_once(job: JobView) -> int:
    """Return how many of the source's transactions one of the target may have; 0: however many."""
    return batched(noted(job)) if job.config.compat.attunity else 0


def batched(seen: Noted) -> int:
    """Return what was noted of them; 0 for nothing."""
    return int(seen.options.get(AT_ONCE, 0))


def _with(section: S, update: Mapping[str, object]) -> S:
    return section.model_copy(update=dict(update)) if update else section


def _file(job: JobView) -> Path:
    return job.config.home / FILE
