"""Leaving one source transaction out on purpose: what it contains, and the request to skip it, kept at the target.

What does not live here: leaving it out (apply).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from anabranch.contracts import NotesApplied, TargetStore
from anabranch.errors import ConfigError, StateError
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Skipped
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import BarrierKind
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail.show import show
from anabranch.view.opened import store_of
from anabranch.view.running import CAPTURE, require_stopped

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

SHOW = "anabranch trail show JOB --from POSITION --limit 20 shows what is where"


def skipped(job: JobView) -> list[Skipped]:
    """Return all that was asked for, done or not."""
    with store_of(job) as store:
        return store.journal.skipped(job.config.name) if store.exists() else []


def skip(job: JobView, position: str, execute: bool) -> Skipped:
    """Return the transaction at a position, or sequence, and what it holds; with `execute` it is left out from apply's
    next start on.

    Raises ConfigError for one that is not there, is applied already, or changes definitions.
    """
    found = _in_trail(job, position)
    if execute:
        require_still(job)
    with store_of(job) as store:
        _require_ahead(job, store, found)
        if execute:
            store.prepare()
            store.journal.skip(job.config.name, found)
    return found


def unskip(job: JobView, position: str) -> int:
    """Take the request back, as long as apply has not reached the transaction. Returns the sequence."""
    sequence = sequence_of(job, position)
    with store_of(job) as store:
        known = {one.sequence: one for one in (store.journal.skipped(job.config.name) if store.exists() else [])}
        if sequence not in known:
            raise ConfigError(f"{position} is not to be skipped", job=job.config.name, hint="anabranch skip ls JOB")
        require_still(job)
        if _applied(job, store) >= sequence:
            hint = "load its tables again, where what it did is wanted after all"
            raise ConfigError(f"{known[sequence].position} was left out already", job=job.config.name, hint=hint)
        store.journal.unskip(job.config.name, sequence)
    return sequence


def sequence_of(job: JobView, position: str) -> int:
    """Parse the sequence of a position as messages have it, or a sequence alone. Raises ConfigError."""
    number = position.partition("@")[0]
    if not (number.isascii() and number.isdigit()):
        raise ConfigError(f"{position!r} is no position", job=job.config.name, hint="like 4711@mysql-bin.000003:15499")
    return int(number)


def _in_trail(job: JobView, position: str) -> Skipped:
    sequence = sequence_of(job, position)
    if not exists(job.trail):
        raise StateError(f"no trail in {job.trail}", job=job.config.name, hint="start capture first")
    with TrailReader(job.trail) as trail:
        if not trail.first() <= sequence <= trail.end().position.sequence:
            reach = f"it has {trail.first()} to {trail.end().position.sequence}"
            raise ConfigError(f"the trail has no transaction {sequence}: {reach}", job=job.config.name, hint=SHOW)
        there = trail.position_at(sequence)
        if "@" in position and position != str(there):
            raise ConfigError(f"there is no {position}, but {there}", job=job.config.name, hint=SHOW)
        return _held(job, trail, there)


def _held(job: JobView, trail: TrailReader, there: Position) -> Skipped:
    changes: Counter[str] = Counter()
    time = 0
    for row in show(trail, after=there.sequence - 1, upto=there.sequence):
        time = row.commit_time
        if row.operation == BarrierKind.PARK.value:
            raise ConfigError(
                f"{there} changes the definition of {row.table}: {row.note}",
                job=job.config.name,
                hint="rows behind it could not be read without it; what it parks is brought back by a load",
            )
        if row.operation != "update from":
            changes[str(row.table)] += 1
    return Skipped(there.sequence, str(there), time, dict(changes))


def require_still(job: JobView) -> None:
    """Require that neither load nor apply runs: what is changed here is read when they start. Raises StateError."""
    require_stopped(job, but=(CAPTURE,))


def _waits(state: TableState | None, sequence: int) -> bool:
    """Return whether the table is parked before the transaction, and would apply it when it resumes."""
    return state is not None and state.facts.resumes is not None and state.facts.resumes < sequence


def _applied(job: JobView, store: TargetStore) -> int:
    checkpoint = store.jobs.checkpoint(job.config.name) if store.exists() else None
    return checkpoint.position.sequence if checkpoint else -1


def _require_ahead(job: JobView, store: TargetStore, found: Skipped) -> None:
    if not store.exists() or store.jobs.job(job.config.name) is None:
        raise StateError("the job has not begun at the target", job=job.config.name, hint="load its tables first")
    if (applied := _applied(job, store)) < found.sequence:
        if isinstance(store.jobs, NotesApplied) and found.sequence in store.jobs.applied(job.config.name):
            hint = "what it did is undone at the target by hand, or by a load of its tables"
            raise ConfigError(f"{found.position} is applied already, beyond {applied}", job=job.config.name, hint=hint)
        return
    states = store.states.tables(job.config.name)
    if found.changes and all(_waits(states.get(TableId.parse(name)), found.sequence) for name in found.changes):
        return  # only parked tables have changes in it, and these have not applied it
    parked = [
        str(table)
        for table, state in sorted(states.items())
        if str(table) in found.changes and _waits(state, found.sequence)
    ]
    hint = "what it did is undone at the target by hand, or by a load of its tables"
    if parked:
        hint += f"; for {', '.join(parked)}, parked before it, mend the target, or load again"
    raise ConfigError(f"{found.position} is passed already: the target is at {applied}", job=job.config.name, hint=hint)
