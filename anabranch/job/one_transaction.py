"""Follows one transaction of the source through all stages: read, written into the trail, applied at each target. Only what is
known is told, and of the rest that it is not.

What does not live here: its row images (`trail/show.py`), the stretches that parts have passed (`state/store.py`), texts for
people (`cli/transaction_text.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.contracts import NotesApplied
from anabranch.errors import AnabranchError, ConfigError, StateError
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.rows.chunk import Op, Part
from anabranch.state.store import StateStore, time_text
from anabranch.trail.reader import TrailReader, exists
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.contracts import TargetStore
    from anabranch.model.table_life import TableState
    from anabranch.trail.chunk_refs import ChunkRef
    from anabranch.view.job_view import JobView

VERSION = 1
WRITTEN, NOT_YET, GONE = "written", "not yet", "no longer"
APPLIED, WAITS, LEFT_OUT, UNKNOWN = "applied", "waits", "left out", "unknown"
BEYOND = "beyond the checkpoint, since commits keep no order; those before it may still wait"
NOT_KEPT = "only the last stretches are kept, and of a killed process not those of its last seconds"


@dataclass(frozen=True)
class Place:
    """A piece of the transaction in the trail."""

    segment: str
    offset: int
    made_at: str | None  # the segment


@dataclass(frozen=True)
class Captured:
    """The fate of the transaction before the trail's end. `state`: WRITTEN, NOT_YET, GONE. `between`: two times between
    which it was written, both None where that is not kept; when it was read is never kept."""

    state: str
    why: str = ""
    places: tuple[Place, ...] = ()
    between: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True)
class Epoch:
    """An epoch with which the transaction was carried out. `began`, `committed`: at the target, by the clock of apply's
    machine. By source table, of the whole epoch, which has `transactions`: changes, disagreements, rows set aside. Of many
    tables only those with most rows are kept; `others`, by what is counted: how many more `tables`, and their `rows`."""

    number: int
    began: str | None
    committed: str | None
    transactions: int
    changes: Mapping[str, int]
    conflicts: Mapping[str, int]
    asides: Mapping[str, int]
    parked: tuple[str, ...]
    others: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class AtTarget:
    """The fate of the transaction at a target. `state`: APPLIED, WAITS, LEFT_OUT, UNKNOWN. `epochs`: several where the
    target went back. `tables`: of those that it changes, by source table, where one stands that does not stream.
    `set_aside`, `conflicts`: notes of the target about this transaction, by source table."""

    target: str
    state: str
    why: str = ""
    applied_upto: str = ""
    epochs: tuple[Epoch, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    set_aside: Mapping[str, int] = field(default_factory=dict)
    conflicts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TransactionTrace:
    """A transaction and its way. `rows`: its row changes by source table; `barriers`: what else it does to tables. Both are
    empty where the trail does not have it."""

    job: str
    position: str
    gtid: str | None
    commit_time: str | None
    origin: str | None
    rows: Mapping[str, int]
    barriers: tuple[tuple[str, str], ...]
    captured: Captured
    targets: tuple[AtTarget, ...]

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        captured = found.pop("captured")
        first, last = captured.pop("between")
        found["captured"] = {**captured, "read_at": None, "written_after": first, "written_before": last}
        found["barriers"] = [{"table": table, "kind": kind} for table, kind in self.barriers]
        return {"version": VERSION, **found}


@dataclass
class _Found:
    position: Position
    refs: list[ChunkRef] = field(default_factory=list)
    gtid: str | None = None
    commit_time: int = 0
    origin: str | None = None
    rows: Counter[str] = field(default_factory=Counter)
    barriers: list[tuple[str, str]] = field(default_factory=list)


def transaction_trace(job: JobView, position: str, xid: str = "") -> TransactionTrace:
    """Return the way of a transaction. `position`: as messages have it (`4711@mysql-bin.000003:15499`), its sequence, or its
    place in the source's log; or `xid`: the source's own name of it (a GTID, a transaction's id). Raises ConfigError for one
    that the trail does not have under such a name, StateError where there is no trail."""
    if not exists(job.trail):
        raise StateError(f"no trail in {job.trail}", job=job.config.name, hint="start capture first")
    with TrailReader(job.trail, name="trace") as trail:
        first, end = trail.first(), trail.end().position
        sequence = _named(job, trail, "gtid", xid) if xid else _sequence(job, trail, position)
        if first <= sequence <= end.sequence:
            found = _in_trail(trail, sequence)
            _require_same(job, position, found.position)
            captured = _written(job, trail, found)
        else:
            found = _Found(Position(sequence))
            captured = _elsewhere(sequence, first, end)
    targets = tuple(_at(view, found, captured) for view in job.targets())
    shown = str(found.position) if found.position.native else str(sequence)
    told = (shown, found.gtid, time_text(found.commit_time), found.origin)
    return TransactionTrace(job.config.name, *told, dict(found.rows), tuple(found.barriers), captured, targets)


# --- which one ----------------------------------------------------------------------------------------------------------


def _sequence(job: JobView, trail: TrailReader, position: str) -> int:
    number, _, _ = position.partition("@")
    return int(number) if number.isascii() and number.isdigit() else _named(job, trail, "native", position)


def _named(job: JobView, trail: TrailReader, column: str, name: str) -> int:
    """Return the sequence of the transaction that has this name, the latest of several. Reads no rows."""
    for ref in reversed(trail.descriptors(trail.first() - 1)):
        if ref.part is not Part.FRAGMENT:
            known = trail.transactions(ref).column(column).to_pylist()
            if name in known:
                return int(ref.first_sequence) + len(known) - 1 - int(known[::-1].index(name))
    raise ConfigError(
        f"the trail has no transaction {name!r}: it has {trail.first()} to {trail.end().position}",
        job=job.config.name,
        hint="it was not read yet, was dropped from the trail, or changes no table of the job; anabranch trail show JOB lists"
        " what is there",
    )


def _require_same(job: JobView, position: str, there: Position) -> None:
    if position.partition("@")[0].isdigit() and "@" in position and position != str(there):
        raise ConfigError(f"there is no {position}, but {there}", job=job.config.name)


def _in_trail(trail: TrailReader, sequence: int) -> _Found:
    found = _Found(trail.position_at(sequence), trail.descriptors(sequence - 1, sequence))
    for ref in found.refs:
        chunk = trail.load(ref)
        if ref.part is not Part.FRAGMENT:
            (facts,) = chunk.transactions.to_pylist()
            found.gtid, found.commit_time, found.origin = facts["gtid"], facts["commit_time"], facts["origin"]
        for part in chunk.tables:
            operations = Counter(part.batch.column(0).to_pylist())
            found.rows[str(part.table)] += sum(number for op, number in operations.items() if op != Op.BEFORE)
        found.barriers += [(str(barrier.table), str(barrier.kind.value)) for barrier in chunk.barriers]
    return found


# --- at the source, and in the trail -----------------------------------------------------------------------------------


def _written(job: JobView, trail: TrailReader, found: _Found) -> Captured:
    made = {one.name: time_text(int(one.created * 1_000_000)) for one in trail.segments()}
    places = tuple(Place(ref.segment, ref.offset, made.get(ref.segment)) for ref in found.refs)
    with closing(StateStore(job.config.home)) as store:
        passed = store.passages("capture", found.position.sequence)
    if not passed:
        return Captured(WRITTEN, NOT_KEPT, places)
    return Captured(WRITTEN, "", places, (time_text(passed[-1]["began"]), time_text(passed[-1]["ended"])))


def _elsewhere(sequence: int, first: int, end: Position) -> Captured:
    if sequence > end.sequence:
        return Captured(NOT_YET, f"the trail ends at {end}: capture has not come to it")
    return Captured(GONE, f"the trail begins with {first}: it was dropped behind every reader, or by force")


# --- at a target --------------------------------------------------------------------------------------------------------


def _at(job: JobView, found: _Found, captured: Captured) -> AtTarget:
    name = job.target if job.is_one_of_several else str(job.endpoint)
    sequence = found.position.sequence
    with closing(StateStore(job.target_home)) as state:
        passed = state.passages("apply", sequence)
        noted = state.snapshot()
    epochs = tuple(_epoch(one) for one in passed)
    try:
        with store_of(job) as store:
            return _asked(job, store, name, found, captured, epochs, noted)
    except AnabranchError as error:
        why = f"the target cannot be asked: {error.message}"
        if epochs:
            return AtTarget(name, APPLIED, f"{why}; it was when the epoch was noted", epochs=epochs)
        return AtTarget(name, UNKNOWN, why)


def _asked(
    job: JobView,
    store: TargetStore,
    name: str,
    found: _Found,
    captured: Captured,
    epochs: tuple[Epoch, ...],
    noted: Mapping[str, Any],
) -> AtTarget:
    sequence, own = found.position.sequence, job.config.name
    checkpoint = store.jobs.checkpoint(own) if store.exists() else None
    if checkpoint is None:
        return AtTarget(name, WAITS, "the job has not begun at this target: its load and apply come first")
    upto = str(checkpoint.position)
    skipped = any(one.sequence == sequence for one in store.journal.skipped(own))
    states = store.states.tables(own, whole=False)
    if checkpoint.position.sequence < sequence and _is_beyond(store, own, sequence):
        return AtTarget(name, APPLIED, BEYOND, upto, epochs, dict(_standing(found, states)))
    if checkpoint.position.sequence < sequence:
        why = "anabranch skip has it left out, once apply comes to it" if skipped else _waits(captured, noted)
        went_back = "; it was applied before, and the target went back" if epochs else ""
        return AtTarget(name, WAITS, f"{why}{went_back}", upto, epochs, dict(_standing(found, states)))
    asides = Counter(str(one.source) for one in _asides(store, own) if one.sequence == sequence)
    conflicts = Counter(
        table
        for table in found.rows
        for one in store.journal.conflicts(own, TableId.parse(table), 0, 0)
        if one.sequence == sequence
    )
    state = LEFT_OUT if skipped else APPLIED
    why = "by anabranch skip" if skipped else ("" if epochs else NOT_KEPT)
    return AtTarget(name, state, why, upto, epochs, dict(_standing(found, states)), dict(asides), dict(conflicts))


def _is_beyond(store: TargetStore, job: str, sequence: int) -> bool:
    return isinstance(store.jobs, NotesApplied) and sequence in store.jobs.applied(job)


def _asides(store: TargetStore, job: str) -> Iterator[Any]:
    yield from store.asides.set_aside(job, None, False)
    yield from store.asides.set_aside(job, None, True)


def _waits(captured: Captured, noted: Mapping[str, Any]) -> str:
    if captured.state == NOT_YET:
        return "for capture"
    if not any(part["name"] == "apply" for part in noted["parts"]):
        return "for apply, which is not running"
    return f"for apply, {noted['phase']}" + (f": {noted['detail']}" if noted["detail"] else "")


def _standing(found: _Found, states: Mapping[TableId, TableState]) -> Iterator[tuple[str, str]]:
    """Yield where tables of the transaction stand, of those that do not simply stream."""
    sequence = found.position.sequence
    for name in dict.fromkeys([*found.rows, *(table for table, _ in found.barriers)]):
        state = states.get(TableId.parse(name))
        if state is None:
            yield name, "the target has no such table of the job"
        elif state.is_parked and state.facts.resumes is not None and state.facts.resumes < sequence:
            yield name, f"parked in front of it, waits in the trail: {state.reason}"
        elif state.is_parked:
            yield name, f"parked: {state.reason}"
        elif not state.is_streaming:
            yield name, "its load is not through: changes from before its place come with the rows"


def _epoch(passed: Mapping[str, Any]) -> Epoch:
    facts = passed["facts"]
    changes, conflicts, asides = [dict(facts.get(name, {})) for name in ("changes", "conflicts", "asides")]
    return Epoch(
        int(facts.get("epoch", 0)),
        time_text(passed["began"]),
        time_text(passed["ended"]),
        passed["sequence"] - passed["after"],
        changes,
        conflicts,
        asides,
        tuple(facts.get("parked", ())),
        dict(facts.get("others", {})),
    )
