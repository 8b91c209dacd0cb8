"""`load --table`: one table, or some, while the others stream (K15)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from anabranch.errors import (
    AnabranchError,
    ConfigError,
    TablesParked,
    TargetError,
    ValueRefused,
)
from anabranch.lifecycle.asking import ask_for_load
from anabranch.lifecycle.beginning import prepare_target
from anabranch.lifecycle.joining import Joining
from anabranch.lifecycle.load_refusals import may_lack
from anabranch.lifecycle.taking import ask_again, put_back, taken
from anabranch.load.order import Demand
from anabranch.load.plan import LoadTable
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.trail import retention
from anabranch.view.alone import alone
from anabranch.view.definitions import definitions, parked_because
from anabranch.view.refusals import refuse_while_cut_over

if TYPE_CHECKING:
    pass
from anabranch.lifecycle.copying import Copying


class LoadingOne(Copying):
    """One call of `load --table`."""

    def these(self, tables: Sequence[TableId], recreate: bool, with_children: bool = False, keep: bool = False) -> None:
        """Load tables that stream, are parked, or are new (K15), one after the other, parents first. Apply takes them out if
        need be, capture brings them in, they are emptied and loaded, and apply lets them join.

        `with_children`: also load the tables whose rows foreign keys change together with theirs, unseen by the log.
        `keep`: rows that their target tables already have stay. Several are taken out together, before the first is loaded:
        what one of them is refused for is said before that.
        """
        refuse_while_cut_over(self.job)
        for table in tables:
            if not self.job.rules.includes(table):
                raise self.job.rules.not_replicated(table)
        with alone(self.job, self.stop):
            with closing(self.target.store()) as store:
                prepare_target(self.job, store)
                states = store.states.tables(self.name)
            self._together(list(dict.fromkeys(tables)), states, recreate, with_children, keep)

    def _refuse_rows_of_others(self, table: TableId) -> None:
        """Refuse to empty a table that other jobs write to before it is taken out of the stream."""
        target = self.job.rules.target_of(table)
        with closing(self.target.store()) as store:
            if target in store.states.others(self.name):
                raise TargetError(
                    f"other jobs write to {target}: it is not emptied",
                    table=str(table),
                    job=self.name,
                    hint="remove this job's rows from it by hand, then: anabranch load JOB --table T --keep; a job that is gone"
                    " is removed by anabranch drop",
                )

    def _together(
        self,
        tables: Sequence[TableId],
        states: Mapping[TableId, TableState],
        recreate: bool,
        with_children: bool,
        keep: bool,
    ) -> None:
        joining = Joining(self.job, self.source, self.target, self.stop, tables, with_children)
        tables = joining.in_order(tables, states)
        children = {table: joining.children(table, states) for table in tables}
        below = [one for table in tables for one in children[table]] if with_children else []
        if len(tables) < 2:  # what was asked for is the first, also where its children change it in turn
            group = list(dict.fromkeys([*tables, *joining.in_order(below, states)]))
        else:
            group = joining.in_order([*tables, *below], states)
        joining.refuse_hidden(group, states)
        for table in tables:
            beside = [one for one in children[table] if one not in group and not states[one].is_parked]
            if table in states and not states[table].facts.joins:
                joining.refuse_children(table, beside, recreate)
        with self._put_back_unless_begun(group, states):
            if len(group) > 1 or with_children:
                self._require_all(joining, group, recreate, keep)
                if self.stop():
                    return
                self.watcher.begins()
                if not joining.let_out(group):
                    return
            for one in group:
                if not self.stop():
                    self._one_table(joining, one, recreate, keep)

    @contextmanager
    def _put_back_unless_begun(self, group: Sequence[TableId], states: Mapping[TableId, TableState]) -> Iterator[None]:
        """Put back what the trail is told of the tables' loads where nothing of them has begun: a load that is refused needs no
        files, which the load at the source's site may wait for. `states`: of before."""
        before = taken(self.job)
        try:
            yield
        finally:
            if before:
                with suppress(AnabranchError):  # files that stay too long are better than what ended this unsaid
                    if self._are_as(states, group):
                        put_back(self.job, before, group)

    def _are_as(self, states: Mapping[TableId, TableState], group: Sequence[TableId]) -> bool:
        """Return whether none of the tables has been taken out, or begun to load."""
        with closing(self.target.store()) as store:
            now = store.states.tables(self.name)
        return all(_stage(now.get(one)) == _stage(states.get(one)) for one in group)

    def _require_all(
        self,
        joining: Joining,
        group: Sequence[TableId],
        recreate: bool,
        keep: bool,
    ) -> None:
        """Refuse what would stop a load of several tables on its way, before the first is taken out. Returns early when
        stopped while the source's site is asked for rows."""
        states = joining.states()
        parked = {one for one in group if parked_because(self.job, one)}
        for one in group:
            state = states.get(one)
            is_let_out = state and (state.is_in_window_again or (state.is_joining and one != group[0]))
            if not is_let_out:
                self._refuse_unfinished(one, state, one in parked)
        for one in group:
            goes_on = one == group[0] and one in states and states[one].is_loading and one not in parked
            if not (goes_on or self.job.captures):
                self._refuse_unrecorded(one)
            if self.stop():
                return
        joining.require_group(group, states, recreate, keep)
        for one in group:
            keeps = keep or self._keeps(one, states.get(one), states[one].generation + 1 if one in states else 1)
            if not keeps:
                self._refuse_rows_of_others(one)

    def _one_table(self, joining: Joining, table: TableId, recreate: bool, keep: bool) -> None:
        state = joining.states().get(table)
        is_parked = bool(parked_because(self.job, table))
        self._refuse_unfinished(table, state, is_parked)
        begun = state is not None and state.is_loading and not is_parked
        if not (begun or self.job.captures):
            self._refuse_unrecorded(table)
        if begun and recreate and joining.stands_otherwise(table):  # its rows would be refused again and again
            self.watcher.begins()
            if not joining.let_out([table]):  # before its table goes: apply, or a load, could go on without rows
                return
            state, begun = joining.states().get(table), False
        load = self._planned(joining, table, state, begun, recreate, keep)
        if load is None:
            return
        self.watcher.begins()
        self._load_level([load])
        now = joining.states().get(table)
        if now is not None and now.is_parked and now.generation == load.generation:
            raise TablesParked(f"{table} is parked: {now.reason}", job=self.name)
        if parked := parked_because(self.job, table):
            raise TablesParked(f"{table} was parked again: {parked}", job=self.name, hint="load it once more")
        if (
            not self.job.applies
        ):  # with its rows in the trail it is through; else apply lets go of the trail as it joins
            retention.unregister(self.job.trail, self.job.names.table(table))

    def _refuse_unrecorded(self, table: TableId) -> None:
        """Have the table loaded again at the source's site where the trail of another job has no rows of it, or has them no
        more: before the table is taken out. Raises ValueRefused where that cannot be."""
        ask_again(self.job, table)
        missing = self._missing_there(table)
        if missing is not None and ask_for_load(self.job, table, missing, self.stop, self.watcher):
            missing = self._missing_there(table)
            if missing is not None:
                raise missing

    def _missing_there(self, table: TableId) -> ValueRefused | None:
        """Return why the trail has no rows of the table that can be used."""
        schema = definitions(self.job).get(table)
        if schema is None:
            hint = f"at the source's site: anabranch load JOB --table {table.typed}"
            return ValueRefused("capture does not follow it", table=str(table), hint=hint)
        try:
            with closing(self.source.snapshot()) as snapshot:
                snapshot.bounds(schema, 1)
        except ValueRefused as missing:
            return missing
        return None

    def _refuse_unfinished(self, table: TableId, state: TableState | None, is_parked: bool) -> None:
        """Refuse a table that waits to be resumed, or that the first load of the job has not brought into the stream."""
        if state is not None and state.is_resuming:
            raise ConfigError(f"{table} is waiting to be resumed", job=self.name, hint="start apply, which resumes it")
        if state is not None and state.is_before_stream and not state.is_joining and not is_parked:
            raise ConfigError(
                f"the first load of {table} has not finished",
                job=self.name,
                hint="let it finish: anabranch load JOB; if a row of the table is refused, the table can be reloaded alone once"
                ' it is parked: [apply] on_error = "park"',
            )

    def _planned(
        self, joining: Joining, table: TableId, state: TableState | None, begun: bool, recreate: bool, keep: bool
    ) -> LoadTable | None:
        """Say how the table is loaded, once capture has its definition. None if the user stopped it first. `begun`: a load
        that ended early goes on."""
        generation = (state.generation if state else 0) + (0 if begun else 1)
        keeps = keep or self._keeps(table, state, generation)
        if not (begun or keeps):
            self._refuse_rows_of_others(table)
        schema = state.schema if state and begun else None
        if schema is None:
            schema = joining.definition(table, state, recreate, keep)
        if schema is None:
            return None
        if state is not None and state.target != self.job.rules.target_table(schema).target:
            joining.at_target.require_room(schema)
        joining.at_target.rename_labels(schema)
        demand = self._demand(schema, joining.states())  # parents may have come to stream meanwhile
        return LoadTable(
            schema,
            self.job.rules.target_table(schema),
            self.job.rules.where(schema),
            generation,
            empty=not keeps and self._may_empty(state),
            keep=keeps,
            recreate=recreate and self._is_made_otherwise(joining, state, schema),
            exact=demand.exact,
            changed_with=demand.changed_with,
            joins=True,
            may_lack=may_lack(self.job, schema, {t: s.schema for t, s in joining.states().items() if s.schema}),
            aside_limit=self.job.config.apply.set_aside_limit,
        )

    def _is_made_otherwise(self, joining: Joining, state: TableState | None, schema: TableSchema) -> bool:
        """Return whether the target table may be another than one that is made now."""
        if state is None or not state.generation or state.facts.recreate:
            return True
        if joining.at_target.lacks(schema.id, state):
            return True
        return bool(state.schema and not _is_made_as(state.schema, schema)) or bool(
            joining.at_target.differences(schema)
        )

    def _demand(self, schema: TableSchema, states: Mapping[TableId, TableState]) -> Demand:
        schemas = {t: s.schema for t, s in states.items() if s.schema and s.is_streaming} | {schema.id: schema}
        return next(demand for level in self._demands(schemas) for demand in level if demand.table == schema.id)


def _stage(state: TableState | None) -> object:
    return state and (state.state, state.generation, state.reason, state.facts.joins)


def _is_made_as(then: TableSchema, now: TableSchema) -> bool:
    is_divided_alike = (then.partition_key, then.divided_as) == (now.partition_key, now.divided_as)
    return then.same_definition(now) and is_divided_alike
