"""`load` of a job: all tables that were never loaded, or whose load was interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import TargetStore
from anabranch.errors import TablesParked, ValueRefused
from anabranch.failpoints import reach
from anabranch.lifecycle.beginning import prepare_target
from anabranch.lifecycle.hopping import POLL_S, THERE, has_whole_load
from anabranch.lifecycle.load_refusals import may_lack
from anabranch.lifecycle.taking import begin_anew, leave_aside
from anabranch.load.order import Demand
from anabranch.load.plan import LoadTable
from anabranch.model.condition import Waiting
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED, tells_dropped
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState, heard_of, park
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.trail_end import manifests
from anabranch.view.definitions import definitions, is_asked_for, parked_because, parked_in_trail

if TYPE_CHECKING:
    pass
from anabranch.lifecycle.copying import Copying


class Loading(Copying):
    """One call of `load` for all tables."""

    def all_tables(self) -> None:
        """Load what was never loaded, or whose load was interrupted. Nothing to do is no error."""
        if not self.job.captures:
            self._beside_the_other()
            if self.stop():
                return
        self._all_or(None)
        self._settle(is_through=not self.stop())
        reach("load.done")
        self._hand_on()
        retention.unregister(self.job.trail, self.job.names.load)

    def _beside_the_other(self) -> None:
        """Load tables whose rows are all in the trail, until the load at the source's site has ended; or until stopped.

        What cannot be loaded yet is left to the end: only then is it known that the other site brings no more of it."""
        loaded: frozenset[str] = frozenset()
        while not (self.stop() or has_whole_load(self.job)):
            found = manifests.listed(self.job.trail)
            if found != loaded:
                self._all_or(self._recorded)
                self._leave_aside(found)
                loaded = found
            self.watcher.waiting(f"{THERE}: {len(found)} tables of it are here", Waiting.CAPTURE)
            time.sleep(POLL_S)

    def _leave_aside(self, found: Collection[str]) -> None:
        """Say which tables of these manifests wait for others, or for the end."""
        with closing(self.target.store()) as store:
            states = store.states.tables(self.name)
        left = [table for table, state in states.items() if state.is_open and manifests.file_of(table) in found]
        if left and not self.stop():
            leave_aside(self.job, left)

    def _recorded(self, schemas: Mapping[TableId, TableSchema]) -> set[TableId]:
        """Return the tables whose rows the trail has, by the definition that is in force."""
        found = set()
        with closing(self.source.snapshot()) as snapshot:
            for table, schema in schemas.items():
                with suppress(ValueRefused):
                    snapshot.bounds(schema, 1)
                    found.add(table)
        return found

    def _all_or(self, some: Callable[[Mapping[TableId, TableSchema]], set[TableId]] | None) -> None:
        """Load all tables that are open, or those that `some` finds among them."""
        schemas = definitions(self.job)
        with closing(self.target.store()) as store:
            prepare_target(self.job, store)
            self.job.rules.targets(schemas)
            states = self._begin(store, schemas)
            self._leave_parked(store, states, schemas)
            if some is None and not self.job.captures:
                self._leave_unrecorded(store, states, schemas)
        schemas = {table: schema for table, schema in schemas.items() if table in states}
        is_open = {table: schema for table, schema in schemas.items() if states[table].is_open}
        ready = set(is_open) if some is None else some(is_open)
        if ready:
            self.watcher.begins()
            self._load(schemas, states, ready)

    def _hand_on(self) -> None:
        """Hold the trail until this target's apply has registered, where another target's reads it already."""
        names = self.job.names
        if not self._shares_trail or names.apply in retention.readers(self.job.trail):
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
        if store.jobs.checkpoint(self.name) is None and not store.states.tables(self.name):
            begin_anew(self.job)
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
        self._leave_altered(store, states, schemas)
        if self._shares_trail:
            self._leave_parked_elsewhere(store, states)

    @property
    def _shares_trail(self) -> bool:
        """Return whether others read the trail, too: other targets, or other jobs."""
        return self.job.is_one_of_several or not self.job.captures

    def _leave_unrecorded(
        self, store: TargetStore, states: dict[TableId, TableState], schemas: Mapping[TableId, TableSchema]
    ) -> None:
        """Leave out tables whose rows the trail of another job does not have, or not as the table is now: the others go on."""
        with closing(self.source.snapshot()) as snapshot:
            for table, state in list(states.items()):
                if not state.is_open or table not in schemas or state.generation:
                    continue
                try:
                    snapshot.bounds(schemas[table], 1)
                except ValueRefused as missing:
                    states[table] = self._park(store, state, f"{missing.message}; {missing.hint}")

    def _leave_altered(
        self, store: TargetStore, states: dict[TableId, TableState], schemas: Mapping[TableId, TableSchema]
    ) -> None:
        """Leave out tables that were altered, or brought in again for another target, since their load began."""
        for table, state in list(states.items()):
            newer = schemas.get(table)
            if state.is_open and newer and state.schema and newer.version != state.schema.version:
                remedy = f"anabranch load JOB --table {table.typed} --recreate brings it in"
                states[table] = self._park(store, state, f"it was altered while it was being loaded; {remedy}")

    def _leave_parked_elsewhere(self, store: TargetStore, states: dict[TableId, TableState]) -> None:
        """Leave out tables whose barriers the trail may have dropped."""
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

    def _load(
        self, schemas: Mapping[TableId, TableSchema], states: Mapping[TableId, TableState], ready: Collection[TableId]
    ) -> None:
        """Load what is `ready`, level after level: the table between tells what a cascade does to grandchildren
        (load/order.py). A level waits for all of the one before it, tables of one moment for each other.

        What a table demands follows from all tables, also from those that are loaded already.
        """
        for level in self._demands(schemas):
            if self.stop():
                return
            left = [d for d in level if states[d.table].is_open]
            todo = [d for d in left if all(t in ready for t in {d.table, *d.together} if states[t].is_open)]
            self._load_level([self._load_table(schemas[d.table], d, states[d.table], schemas) for d in todo])
            if len(todo) < len(left):
                return

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
