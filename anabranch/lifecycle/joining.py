"""A table that is to join while the others stream (K15): what has to hold first, and the definition it joins with.

What does not live here: the target's table (`joining_target.py`), copying (`copying.py`), and letting it join (apply).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import (
    PreflightContext,
    RowTarget,
    SourceConnector,
)
from anabranch.errors import ConfigError, Fenced, SchemaError
from anabranch.lifecycle.joining_target import AtTarget
from anabranch.model.ids import TableId
from anabranch.model.key_changes import goes_on_as, keys_apart
from anabranch.model.load_groups import ancestors, cascading_parents, group_of, load_command, parents_first
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import TableState, take_out
from anabranch.model.writers import own_targets
from anabranch.preflight.cascades import check_cascades
from anabranch.preflight.report import Report
from anabranch.trail import requests, retention
from anabranch.trail.lock import LockHeld, OsLock, holder
from anabranch.trail.reader import TrailReader
from anabranch.view.definitions import logs_cascades
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of
from anabranch.view.options import value_rules
from anabranch.view.running import is_applied, is_captured

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


ASKING = "asking.lock"  # in the job's home


@dataclass(frozen=True)
class Joining:
    """A `load --table`, up to capture's answer. `asked`: the tables that the command names; `with_children`: it said so."""

    job: JobView
    source: SourceConnector
    target: RowTarget
    stop: Callable[[], bool]
    asked: Sequence[TableId] = ()
    with_children: bool = False

    @property
    def name(self) -> str:
        return self.job.config.name

    @property
    def at_target(self) -> AtTarget:
        return AtTarget(self.job, self.source, self.target)

    def definition(
        self, table: TableId, state: TableState | None, recreate: bool, keep: bool = False
    ) -> TableSchema | None:
        """Return the definition from which on capture writes the table's rows; None when stopped while waiting.

        A table that streams is taken out first, by apply.
        """
        now = self._ready(table, awaits=True)
        if self.stop():
            return None
        self._require_target(now[table], state, recreate, keep)
        self._refuse_unconfirmed([] if recreate or keep else self.at_target.unconfirmed(now[table], state), [table])
        if not self.await_leaving([table]):
            return None
        hold = self.job.names.table(table)
        with TrailReader(self.job.trail) as trail:
            held = retention.readers(self.job.trail).get(hold)  # a parked table that may still be resumed has one
            # Rows that another job has read are older than now: all of the trail may be needed for them.
            end = trail.end().position.sequence if self.job.captures else trail.first() - 1
            retention.hold(self.job.trail, hold, min(end, held.sequence) if held else end)
        found = None
        try:
            with asking_alone(self.job, self.stop):
                found = self._in_force(now[table]) or self._brought_in(table)
        except LockHeld:
            pass  # stopped while another target's load asks
        finally:
            if found is None and not held:
                retention.unregister(self.job.trail, hold)
        return found

    def followed(self, table: TableId, awaits: bool) -> TableSchema:
        """Return the definition by which capture writes the table's rows by now. `awaits`: parents have to stream, or the
        caller was stopped while it waited for them. Raises SchemaError where capture writes none."""
        now = self._ready(table, awaits)
        self.at_target.refuse_older_functions(now[table])
        self.at_target.refuse_other_columns(now[table])
        found = self._followed(now[table])
        if found is None:
            hint = "anabranch load JOB --table T --from-now lets capture bring it in; without that option it is loaded"
            told = "the trail has no rows of it from any place on"
            raise SchemaError(told, table=str(table), job=self.name, hint=hint)
        return found

    def ready(self, table: TableId) -> TableSchema:
        """Return the source's definition of now of a table that can be replicated."""
        return self._ready(table, awaits=False)[table]

    def _require_target(self, now: TableSchema, state: TableState | None, recreate: bool, keep: bool) -> None:
        """Refuse a table whose rows the target cannot take as it is."""
        self.at_target.refuse_older_functions(now)
        if not recreate and (state is None or not state.generation):
            self.at_target.require_room(now, keep)
        if keep:
            self.at_target.refuse_other_columns(now)

    def _ready(self, table: TableId, awaits: bool, beside: Collection[TableId] = ()) -> dict[TableId, TableSchema]:
        """Return the source's definitions of now, of which this one can be replicated. `awaits`: its parents stream, or the
        caller was stopped while it waited for them. `beside`: tables that are loaded with it, by their definitions of now."""
        now = self._at_source(table)
        self._source_report(table, now).require()
        if not logs_cascades(self.job, self.source):
            values = value_rules(self.job)
            known = _schemas(self.states()) | {one: now[one] for one in beside if one in now}
            others = [schema for one, schema in known.items() if one != table]
            Report(self.name, tuple(check_cascades(self.job.rules, [now[table]], values, others))).require()
            if awaits:
                self._await_parents(table, now)
        return now

    def _in_force(self, now: TableSchema) -> TableSchema | None:
        """Return the definition by which capture writes the table's rows already, for another target or another job.

        Brought in once more it would be another one, for those, too.
        """
        is_for_others = self.job.is_one_of_several or self.job.config.hop is not None
        found = self._followed(now) if is_for_others else None
        if found is None and not self.job.captures:
            raise SchemaError(
                "the trail has no rows of it from any place on: capture does not follow it",
                table=str(now.id),
                job=self.name,
                hint=f"at the source's site: anabranch load JOB --table {now.id.typed}; then here once more",
            )
        return found

    def _followed(self, now: TableSchema) -> TableSchema | None:
        with TrailReader(self.job.trail) as trail:
            found = trail.history.in_force().get(now.id)
        if found is not None and (not goes_on_as(found, now) or _has_other_fields(found, now)):
            raise SchemaError(
                "its definition changed at the source, and capture has not come to that yet",
                table=str(now.id),
                job=self.name,
                hint="let capture run, then load it",
            )
        return found and _as_now(found, now)

    def _brought_in(self, table: TableId) -> TableSchema | None:
        """Return the definition that capture answers a request with; None when stopped while waiting."""
        asked = requests.Asking(self.job.trail, table)
        self._tell_wait(table)
        while (answer := asked.answer()) is None:
            if self.stop():
                asked.withdraw()
                return None
            time.sleep(0.2)
        if answer.refusal:
            raise SchemaError(answer.refusal, table=str(table), job=self.name, hint="look at the table at the source")
        with TrailReader(self.job.trail) as trail:
            return trail.history.latest(table)

    def _tell_wait(self, table: TableId) -> None:
        why = "it has to bring the table in"
        if is_captured(self.job):
            log.get(job=self.name, table=str(table)).info("waiting_for_capture", why=why)
        else:
            remedy = "start anabranch run JOB, or anabranch capture JOB"
            log.get(job=self.name, table=str(table)).warning(
                "waiting_for_capture", why=f"{why}, and none runs; {remedy}"
            )

    def require_group(
        self, group: Sequence[TableId], states: Mapping[TableId, TableState], recreate: bool, keep: bool
    ) -> None:
        """Refuse what one of several tables would be refused for, before any is taken out. `group`: in the order of loads."""
        would = []
        for place, table in enumerate(group):
            now = self._ready(table, awaits=False, beside=group)
            if not logs_cascades(self.job, self.source):
                before, behind = group[: place + 1], group[place + 1 :]
                self._require_parents(table, now, cascading_parents(now, table) - {*before}, behind)
            self._require_target(now[table], states.get(table), recreate, keep)
            self._in_force(now[table])
            would += [] if recreate or keep else self.at_target.unconfirmed(now[table], states.get(table))
        self._refuse_unconfirmed(would, group)

    def in_order(self, tables: Sequence[TableId], states: Mapping[TableId, TableState]) -> list[TableId]:
        """Return the tables as they are loaded one after the other: parents first, by the definitions of now."""
        if len(tables) < 2:
            return list(tables)
        return parents_first(tables, _schemas(states) | self._at_source(tables[0]))

    def _refuse_unconfirmed(self, would: Sequence[str], tables: Sequence[TableId]) -> None:
        if would:
            hint = load_command(self.asked or tables, recreate=True, with_children=self.with_children)
            raise ConfigError("\n".join(would), job=self.name, hint=hint)

    def children(self, table: TableId, states: Mapping[TableId, TableState]) -> list[TableId]:
        """Return the job's tables whose rows foreign keys change with this one's, unseen in the source's log; parents first."""
        if logs_cascades(self.job, self.source):
            return []
        schemas = _schemas(states)
        above = {name: ancestors(schemas, name) for name in schemas}
        found = [name for name in sorted(schemas) if table in above[name] and name != table]
        return sorted(found, key=lambda name: len(above[name]))

    def refuse_hidden(self, tables: Sequence[TableId], states: Mapping[TableId, TableState]) -> None:
        """Refuse a table that foreign keys reach through a table between, while apply runs: the log does not have the
        changed rows of the table between.

        What the keys do to the table while it is loaded would be lost. It can be loaded while apply stands still.
        """
        streaming = [table for table in tables if table in states and states[table].is_streaming]
        if not streaming or not is_applied(self.job) or logs_cascades(self.job, self.source):
            return
        schemas = {name: state.schema for name, state in states.items() if state.schema}
        for table in streaming:
            if any(cascading_parents(schemas, parent) for parent in cascading_parents(schemas, table)):
                raise ConfigError(
                    f"foreign keys change {table} through another table, which the source's log does not show",
                    job=self.name,
                    hint="stop apply (and run; capture goes on), load the table, start again",
                )

    def refuse_children(self, table: TableId, children: Sequence[TableId], recreate: bool = False) -> None:
        """Refuse to load a table without its children: they would miss what its changes did to them meanwhile."""
        if not children:
            return
        names = ", ".join(map(str, children))
        why = f"foreign keys change rows of {names} with those of {table}, and the source's log does not show it"
        now, states = self._at_source(table), self.states()
        found = [one for one in (*self.asked, table, *children) if one in now] if not recreate else []
        would = [line for one in dict.fromkeys(found) for line in self.at_target.unconfirmed(now[one], states.get(one))]
        command = load_command(self.asked or [table], recreate or bool(would), with_children=True)
        raise ConfigError("\n".join([why, *would]), job=self.name, hint=f"load them again with it: {command}")

    def let_out(self, tables: Sequence[TableId]) -> bool:
        """Take tables out, parents being the first of them; those behind the first that are being loaded begin anew. Returns
        False when stopped before.

        One that was parked on its way stays parked: its load begins anew without that.
        """
        while joining := [s for t in tables[1:] if (s := self.states().get(t)) and s.is_joining]:
            if self.stop():
                return False
            is_waited_for = is_applied(self.job)  # while apply runs, loaded ones may join at any moment
            self._take_out([s for s in joining if not s.is_loaded or not is_waited_for])
            time.sleep(0.2)
        return self.await_leaving([*reversed(tables)])

    def await_leaving(self, tables: Sequence[TableId]) -> bool:
        """Take tables that are followed out, by apply where it runs. Returns False when stopped before."""
        is_told = False
        while followed := [
            s for t in dict.fromkeys(tables) if (s := self.states().get(t)) and (s.is_streaming or s.is_in_window_again)
        ]:
            if self.stop():
                for state in followed:
                    retention.unregister(self.job.trail, self.job.names.leave(state.source))
                return False
            if self.job.applies:
                self._ask_to_leave(followed)
            if not is_applied(self.job):
                self._take_out(followed)
                continue
            if not is_told:
                names = [str(state.source) for state in followed]
                log.get(job=self.name, tables=names).info("waiting_for_apply", why="it has to take them out")
            is_told = True
            time.sleep(0.2)
        return True

    def _ask_to_leave(self, followed: Sequence[TableState]) -> None:
        """Ask apply to let the tables go, also where it does not run: one that starts at this moment sees the request."""
        asked = retention.readers(self.job.trail).keys()
        with TrailReader(self.job.trail) as trail:
            end = trail.end().position.sequence
        for state in followed:
            if (name := self.job.names.leave(state.source)) not in asked:
                retention.hold(self.job.trail, name, end)

    def _take_out(self, followed: Sequence[TableState]) -> None:
        """Take tables out while apply does not run. An apply that starts at this moment may have done so already: whoever
        calls looks again."""
        with closing(self.target.store()) as store:
            for state in followed:
                with suppress(Fenced):  # apply was quicker
                    store.states.save_table(self.name, take_out(state), state)

    def _at_source(self, table: TableId) -> dict[TableId, TableSchema]:
        """Return the definitions that the source has now, of all included tables; this one can be replicated."""
        with catalog_of(self.source) as catalog:
            now = catalog.tables(self.job.rules.includes)
            mine = [w for w in catalog.writers() if w.key == trail_uuid(self.job) and not w.through]
        if mine:
            now = self._without_own(table, now, own_targets(mine, mine[0].key))
        if table not in now:
            hint = "check the name and the user's grants; a table that is gone for good belongs into [[rules]] exclude"
            raise SchemaError("the source has no such table", table=str(table), job=self.name, hint=hint)
        self.job.rules.target_table(now[table])
        return now

    def _without_own(
        self, table: TableId, now: Mapping[TableId, TableSchema], own: Collection[TableId]
    ) -> dict[TableId, TableSchema]:
        """Return the definitions without the tables that a job whose target is its source writes itself.

        Raises ConfigError for one of them, and for a table that would be written to one that is there and is not the
        job's.
        """
        read = self.states().keys()
        if table in own - read:
            hint = "load the table that is written to it, or give this one's copy to another job"
            raise ConfigError(
                f"{table} is the job's own target, in the database that it reads", job=self.name, hint=hint
            )
        target = self.job.rules.target_of(table)
        if target in read or (target in now and target not in own):
            hint = "give it another target ([[rules]] target), or leave that table out ([[rules]] exclude); a table that a load"
            raise ConfigError(
                f"source and target are the same database, and {target} is a table that the job reads",
                job=self.name,
                hint=f"{hint} which was killed has left there is dropped by hand",
            )
        return {one: schema for one, schema in now.items() if one not in own or one in read}

    def _source_report(self, table: TableId, now: Mapping[TableId, TableSchema]) -> Report:
        """Return the findings of the source's preflight about this table."""
        lacks = {state.source: state.facts.left_out for state in self.states().values() if state.source != table}
        with closing(self.source.checks()) as checks:
            dropped = {one: (*self.job.rules.dropped(one), *lacks.get(one, ())) for one in now}
            results = checks.run(PreflightContext(self.name, {}, now, {}, dropped))
        return Report(self.name, tuple(result for result in results if result.table == str(table)))

    def _await_parents(self, table: TableId, now: Mapping[TableId, TableSchema]) -> None:
        """Wait until the parents stream whose changes change rows of the table unseen (K1)."""
        parents, is_told = cascading_parents(now, table) - {table}, False
        while not self.stop():
            states = self.states()
            self._require_parents(table, now, parents)
            if all(states[parent].is_streaming for parent in parents) or not is_applied(self.job):
                return  # if apply does not run, they join first when it starts
            if not is_told:
                log.get(job=self.name, table=str(table)).info("waiting_for_parents", parents=list(map(str, parents)))
            is_told = True
            time.sleep(0.2)

    def _require_parents(
        self,
        table: TableId,
        now: Mapping[TableId, TableSchema],
        parents: Collection[TableId],
        leaving: Collection[TableId] = (),
    ) -> None:
        """Require that tables stream, or come to that by themselves. The hint is the command that loads all that is needed.
        `leaving`: tables that are about to be taken out, and are loaded later than this one."""
        states = self.states()
        lost = {one for one in {*now, *states} if one not in states or not states[one].is_on_its_way} | {*leaving}
        if not (away := [parent for parent in sorted(parents) if parent in lost]):
            return
        why = f"foreign keys change rows of {table} with rows of tables that are not streaming: {', '.join(map(str, away))}"
        if any(table in ancestors(now, parent) for parent in away):
            hint = (
                "they change each other in a circle: remove the job's state (anabranch drop JOB --execute), load again"
            )
            raise ConfigError(why, job=self.name, hint=hint)
        group = group_of(table, {one: now[one] for one in now if one in states or one in ancestors(now, table)}, lost)
        group = parents_first({*group, *self.asked}, now)
        would = [line for one in group if one in now for line in self.at_target.unconfirmed(now[one], states.get(one))]
        hint = f"load them together, parents first: {load_command(group, bool(would), self.with_children)}"
        raise ConfigError("\n".join([why, *would]), job=self.name, hint=hint)

    def stands_otherwise(self, table: TableId) -> bool:
        """Return whether the target's table is not what rows of the source's definition of now are written for."""
        return bool(self.at_target.differences(self._at_source(table)[table]))

    def states(self) -> dict[TableId, TableState]:
        with closing(self.target.store()) as store:
            return store.states.tables(self.name)


