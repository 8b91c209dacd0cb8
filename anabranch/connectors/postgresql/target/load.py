"""The target's side of the initial load: tables, ledger, chunks by COPY, and what is built after the consistent point.

What does not live here: how a table is created (create_table.py), rows (copy_chunk.py), the ledger (ledger.py), how indexes and
keys are built (constraints.py) and taken off (taken_off.py), reading the source, planning chunks, deciding when.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from psycopg import sql

from anabranch.connectors.postgresql.binary_forms import binary_forms
from anabranch.connectors.postgresql.connection import Connection, connect, table_name
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.labels import add_labels
from anabranch.connectors.postgresql.row_security import policies_named
from anabranch.connectors.postgresql.target import (
    altering_plan,
    aside,
    constraints,
    made_anew,
    made_objects,
    renamed_labels,
    structures,
    taken_off,
)
from anabranch.connectors.postgresql.target import shared_tables as shared
from anabranch.connectors.postgresql.target import small_tables as small
from anabranch.connectors.postgresql.target.begin import ADD_CHUNK, ONE_CREATES, SEE_EXTENSIONS, begin_new, chunk_rows
from anabranch.connectors.postgresql.target.catalog import holds_rows, read_table
from anabranch.connectors.postgresql.target.copy_chunk import copy_binary, copy_lines
from anabranch.connectors.postgresql.target.counters import pass_counters
from anabranch.connectors.postgresql.target.create_table import create_schema_unless_there, create_whole_table
from anabranch.connectors.postgresql.target.heirs import refuse_mixed
from anabranch.connectors.postgresql.target.ledger import (
    BEGIN_STATE,
    CHUNK_DONE,
    CLEAR_LEDGER,
    HAS_LEDGER,
    NOT_KEPT,
    enter_chunk,
    lock_generation,
    read_ledger,
    read_ledgers,
)
from anabranch.connectors.postgresql.target.own_source import OwnSource
from anabranch.connectors.postgresql.target.script import script
from anabranch.connectors.postgresql.target.typemap import EXTENSIONS
from anabranch.contracts import Bounds, Counter, CounterSet, LoadedChunk, NewLoad, ValueRules
from anabranch.errors import TargetError
from anabranch.failpoints import reach
from anabranch.model.altering_plan import AlteringPlan
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep
from anabranch.model.table_life import require_begin
from anabranch.rows.altered import AlteredTable
from anabranch.rows.aside import AsideChange
from anabranch.rows.net import TargetTable

HAS_TRIGGERS = """
SELECT c.relhastriggers FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s
"""


class PostgresLoader:
    """Loads tables into PostgreSQL over one connection, opened on first use and again after it was lost.

    Delivery: a chunk's rows and its ledger row commit together; a chunk that is done is never loaded again."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._connection: Connection | None = None
        self._own_source = OwnSource()

    def create_table(
        self,
        schema: TableSchema,
        table: TargetTable,
        rules: ValueRules,
        recreate: bool,
        beside: Collection[TableId] = (),
        load: tuple[str, int] | None = None,
    ) -> None:
        connection = self._session()
        with translated(f"create {table.target}"), connection.transaction():
            connection.execute(ONE_CREATES)
            before = made_anew.given(connection, table) if recreate else None
            if recreate:
                if load is not None:
                    self._own_source.refuse(connection, load[0], [table.target])
                    lock_generation(connection, load[0], table.source, load[1] - 1)
                    shared.refuse_partition(connection, load[0], table)
                    shared.refuse_to_empty(connection, load[0], table)
                    taken_off.forget(connection, load[0], table)
                taken_off.drop_table(connection, table, load[0] if load is not None else None)
            create_schema_unless_there(connection, table.target.schema)
            if read_table(connection, table.target) is None:
                made_objects.make(connection, schema.needs)
                connection.execute(SEE_EXTENSIONS, [list(EXTENSIONS.values())])
                create_whole_table(connection, schema, table, rules, beside)
                if before is not None:
                    made_anew.give_back(connection, table, before)

    def run_statements(self, statements: Sequence[str]) -> None:
        connection = self._session()
        with translated("run the statements given"), connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())

    def stands(self, table: TargetTable) -> bool:
        connection = self._session()
        with translated(f"look at {table.target}"), connection.transaction():
            return read_table(connection, table.target) is not None

    def plan_altering(self, altered: AlteredTable) -> AlteringPlan:
        connection = self._session()
        with translated(f"look at {altered.table.target}", altered.table.source):
            return altering_plan.plan(connection, altered, self._rules)

    def script(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Iterator[DdlStep]:
        return script(tables, self._rules)

    def begin_generation(
        self, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool = False
    ) -> None:
        """Begin a generation. One that has begun already is left as it is.

        A newer one raises Fenced. A table that streams raises StateError: it was not prepared, and apply would go on
        with what is emptied here.
        """
        connection, source = self._session(), str(table.source)
        with translated(f"begin the load of {table.target}"), connection.transaction():
            self._own_source.refuse(connection, job, [table.target])
            last, state = lock_generation(connection, job, table.source, generation)
            begun = connection.execute(HAS_LEDGER, [job, source, generation]).fetchone()
            if last == generation and begun:
                return
            require_begin(state, table.source)
            connection.execute(CLEAR_LEDGER, [job, source])
            with connection.cursor() as cursor:  # before rows are removed: the ledger says whose this is (K21)
                cursor.executemany(ADD_CHUNK, chunk_rows(job, table, generation, bounds))
            is_kept = self._make_room(connection, job, table, empty, keep)
            connection.execute(BEGIN_STATE, [job, source, str(table.target), generation])
            if not is_kept:
                connection.execute(NOT_KEPT, [job, source])
            aside.forget(connection, job, table.source)

    def begin_new(
        self, job: str, loads: Sequence[NewLoad], rules: ValueRules, beside: Collection[TableId]
    ) -> frozenset[TableId]:
        connection = self._session()
        with translated("begin the load of new tables"):
            self._own_source.refuse(connection, job, [one.table.target for one in loads])
        return begin_new(connection, job, loads, rules, beside)

    def take_off_keys(self, job: str, table: TargetTable) -> None:
        connection = self._session()
        with translated(f"take keys off {table.target}", table.source), connection.transaction():
            self._own_source.refuse(connection, job, [table.target])
            existing = read_table(connection, table.target)
            if existing is not None:
                taken_off.take_off(connection, job, table, existing)

    def chunks(self, job: str, source: TableId, generation: int) -> list[LoadedChunk]:
        with translated("read the load's ledger"):
            return read_ledger(self._session(), job, source, generation)

    def ledgers(self, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
        with translated("read the load's ledger"):
            return read_ledgers(self._session(), job, generations)

    @contextmanager
    def together(self) -> Iterator[None]:
        with translated("load tables together"), self._session().transaction():
            yield

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
        chunk = (job, str(table.source), generation, number)

        def copy(connection: Connection) -> int:
            rows = copy_lines(connection, job, table, number, lines)
            for change in left_out():
                aside.add(connection, job, change)
            return rows

        return self._load(table, chunk, marks, copy)

    def raw_forms(self, tables: Sequence[TargetTable]) -> Mapping[TableId, str]:
        with translated("read the types of the target's columns"):
            forms = binary_forms(self._session(), [(table.target, table.columns) for table in tables])
        return {table.source: form for table, form in zip(tables, forms, strict=True) if form}

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
        return self._load(
            table, chunk, marks, lambda connection: copy_binary(connection, job, table, number, form, blocks)
        )

    def _load(
        self,
        table: TargetTable,
        chunk: tuple[str, str, int, int],
        marks: tuple[str, str],
        copy: Callable[[Connection], int],
    ) -> int:
        """Load a chunk. The table's state row is locked in share first: other chunks go on, a newer generation waits or
        is seen.

        Then the chunk's own ledger row is updated: the transaction's first change, and a lock against a second attempt.
        """
        connection = self._session()
        looked_at = policies_named(lambda: connect(self._endpoint, "anabranch-load-policies", autocommit=True))
        with looked_at, translated(f"load chunk {chunk[-1]} of {table.target}"), connection.transaction():
            done = enter_chunk(connection, chunk)
            if done is not None:
                return done
            self._own_source.refuse(connection, chunk[0], [table.target])
            _quiet_constraints(connection, table)
            rows = copy(connection)
            connection.execute(CHUNK_DONE, [rows, *marks, *chunk])
            reach("load.copied")
            return rows

    def add_labels(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Sequence[str]:
        return add_labels(self._endpoint, [need for schema, _ in tables for need in schema.needs])

    def why_not_added(self, refused: str, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Sequence[str]:
        """Return nothing: a type here takes every label that the source's has."""
        return ()

    def rename_labels(
        self, job: str, table: TargetTable, then: Collection[TableSchema], now: TableSchema
    ) -> Sequence[str]:
        return renamed_labels.rename_labels(self._endpoint, job, table.source, then, now)

    def refuse_older_functions(self, then: Collection[TableSchema], now: TableSchema) -> None:
        if now.computed:
            with translated("read the functions of the target"):
                made_objects.refuse_older(self._session(), then, now)

    def as_renamed(self, then: TableSchema, now: TableSchema) -> TableSchema:
        return renamed_labels.as_renamed(then, now)

    def index_cascades(self, schema: TableSchema, table: TargetTable) -> None:
        constraints.build_cascade_indexes(self._session(), schema, table)

    def build(
        self, job: str, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
    ) -> list[str]:
        connection = self._session()
        with translated(f"build what belongs to {table.target}"):
            self._own_source.refuse(connection, job, [table.target])
        problems = taken_off.put_back(connection, job, table)
        problems += structures.build_computed(connection, schema, table)
        problems += constraints.build_indexes(connection, schema, table)
        problems += structures.build_checks(connection, schema, table, self._rules)
        problems += constraints.build_foreign_keys(connection, schema, table, resolve)
        problems += structures.build_defaults(connection, schema, table)
        problems += structures.raise_sequences(connection, [table])
        with translated(f"analyze {table.target}"):
            connection.execute(sql.SQL("ANALYZE {}").format(table_name(table.target)))
        return problems

    def build_small(
        self,
        job: str,
        tables: Sequence[tuple[TableSchema, TargetTable]],
        resolve: Callable[[TableId], TargetTable | None],
    ) -> dict[TableId, list[str]]:
        connection = self._session()
        with translated("build what belongs to small tables"):
            self._own_source.refuse(connection, job, [table.target for _, table in tables])
        return small.build_small(connection, job, tables, self._rules, resolve)

    def raise_sequences(self, tables: Sequence[TargetTable]) -> list[str]:
        return structures.raise_sequences(self._session(), tables)

    def pass_counters(
        self, tables: Sequence[TargetTable], counters: Sequence[Counter], margin: int, is_rehearsed: bool = False
    ) -> list[CounterSet]:
        return pass_counters(self._session(), tables, counters, margin, is_rehearsed)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _session(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._endpoint, "anabranch-load", autocommit=True)
        return self._connection

    def _make_room(self, connection: Connection, job: str, table: TargetTable, empty: bool, keep: bool) -> bool:
        """Empty the table if asked. Returns whether rows are left in it."""
        existing = read_table(connection, table.target)
        if existing is None:
            raise TargetError(f"the target table {table.target} does not exist", hint="create it before the load")
        shared.refuse_partition(connection, job, table)
        refuse_mixed(connection, job, table)
        if empty:
            shared.refuse_to_empty(connection, job, table)
        shared.refuse_unfinished(connection, job, table)
        taken_off.take_off(connection, job, table, existing)
        if empty:  # no other table refers to it any more
            connection.execute(sql.SQL("TRUNCATE {}").format(table_name(existing.id)))
            return False
        has_rows = holds_rows(connection, table.target)
        if has_rows and not keep:
            raise TargetError(
                f"the target table {table.target} holds rows",
                table=str(table.source),
                hint='empty it, or let the job do it: [load] existing = "empty"; "keep" leaves them there',
            )
        return has_rows


def _quiet_constraints(connection: Connection, table: TargetTable) -> None:
    """Switch the target's triggers off for loaded rows, if we may; nothing to do for plain tables."""
    row = connection.execute(HAS_TRIGGERS, [table.target.schema, table.target.name]).fetchone()
    if row and row[0]:
        constraints.bypass(connection)
