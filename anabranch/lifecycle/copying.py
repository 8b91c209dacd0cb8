"""Copying tables for a load, whichever it is: what each demands, and what becomes of one that cannot be read any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from anabranch import log
from anabranch.contracts import TargetStore, drift_of
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    RowRefused,
    SourceError,
    SourceUnavailable,
    ValueRefused,
)
from anabranch.lifecycle.load_refusals import parked_for
from anabranch.lifecycle.taking import settle, take
from anabranch.load.order import Demand, demands
from anabranch.load.plan import LoadTable
from anabranch.load.quiet import TrailQuiet
from anabranch.load.run import load_tables
from anabranch.model.column_changes import FOLLOWS_NOTHING
from anabranch.model.condition import Waiting
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import Life, TableState, park
from anabranch.spark.engine import Engine
from anabranch.trail import retention
from anabranch.trail.identity import load as load_identity
from anabranch.trail.reader import TrailReader
from anabranch.trail.storage import LocalStorage
from anabranch.trail_end.room import GB, LoadRoom
from anabranch.view.definitions import parked_in
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of, source_of, target_of
from anabranch.view.options import log_options, source_limits, target_limits, value_rules

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


PARKING_SECONDS = 10.0  # how long capture may take to reach the statement after which a table cannot be read


class Watcher(Protocol):
    """The receiver of reports on how far a load is."""

    def begins(self) -> None: ...

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None: ...

    def progress(self, table: TableId, rows: int, estimate: int) -> None: ...


class Copying:
    """Copying of tables, as every call of `load` does it."""

    def __init__(self, job: JobView, engine: Engine, stop: Callable[[], bool], watcher: Watcher) -> None:
        self.job, self.name = job, job.config.name
        self.engine, self.stop, self.watcher = engine, stop, watcher
        self.source, self.target = source_of(job), target_of(job)

    def _park(self, store: TargetStore, state: TableState, reason: str) -> TableState:
        log.get(job=self.name, table=str(state.source)).warning("table_parked", reason=reason)
        parked = park(state, reason)
        store.states.save_table(self.name, parked, state)
        retention.unregister(self.job.trail, self.job.names.table(state.source))
        return parked

    def _load_level(self, tables: Sequence[LoadTable]) -> None:
        """Load the tables of one level. One that cannot be read any more, because a statement parks it, is left out."""
        if not tables:
            return
        take(self.job, tables)
        self._load_those_left(list(tables))
        self._settle()

    def _settle(self, is_through: bool = False) -> None:
        """Tell a trail of another job what of its load is here. `is_through`: the first load has ended."""
        if not self.job.captures:
            with closing(self.target.store()) as store:
                settle(self.job, store.states.tables(self.name), is_through)

    def _load_those_left(self, left: list[LoadTable]) -> None:
        while left:
            try:
                self._copy(left)
                return
            except (SourceError, RowRefused) as error:
                parked = self._parked_for(error) if isinstance(error, ValueRefused | RowRefused) else set()
                if (
                    not parked
                    and isinstance(error, SourceError)
                    and (reasons := self._parked_since(left, error) or self._drifted(left, error))
                ):
                    self._park_all(reasons)
                    parked = set(reasons)
                if not parked:
                    raise
                left = [load for load in left if load.schema.id not in parked]

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

    def _drifted(self, tables: Sequence[LoadTable], error: SourceError) -> dict[TableId, str]:
        """Return which of the tables, after such an error, cannot be read as they are defined in the trail, where a log tells
        that by rows alone: there may never be one."""
        job_uuid = trail_uuid(self.job)
        if isinstance(error, SourceUnavailable | ValueRefused) or self.stop() or job_uuid is None:
            return {}
        about = {one.schema.id: one.schema for one in tables if error.table in ("", None, str(one.schema.id))}
        found = drift_of(self.source, log_options(self.job, job_uuid), FOLLOWS_NOTHING, about)
        return {table: why for table, why in found.items() if isinstance(why, str)}

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
                room=self._room(),
            )
        except AnabranchError as error:
            error.job = error.job or self.name
            raise
        finally:
            trail.close()

    def _room(self) -> LoadRoom | None:
        """Return what tells whether a trail between jobs has room for more of the load; None where it is not limited."""
        limit = self.job.config.trail.load_limit_gb
        return None if limit is None else LoadRoom(self.job.trail, round(limit * GB))

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

    def _demands(self, schemas: Mapping[TableId, TableSchema]) -> list[list[Demand]]:
        with catalog_of(self.source) as catalog:
            return demands(schemas, catalog.log.logs_cascades(), catalog.log.logs_whole_rows())


def _replaced(trail: TrailReader, loaded: TableSchema) -> str:
    """Say why a table that is loaded by one definition cannot be followed: it was brought in again meanwhile, for
    another target.
    """
    latest = trail.history.latest(loaded.id)
    if latest is None or latest.version == loaded.version:
        return ""
    return f"it was altered while it was being loaded: anabranch load JOB --table {loaded.id.typed} --recreate brings it in"