def _schemas(states: Mapping[TableId, TableState]) -> dict[TableId, TableSchema]:
    return {name: state.schema for name, state in states.items() if state.schema}


def _as_now(found: TableSchema, now: TableSchema) -> TableSchema:
    """Return a definition with what may have changed since and is no part of it: indexes, partitions, and what a type that is
    spelled alike is made of, such as the labels of an enum. Rows have the same texts either way. Fields of composites stay:
    capture notices another one by the states of types that stand beside them, and a definition of a release before has neither.
    Indexes stay where the source's keys are others by now (capture goes on): which form a text has depends on what is in a key.
    """
    return replace(
        found,
        columns=tuple(map(_column_as_now, found.columns, now.columns)),
        indexes=found.indexes if keys_apart(found, now) else now.indexes,
        partitions=now.partitions,
        partition_key=now.partition_key,
    )


def _column_as_now(then: Column, now: Column) -> Column:
    if then.type is None or now.type is None:
        return then
    return replace(then, type=replace(now.type, fields=then.type.fields))


def _has_other_fields(found: TableSchema, now: TableSchema) -> bool:
    """Return whether a composite type was altered, which capture has not noticed: rows of the trail may be of before."""
    types = ((then.type, here.type) for then, here in zip(found.columns, now.columns, strict=True))
    return any(then and here and then.fields and then.fields != here.fields for then, here in types)


@contextmanager
def asking_alone(job: JobView, stop: Callable[[], bool]) -> Iterator[None]:
    """Let one target's load at a time ask capture for tables. Raises LockHeld when stopped while it waits."""
    if not job.is_one_of_several:
        yield
        return
    path = job.config.home / ASKING
    if found := holder(path):
        log.get(job=job.config.name).info("waiting_for_another_load", why=f"{found} asks capture for a table")
    with closing(OsLock(path, math.inf, stop)):
        yield
