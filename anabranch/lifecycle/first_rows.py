"""The rows that tables have when a job that keeps changes begins: each table once, in front of its first change.

A table is read in one snapshot that has one place of the log, found as for tables without a key: all changes up to that place
are in its rows, and apply leaves them out as behind any load; none of those behind it is. Table and state are written together,
so a load that was killed goes on with the tables that are not done. What does not live here: how they are written (FirstRows).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from anabranch import log
from anabranch.contracts import Bounds, FirstRows, SnapshotReader, TakesFirstRows, TargetStore
from anabranch.errors import ConfigError, RowRefused
from anabranch.failpoints import reach
from anabranch.load.copy import ChunkWork
from anabranch.load.plan import LoadPiece, LoadTable
from anabranch.load.quiet import TrailQuiet
from anabranch.model.table_life import TableState, park, vouch
from anabranch.rows.appended import Committed
from anabranch.rows.line_columns import columns_of_lines, whole_lines
from anabranch.view.definitions import definitions, parked_because
from anabranch.view.identity import followed_identity
from anabranch.view.opened import end_of, source_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.view.job_view import JobView

PAUSE_S = 0.5  # between two looks whether capture has come to a snapshot
TELLS_S = 0.5  # between two reports of how many rows there are
NONE = 0  # no transaction has this sequence: the rows are of none
ALTERED = "it was altered before its rows were read; begin again: anabranch drop JOB --execute, then run the job"


def refuse_unfit(job: JobView, schemas: list[TableSchema]) -> None:
    """Raise ConfigError for tables of which a filter takes some rows only, and for text that a load would tell otherwise than
    changes are told."""
    if job.config.types.nul == "strip":
        what = (
            '[types] nul = "strip" is not possible beside an initial load at this target: changes keep zero characters'
        )
        raise ConfigError(what, job=job.config.name, hint="correct such rows at the source, and leave the key out")
    if found := [str(schema.id) for schema in schemas if job.rules.where(schema) is not None]:
        what = f"the initial load of tables with a filter is not possible at this target: {', '.join(found)}"
        raise ConfigError(
            what, job=job.config.name, hint="leave out [target.options] initial_load, or [[tables]] where"
        )


class Watcher(Protocol):
    """The receiver of reports on how far the rows are: `begins` before the first table, then rows of each that are read."""

    def begins(self) -> None: ...

    def progress(self, table: TableId, rows: int, estimate: int) -> None: ...


def load_first_rows(job: JobView, store: TargetStore, stop: Callable[[], bool], watcher: Watcher) -> None:
    """Load the tables that have begun and have no rows yet. Raises what reading and writing raise; may be called again."""
    target = end_of(job)
    states = [one for _, one in sorted(store.states.tables(job.config.name).items()) if one.is_open]
    if not states or not isinstance(target, TakesFirstRows):
        return
    watcher.begins()
    source = source_of(job)
    identity = followed_identity(job) or ""
    quiet = TrailQuiet(job.trail, source)
    work = ChunkWork(job.config.name, source, end_of(job), value_rules(job), job.config.load.lock, identity, quiet)
    with closing(target.first_rows()) as first:
        for state in states:
            if stop():
                return
            schema = definitions(job).get(state.source)  # of now: tables before it may have taken long
            if schema is None:
                why = parked_because(job, state.source) or ALTERED
                store.states.save_table(job.config.name, park(state, why), state)
                continue
            try:
                _Table(job, work, first, state, schema, stop, watcher).load()
            except _Stopped:
                return


class _Stopped(Exception):
    """The load was asked to end: nothing of the table that it was at is written."""


class _Table:
    """The load of one table."""

    def __init__(
        self,
        job: JobView,
        work: ChunkWork,
        first: FirstRows,
        state: TableState,
        schema: TableSchema,
        stop: Callable[[], bool],
        watcher: Watcher,
    ) -> None:
        self.stop, self.watcher, self.has_told = stop, watcher, False
        self.job, self.work, self.first, self.state, self.schema = job, work, first, state, schema
        self.table = job.rules.target_table(schema)
        load = LoadTable(schema, self.table, exact=True)
        self.piece = LoadPiece(load, 0, Bounds())

    def load(self) -> None:
        """Read the table in a snapshot of one place, as soon as there is one."""
        while not self.stop():
            with closing(self.work.source.snapshot(self.work.expected_identity)) as snapshot:
                marks = self.work.marks(snapshot, self.piece)
                if marks is not None:
                    self._write(snapshot, marks[1])
                    return
            time.sleep(PAUSE_S)

    def _write(self, snapshot: SnapshotReader, mark: str) -> None:
        name, place = self.job.config.name, self.work.source.order.mark(mark)
        now = place.commit_time or time.time_ns() // 1000
        committed = Committed(NONE, place.native, now)
        estimate = snapshot.estimate(self.schema)
        rows = self._rows(snapshot, estimate)
        try:
            count = self.first.load(name, self.state, lambda rows: self._after(mark, rows), self.table, committed, rows)
        except BaseException:
            if self.has_told:  # none of them is there: they were one transaction
                self.watcher.progress(self.schema.id, 0, estimate)
            raise
        reach("first.committed")
        log.get(job=name, table=str(self.state.source)).info("first_rows_written", rows=count, position=place.native)

    def _after(self, mark: str, rows: int) -> TableState:
        return replace(vouch(self.state, self.schema, self.state.target, mark, (), False), rows_loaded=rows)

    def _rows(self, snapshot: SnapshotReader, estimate: int) -> Iterator[pa.Table]:
        """Yield the rows, and tell how many the target has taken, now and then."""
        count, due = 0, 0.0
        for lines in whole_lines(self.work.blocks(snapshot, [self.piece])):
            if self.stop():
                raise _Stopped
            try:
                block = columns_of_lines(self.table, lines)
            except ValueError as error:
                raise RowRefused(f"a row cannot be read: {error}", table=str(self.schema.id)) from error
            yield block
            count += len(block)
            if time.monotonic() >= due:
                due, self.has_told = time.monotonic() + TELLS_S, True
                self.watcher.progress(self.schema.id, count, estimate)
        if count:
            self.watcher.progress(self.schema.id, count, count)
        reach("first.read")
