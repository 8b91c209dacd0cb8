"""Going back: the target's checkpoint is moved to an earlier place of the trail, and everything up to the former place
is applied once more.

This works as in a load's window: whatever the rows are by now, once the former place is passed they equal the source's
again. Keys that rows out of order may break are taken off first, as before a load, and built again afterwards. What
does not live here: the replay itself (apply).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.apply.abilities import merging
from anabranch.contracts import Begun, NotesApplied, TargetStore
from anabranch.errors import ConfigError, StateError
from anabranch.failpoints import reach
from anabranch.lifecycle.skipping import require_still, sequence_of
from anabranch.load.order import demands
from anabranch.model.ids import TableId
from anabranch.model.load_groups import ancestors
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema, component
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState, build_again, open_window
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader, exists
from anabranch.view.alone import alone
from anabranch.view.definitions import logs_cascades
from anabranch.view.opened import catalog_of, source_of, store_of, target_of
from anabranch.view.options import value_rules
from anabranch.view.refusals import refuse_changed_job, refuse_unaged, refuse_while_cut_over

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

UNSEEN = "foreign keys change it without a record in the log, so only a load brings it up to date: anabranch load JOB --table T"
SHARED = "its target table also has rows of another job: repair single rows with anabranch verify JOB --repair"
ASIDE = "rows are set aside, here or where foreign keys lead: anabranch parked release, or discard, before going back"
KEYLESS = "it has no key: equal rows cannot be told from rows that were applied twice"


@dataclass(frozen=True)
class Rewound:
    """The effect of going back. `tables`: row images that are applied again, roughly. `later`: tables that joined after
    the place, and the place from which they are replayed. `left`: tables that stay as they are, and why."""

    now: Position
    to: Position
    tables: Mapping[TableId, int]
    later: Mapping[TableId, Position]
    left: Mapping[TableId, str]

    @property
    def transactions(self) -> int:
        return self.now.sequence - self.to.sequence


def rewind(job: JobView, position: str, execute: bool) -> Rewound:
    """Return what going back to a position, or sequence, means; with `execute` it is done.

    Raises ConfigError for a place that the trail does not have or the target has not passed, StateError where a load is
    not through or apply runs.
    """
    refuse_unaged(job, "going back")
    if not exists(job.trail):
        raise StateError(f"no trail in {job.trail}", job=job.config.name, hint="start capture first")
    with alone(job) if execute else nullcontext():
        return _rewind(job, position, execute)


def _rewind(job: JobView, position: str, execute: bool) -> Rewound:
    if execute:
        require_still(job)
    refuse_while_cut_over(job)
    with store_of(job) as store:
        now = store.jobs.checkpoint(job.config.name) if store.exists() else None
        if now is None:
            raise StateError("the job has not begun at the target", job=job.config.name, hint="load its tables first")
        refuse_changed_job(job)
        if isinstance(store.jobs, NotesApplied) and store.jobs.applied(job.config.name):
            what = f"transactions are applied beyond {now.position}, and not all before them"
            raise StateError(what, job=job.config.name, hint="start the job once: it carries out what is missing")
        states = store.states.tables(job.config.name)
        with TrailReader(job.trail) as trail:
            there = _place(job, trail, position, now.position)
            found = _Plan(job, trail, states, store.states.others(job.config.name), now.position, there).made()
        if execute:
            _go_back(job, store, states, now, found)
        return found


def _place(job: JobView, trail: TrailReader, position: str, now: Position) -> Position:
    sequence, first = sequence_of(job, position), trail.first() - 1
    if not first <= sequence < now.sequence:
        raise ConfigError(
            f"cannot go back to {position}: the trail reaches back to {first}, the target is at {now}",
            job=job.config.name,
            hint="anabranch trail show JOB shows what is where; what the trail does not have comes by a load",
        )
    there = trail.position_at(sequence)
    if "@" in position and position != str(there):
        hint = "anabranch trail show JOB shows what is where"
        raise ConfigError(f"there is no {position}, but {there}", job=job.config.name, hint=hint)
    return there


@dataclass(frozen=True)
class _Plan:
    """The tables that stream, and the part of the trail that would be applied again."""

    job: JobView
    trail: TrailReader
    states: Mapping[TableId, TableState]
    others: Collection[TableId]  # target tables of other jobs, too
    now: Position
    to: Position

    def made(self) -> Rewound:
        open_tables = [str(t) for t, s in sorted(self.states.items()) if s.is_before_stream]
        if open_tables:
            raise StateError(
                f"{', '.join(open_tables[:5])} have not finished loading",
                job=self.job.config.name,
                hint="let them catch up: anabranch run JOB --until-caught-up",
            )
        schemas = {t: s.schema for t, s in self.states.items() if s.is_streaming and s.schema}
        begins = {t: max(self.to.sequence, self._readable_after(t)) for t in schemas}
        images = self._images()
        touched = {t for t in schemas if images[t] or begins[t] > self.to.sequence}
        if not logs_cascades(self.job, source_of(self.job)):
            touched |= {t for t in schemas if ancestors(schemas, t) & touched}
        left = dict.fromkeys(touched & self._between(schemas), UNSEEN)
        left |= {t: SHARED for t in touched if self.states[t].facts.kept or self.states[t].target in self.others}
        held = {t for t in schemas if self.states[t].facts.set_aside}
        left |= {t: ASIDE for t in touched if not held.isdisjoint(component([t], schemas))}
        left |= {t: KEYLESS for t in touched if not self.job.rules.target_table(schemas[t]).key}
        left |= {t: "it is parked" for t, s in self.states.items() if s.is_parked and images[t]}
        tables = {t: images[t] for t in sorted(touched - left.keys())}
        later = {t: begins[t] for t in tables if begins[t] > self.to.sequence}
        return Rewound(self.now, self.to, tables, {t: self.trail.position_at(s) for t, s in later.items()}, left)

    def _between(self, schemas: Mapping[TableId, TableSchema]) -> set[TableId]:
        """Return tables that a load reads at one moment, or after others, because foreign keys change them unseen by
        the log (K1).

        No window over all of them at once would be right.
        """
        with catalog_of(source_of(self.job)) as catalog:
            levels = demands(schemas, catalog.log.logs_cascades(), catalog.log.logs_whole_rows())
        first, *others = levels or [[]]
        held = [d for d in first if d.exact or d.together] + [d for level in others for d in level]
        return {demand.table for demand in held}

    def _readable_after(self, table: TableId) -> int:
        """Return the last sequence before the definition that the table has now."""
        schema = self.states[table].schema
        return self.trail.history.valid_from(table, schema.version) - 1 if schema else 0

    def _images(self) -> Counter[TableId]:
        found: Counter[TableId] = Counter()
        for ref in self.trail.descriptors(self.to.sequence, self.now.sequence):
            for name, rows in ref.tables:
                found[TableId.parse(name)] += rows
        return found


def _go_back(
    job: JobView, store: TargetStore, states: Mapping[TableId, TableState], now: Checkpoint, found: Rewound
) -> None:
    """Go back. The trail is held first. That the next apply has to build keys again is noted before they are taken off."""
    retention.register(job.trail, job.names.apply, found.to.sequence)
    windows = {table: _in_window(states[table], found) for table in (*found.tables, *found.left) if table in states}
    reach("rewind.held")
    with closing(target_of(job).tables(value_rules(job))) as tables:
        for table in found.tables:
            state = states[table]
            store.verifications.forget_verified(job.config.name, table)
            store.states.save_table(job.config.name, build_again(state), state)
            if state.schema:
                tables.take_off_keys(job.config.name, job.rules.target_table(state.schema))
            reach("rewind.opened")
    _move(job, store, now, found, [state for state in windows.values() if state])


def _in_window(state: TableState, found: Rewound) -> TableState | None:
    """Return the state that puts a table into a window again; None for one that does not stream. A table that stays as
    it is gets a window that ends where it begins: it has nothing to do up to the former place."""
    if not state.is_streaming:
        return None
    low = found.now.sequence if state.source in found.left else found.to.sequence
    if state.source in found.later:
        low = found.later[state.source].sequence
    stays = state.source in found.left
    return open_window(state if stays else build_again(state), low, found.now.sequence)


def _require_same(job: JobView, store: TargetStore, states: Sequence[TableState]) -> None:
    """Require that the tables are still as they were when looked at. After the claim nobody else applies. Raises
    StateError."""
    there = store.states.tables(job.config.name)
    for state in states:
        known = there.get(state.source)
        if known is None or not known.is_streaming or known.generation != state.generation:
            raise StateError(f"{state.source} has changed meanwhile", job=job.config.name, hint="try again")


def _move(job: JobView, store: TargetStore, now: Checkpoint, found: Rewound, states: list[TableState]) -> None:
    """Move the checkpoint and the windows, in one transaction of the target."""
    writer = merging(target_of(job).writer(value_rules(job), False))
    try:
        mine = writer.claim(job.config.name, uuid.uuid4().hex)
        _require_same(job, store, states)
        if (mine.position, mine.epoch) != (now.position, now.epoch):
            raise StateError("apply has moved on meanwhile", job=job.config.name, hint="stop it, then try again")
        with TrailReader(job.trail) as trail:
            refs = trail.descriptors(found.to.sequence, found.to.sequence + 1)
        then = Checkpoint(mine.owner, mine.epoch + 1, found.to, refs[0].last_commit_time if refs else now.commit_time)
        if writer.begin(mine, then) is not Begun.OPEN:
            raise StateError("the target has moved meanwhile", job=job.config.name, hint="stop apply, then try again")
        for state in states:
            writer.save_table(job.config.name, state)
        reach("rewind.commit")
        writer.commit()
        reach("rewind.committed")
    finally:
        writer.rollback()
        writer.close()
