"""`load` for a job: which tables, in which order, and what they become at the target afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from anabranch import log
from anabranch.contracts import TargetStore
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    RowRefused,
    SourceError,
    SourceUnavailable,
    TablesParked,
    TargetError,
    ValueRefused,
)
from anabranch.failpoints import reach
from anabranch.lifecycle.beginning import prepare_target
from anabranch.lifecycle.joining import Joining
from anabranch.lifecycle.load_refusals import may_lack, parked_for
from anabranch.load.order import Demand, demands
from anabranch.load.plan import LoadTable
from anabranch.load.quiet import TrailQuiet
from anabranch.load.run import load_tables
from anabranch.model.condition import Waiting
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import DROPPED, Life, TableState, heard_of, park, tells_dropped
from anabranch.spark.engine import Engine
from anabranch.trail import retention
from anabranch.trail.identity import load as load_identity
from anabranch.trail.reader import TrailReader
from anabranch.trail.storage import LocalStorage
from anabranch.view.alone import alone
from anabranch.view.definitions import definitions, is_asked_for, parked_because, parked_in, parked_in_trail
from anabranch.view.opened import catalog_of, source_of, target_of
from anabranch.view.options import source_limits, target_limits, value_rules
from anabranch.view.refusals import refuse_while_cut_over

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

PARKING_SECONDS = 10.0  # how long capture may take to reach the statement after which a table cannot be read


class Watcher(Protocol):
    """The receiver of reports on how far a load is."""

    def begins(self) -> None: ...

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None: ...

    def progress(self, table: TableId, rows: int, estimate: int) -> None: ...


class Loading:
    """One call of `load`."""

    def __init__(self, job: JobView, engine: Engine, stop: Callable[[], bool], watcher: Watcher) -> None:
        self.job, self.name = job, job.config.name
        self.engine, self.stop, self.watcher = engine, stop, watcher
        self.source, self.target = source_of(job), target_of(job)

    def all_tables(self) -> None:
        """Load what was never loaded, or whose load was interrupted. Nothing to do is no error."""
        schemas = definitions(self.job)
        with closing(self.target.store()) as store:
            prepare_target(self.job, store)
            self.job.rules.targets(schemas)
            states = self._begin(store, schemas)
            self._leave_parked(store, states, schemas)
        schemas = {table: schema for table, schema in schemas.items() if table in states}
        if any(states[table].is_open for table in schemas):
            self.watcher.begins()
            self._load(schemas, states)
        reach("load.done")
        self._hand_on()
        retention.unregister(self.job.trail, self.job.names.load)

    def _hand_on(self) -> None:
        """Hold the trail until this target's apply has registered, where another target's reads it already."""
        names = self.job.names
        if not self.job.is_one_of_several or names.apply in retention.readers(self.job.trail):
            return
        with closing(self.target.store()) as store:
            checkpoint = store.jobs.checkpoint(self.name)
        if checkpoint is not None:
            retention.register(self.job.trail, names.apply, checkpoint.position.sequence)

    def tell_parked(self) -> None:
        """Raise TablesParked where tables are parked."""
        with closing(self.target.store()) as store:
            parked = [str(table) for table, state in sorted(store.states.tables(self.name).items()) if state.is_parked]
        if parked:
            hint = "anabranch status JOB says why and what to do"
            raise TablesParked(f"loaded, but {len(parked)} tables are parked: {', '.join(parked)}", hint=hint)

    def _begin(self, store: TargetStore, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, TableState]:
        """Hold the trail from its start before the first snapshot, and set the target's checkpoint there.

        The checkpoint comes after the states: apply begins where it finds one, with the tables that it finds then.
        """
        with TrailReader(self.job.trail) as trail:
            before_first, end = trail.first() - 1, trail.end()
        retention.hold(self.job.trail, self.job.names.load, before_first)
        reach("load.held")
        states = self._pending(store, schemas)
        native = end.position.native if end.position.sequence == before_first else ""
        reach("load.pending")
        store.jobs.create_checkpoint(self.name, Position(before_first, native), end.commit_time)
        reach("load.begun")
        return states

    def _pending(self, store: TargetStore, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, TableState]:
        """Return the tables to load. One without a state while there is a checkpoint came by a `load --table` that
        ended early: it joins.
        """
        states = store.states.tables(self.name)
        joins = store.jobs.checkpoint(self.name) is not None
        new = [
            heard_of(table, self.job.rules.target_table(schema).target, joins)
            for table, schema in schemas.items()
            if table not in states and (not joins or is_asked_for(self.job, table))
        ]
        if new:
            store.states.save_tables(self.name, [(state, None) for state in new])
        return states | {state.source: state for state in new}

    def _leave_parked(
        self, store: TargetStore, states: dict[TableId, TableState], schemas: Mapping[TableId, TableSchema]
    ) -> None:
        """Leave out tables that capture has parked before their load was through.

        Apply waits for the load, and comes to their barriers only behind it: nobody else would say it.
        """
        for table, state in list(states.items()):
            if state.is_open and table not in schemas:
                reason = parked_because(self.job, table) or "the trail has no definition of it"
                if tells_dropped(reason) and state.is_untouched:
                    self._forget(store, states.pop(table))
                else:
                    states[table] = self._park(store, state, reason)
        if self.job.is_one_of_several:
            self._leave_parked_elsewhere(store, states, schemas)

    def _leave_parked_elsewhere(
        self, store: TargetStore, states: dict[TableId, TableState], schemas: Mapping[TableId, TableSchema]
    ) -> None:
        """Leave out tables that were brought in again for another target meanwhile, and those whose barriers the trail
        may have dropped.
        """
        for table, state in list(states.items()):
            newer = schemas.get(table)
            if state.is_open and newer and state.schema and newer.version != state.schema.version:
                remedy = f"anabranch load JOB --table {table} --recreate brings it in"
                states[table] = self._park(store, state, f"it was altered while it was being loaded; {remedy}")
        for table, reason in parked_in_trail(self.job).items():
            if table not in states and not tells_dropped(reason):
                target = self.job.rules.target_of(table)
                assert target is not None, "it is included"
                store.states.save_table(self.name, park(heard_of(table, target), reason), None)

    def _forget(self, store: TargetStore, state: TableState) -> None:
        """Forget a table that the source has no more, and of which nothing has come to the target."""
        log.get(job=self.name, table=str(state.source)).info("table_forgotten", why=DROPPED)
        store.states.forget_table(self.name, state)
        retention.unregister(self.job.trail, self.job.names.table(state.source))

    def _park(self, store: TargetStore, state: TableState, reason: str) -> TableState:
        log.get(job=self.name, table=str(state.source)).warning("table_parked", reason=reason)
        parked = park(state, reason)
        store.states.save_table(self.name, parked, state)
        retention.unregister(self.job.trail, self.job.names.table(state.source))
        return parked

    def _load(self, schemas: Mapping[TableId, TableSchema], states: Mapping[TableId, TableState]) -> None:
        """Load level after level: the table between tells what a cascade does to grandchildren (load/order.py).

        What a table demands follows from all tables, also from those that are loaded already.
        """
        for level in self._demands(schemas):
            if self.stop():
                return
            todo = [d for d in level if states[d.table].is_open]
            self._load_level([self._load_table(schemas[d.table], d, states[d.table], schemas) for d in todo])

    def _demands(self, schemas: Mapping[TableId, TableSchema]) -> list[list[Demand]]:
        with catalog_of(self.source) as catalog:
            return demands(schemas, catalog.log.logs_cascades(), catalog.log.logs_whole_rows())

    def _load_level(self, tables: Sequence[LoadTable]) -> None:
        """Load the tables of one level. One that cannot be read any more, because a statement parks it, is left out."""
        left = list(tables)
        while left:
            try:
                return self._copy(left)
            except (SourceError, RowRefused) as error:
                parked = self._parked_for(error) if isinstance(error, ValueRefused | RowRefused) else set()
                if not parked and isinstance(error, SourceError) and (reasons := self._parked_since(left, error)):
                    self._park_all(reasons)
                    parked = set(reasons)
                if not parked:
                    raise
                left = [load for load in left if load.schema.id not in parked]
        return None

    def _parked_since(self, tables: Sequence[LoadTable], error: SourceError) -> dict[TableId, str]:
        """Return which of the tables capture has parked, and why. After most errors this waits a while, because capture
        may be some transactions behind the statement that caused the error."""
        is_end_or_value = isinstance(error, SourceUnavailable | ValueRefused)
        until = time.monotonic() + (0 if is_end_or_value else PARKING_SECONDS)
        while True:
            with TrailReader(self.job.trail) as trail:
                reasons = {load.schema.id: parked_in(trail, load.schema.id) for load in tables}
            parked = {table: reason for table, reason in reasons.items() if reason}
            if parked or time.monotonic() >= until or self.stop():
                return parked
            time.sleep(0.2)

    def _parked_for(self, refusal: ValueRefused | RowRefused) -> set[TableId]:
        """Park the tables for a row that cannot be loaded, and return them."""
        with closing(self.target.store()) as store:
            pairs = parked_for(self.job, refusal, store.states.tables(self.name))
            store.states.save_tables(self.name, [(parked, before) for before, parked in pairs])
        for _, parked in pairs:
            retention.unregister(self.job.trail, self.job.names.table(parked.source))
        return {parked.source for _, parked in pairs}

    def _park_all(self, parked: Mapping[TableId, str]) -> None:
        with closing(self.target.store()) as store:
            states = store.states.tables(self.name)
            for table, reason in parked.items():
                if table in states:
                    self._park(store, states[table], reason)

    def _copy(self, tables: Sequence[LoadTable]) -> None:
        identity = load_identity(LocalStorage(self.job.trail))
        assert identity is not None
        schemas = {load.schema.id: load.schema for load in tables}
        trail = TrailReader(self.job.trail)  # one reader for all: it reads the history again only where it has grown
        try:
            load_tables(
                self.name,
                self.engine,
                self.source,
                self.target,
                tables,
                lock=self.job.config.load.lock,
                rules=value_rules(self.job),
                expected_identity=identity.source_identity,
                quiet=TrailQuiet(self.job.trail, self.source),
                on_progress=self.watcher.progress,
                on_wait=self.watcher.waiting,
                stop=self.stop,
                parked=lambda table: parked_in(trail, table) or _replaced(trail, schemas[table]),
                raw=self.job.config.load.format == "auto",
                retry=(source_limits(self.job), target_limits(self.job)),
            )
        except AnabranchError as error:
            error.job = error.job or self.name
            raise
        finally:
            trail.close()

    def _load_table(
        self,
        schema: TableSchema,
        demand: Demand,
        state: TableState | None,
        schemas: Mapping[TableId, TableSchema],
    ) -> LoadTable:
        begun = state is not None and state.is_loading
        generation = (state.generation if state else 0) + (0 if begun else 1)
        joins = state is not None and state.facts.joins  # a `load --table` ended early
        is_asked = joins and state is not None and state.schema is not None  # else its options are not known
        keeps = self._keeps(schema.id, state, generation)
        return LoadTable(
            schema,
            self.job.rules.target_table(schema),
            self.job.rules.where(schema),
            max(generation, 1),
            empty=not keeps and self._may_empty(state if is_asked else None),
            keep=keeps,
            exact=demand.exact,
            changed_with=demand.changed_with,
            together=frozenset() if joins else demand.together,
            joins=joins,
            may_lack=may_lack(self.job, schema, schemas),
            aside_limit=self.job.config.apply.set_aside_limit,
        )

    # --- one table, while the others stream ---------------------------------------------------------------------------

    def _keeps(self, table: TableId, state: TableState | None, generation: int) -> bool:
        """Return whether the rows that the target table has stay. Raises ConfigError after an earlier load by this job:
        its rows would be there twice."""
        if state is not None and state.is_loading and state.generation == generation:
            return state.facts.kept  # it has begun
        if state is not None and state.state == Life.PENDING and state.facts.kept:
            return True  # the user has asked for it already
        if self.job.config.load.existing != "keep" and not (state is not None and state.facts.kept):
            return False
        if generation > 1:
            raise ConfigError(
                f"{table} was loaded before, and nobody can say which rows of its target are this job's",
                job=self.name,
                hint="remove them by hand, then: anabranch load JOB --table T --keep",
            )
        return True

    def _may_empty(self, state: TableState | None) -> bool:
        """Return whether rows that the target table has may go: those of an earlier load of this job, others only where the
        job says so (K29)."""
        return bool(state and state.generation) or self.job.config.load.existing == "empty"

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

    def one_table(self, table: TableId, recreate: bool, with_children: bool = False, keep: bool = False) -> None:
        """Load a table that streams, is parked, or is new (K15). Apply takes it out if need be, capture brings it in,
        it is emptied and loaded, and apply lets it join.

        `with_children`: also load the tables whose rows foreign keys change together with its own, unseen by the log.
        `keep`: rows that its target table already has stay.
        """
        refuse_while_cut_over(self.job)
        if not self.job.rules.includes(table):
            raise self.job.rules.not_replicated(table)
        with alone(self.job, self.stop):
            with closing(self.target.store()) as store:
                prepare_target(self.job, store)
                states = store.states.tables(self.name)
            self._with_children(table, states, recreate, with_children, keep)

    def _with_children(
        self, table: TableId, states: Mapping[TableId, TableState], recreate: bool, with_children: bool, keep: bool
    ) -> None:
        joining = Joining(self.job, self.source, self.target, self.stop)
        children = joining.children(table, states)
        joining.refuse_hidden([table, *children] if with_children else [table], states)
        if with_children:
            for one in (table, *children):  # refused before anything is taken out
                keeps = keep or self._keeps(one, states.get(one), states[one].generation + 1 if one in states else 1)
                if not keeps:
                    self._refuse_rows_of_others(one)
            if not joining.let_out(children, table):
                return
        if not with_children and table in states and not states[table].facts.joins:
            joining.refuse_children(table, [child for child in children if not states[child].is_parked])
        for one in (table, *(children if with_children else ())):
            if not self.stop():
                self._one_table(joining, one, recreate and one == table, keep)

    def _one_table(self, joining: Joining, table: TableId, recreate: bool, keep: bool) -> None:
        state = joining.states().get(table)
        if state is not None and state.is_resuming:
            raise ConfigError(f"{table} is waiting to be resumed", job=self.name, hint="start apply, which resumes it")
        is_parked = bool(parked_because(self.job, table))
        if state is not None and state.is_before_stream and not state.is_joining and not is_parked:
            raise ConfigError(
                f"the first load of {table} has not finished",
                job=self.name,
                hint="let it finish: anabranch load JOB; if a row of the table is refused, the table can be reloaded alone once"
                ' it is parked: [apply] on_error = "park"',
            )
        begun = state is not None and state.is_loading and not is_parked
        if begun and recreate and joining.stands_otherwise(table):  # its rows would be refused again and again
            if not joining.let_out([table], table):  # before its table goes: apply, or a load, could go on without rows
                return
            state, begun = joining.states().get(table), False
        generation = (state.generation if state else 0) + (0 if begun else 1)
        keeps = keep or self._keeps(table, state, generation)
        if not (begun or keeps):
            self._refuse_rows_of_others(table)
        is_first = state is None or not state.generation
        schema = state.schema if state and begun else None
        if schema is None:
            schema = joining.definition(table, state, recreate, keep)
        if schema is None:
            return
        if state is not None and state.target != self.job.rules.target_table(schema).target:
            joining.require_room(schema)
        joining.rename_labels(schema)
        changed = bool(state and (state.facts.recreate or (state.schema and not _is_made_as(state.schema, schema))))
        changed = changed or is_first or (recreate and bool(joining.differences(schema)))
        demand = self._demand(schema, joining.states())  # parents may have come to stream meanwhile
        load = LoadTable(
            schema,
            self.job.rules.target_table(schema),
            self.job.rules.where(schema),
            generation,
            empty=not keeps and self._may_empty(state),
            keep=keeps,
            recreate=recreate and changed,
            exact=demand.exact,
            changed_with=demand.changed_with,
            joins=True,
            may_lack=may_lack(self.job, schema, {t: s.schema for t, s in joining.states().items() if s.schema}),
            aside_limit=self.job.config.apply.set_aside_limit,
        )
        self._load_level([load])
        now = joining.states().get(table)
        if now is not None and now.is_parked and now.generation == generation:
            raise TablesParked(f"{table} is parked: {now.reason}", job=self.name)
        if parked := parked_because(self.job, table):
            raise TablesParked(f"{table} was parked again: {parked}", job=self.name, hint="load it once more")

    def _demand(self, schema: TableSchema, states: Mapping[TableId, TableState]) -> Demand:
        schemas = {t: s.schema for t, s in states.items() if s.schema and s.is_streaming} | {schema.id: schema}
        return next(demand for level in self._demands(schemas) for demand in level if demand.table == schema.id)


def _is_made_as(then: TableSchema, now: TableSchema) -> bool:
    return then.same_definition(now) and (then.partition_key, then.partitions) == (now.partition_key, now.partitions)


def _replaced(trail: TrailReader, loaded: TableSchema) -> str:
    """Say why a table that is loaded by one definition cannot be followed: it was brought in again meanwhile, for
    another target.
    """
    latest = trail.history.latest(loaded.id)
    if latest is None or latest.version == loaded.version:
        return ""
    return f"it was altered while it was being loaded: anabranch load JOB --table {loaded.id} --recreate brings it in"
