"""The target's side of the initial load: chunks of rows with their ledger rows, each in one transaction.

What does not live here: how a load begins (`beginning.py`), how rows are sent and which one was refused (`copy_in.py`), tables
and what belongs to them (`tables.py`), reading the source, planning chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from anabranch.connectors.mysql.target import aside_epoch, ledger, raw
from anabranch.connectors.mysql.target.begin import one_begins
from anabranch.connectors.mysql.target.beginning import Beginning
from anabranch.connectors.mysql.target.copy_in import copy
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.load_data import Way, way_to
from anabranch.connectors.mysql.target.own_source import OwnSource
from anabranch.connectors.mysql.target.session import Connection, connect, transaction
from anabranch.contracts import Bounds, LoadedChunk, NewLoad, ValueRules
from anabranch.failpoints import reach
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.aside import AsideChange
from anabranch.rows.net import TargetTable

SESSION = "anabranch-load"


class MysqlLoader:
    """Loads tables into MySQL or MariaDB over one connection, opened on first use and again after it was lost. Foreign keys do
    not act on what it writes: the source's rows are all there in the end.

    Delivery: a chunk's rows and its ledger row commit together; a chunk that is done is never loaded again."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._connection: Connection | None = None
        self._own_source = OwnSource()
        self._ways: dict[TargetTable, Way] = {}
        self._is_together = False

    def begin_generation(
        self, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool = False
    ) -> None:
        """Begin a generation. One that has begun already is left as it is.

        A newer one raises Fenced. A table that streams raises StateError: it was not prepared, and apply would go on
        with what is emptied here.
        """
        connection = self._session()
        with translated(f"begin the load of {table.target}"), one_begins(connection):
            self._own_source.refuse(connection, job, [table.target])
            beginning = Beginning(connection, self._endpoint, self._rules, job)
            beginning.generation(table, generation, bounds, empty, keep)

    def begin_new(
        self, job: str, loads: Sequence[NewLoad], rules: ValueRules, beside: Collection[TableId]
    ) -> frozenset[TableId]:
        connection = self._session()
        with translated("begin the load of new tables"), one_begins(connection):
            self._own_source.refuse(connection, job, [one.table.target for one in loads])
            return Beginning(connection, self._endpoint, rules, job).new(loads, beside)

    def chunks(self, job: str, source: TableId, generation: int) -> list[LoadedChunk]:
        return self.ledgers(job, {source: generation})[source]

    def ledgers(self, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
        with translated("read the load's ledger"):
            return ledger.read(self._session(), job, generations)

    @contextmanager
    def together(self) -> Iterator[None]:
        with translated("load tables together"), transaction(self._session()):
            self._is_together = True
            try:
                yield
            finally:
                self._is_together = False

    def load_chunk(
        self,
        job: str,
        table: TargetTable,
        generation: int,
        number: int,
        marks: tuple[str, str],
        lines: Iterable[bytes],
        left_out: Callable[[], Sequence[AsideChange]] = tuple,
    ) -> int:
        """Load a chunk. The table's state row is locked in share first: other chunks go on, a newer generation waits or is
        seen. Then the chunk's own ledger row is changed: the transaction's first change, and a lock against a second attempt.
        """
        chunk = (job, str(table.source), generation, number)

        def lines_and_asides(connection: Connection) -> int:
            rows = copy(connection, job, table, number, self._way(connection, table), lines)
            for change in left_out():
                aside_epoch.add(connection, job, change)
            return rows

        return self._load(table, chunk, marks, lines_and_asides)

    def raw_forms(self, tables: Sequence[TargetTable]) -> Mapping[TableId, str]:
        with translated("read the types of the target's columns"):
            return raw.raw_forms(self._session(), tables)

    def load_raw(
        self,
        job: str,
        table: TargetTable,
        generation: int,
        number: int,
        marks: tuple[str, str],
        form: str,
        blocks: Iterable[bytes],
    ) -> int:
        chunk = (job, str(table.source), generation, number)
        return self._load(table, chunk, marks, lambda connection: raw.load_raw(connection, job, table, form, blocks))

    def _load(
        self,
        table: TargetTable,
        chunk: ledger.Chunk,
        marks: tuple[str, str],
        rows_of: Callable[[Connection], int],
    ) -> int:
        connection = self._session()
        with translated(f"load chunk {chunk[-1]} of {table.target}"), self._transaction(connection):
            done = ledger.enter(connection, chunk, marks)
            if done is not None:
                return done
            self._own_source.refuse(connection, chunk[0], [table.target])
            rows = rows_of(connection)
            ledger.finish(connection, chunk, rows)
            reach("load.copied")
            return rows

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    @contextmanager
    def _transaction(self, connection: Connection) -> Iterator[None]:
        if self._is_together:
            yield
        else:
            with transaction(connection):
                yield

    def _way(self, connection: Connection, table: TargetTable) -> Way:
        if table not in self._ways:
            self._ways[table] = way_to(connection, table)
        return self._ways[table]

    def _session(self) -> Connection:
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint, SESSION, autocommit=True, checks_keys=False)
            self._ways.clear()
        return self._connection
