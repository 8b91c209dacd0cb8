"""The target's side of the initial load: tables, ledger, chunks by COPY, and what is built after the consistent point.

What does not live here: rendered definitions (ddl.py), how indexes and keys are built (constraints.py) and taken off
(taken_off.py), reading the source, planning chunks, deciding when.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

import psycopg
from psycopg import sql

from anabranch import log
from anabranch.connectors.postgresql.binary_forms import binary_forms
from anabranch.connectors.postgresql.connection import Connection, column_list, connect, table_name
from anabranch.connectors.postgresql.errors import (
    WAITED_FOR,
    Meaning,
    describe,
    meaning,
    state_of,
    translate,
    translated,
)
from anabranch.connectors.postgresql.labels import add_labels
from anabranch.connectors.postgresql.row_security import policies_named
from anabranch.connectors.postgresql.target import (
    aside,
    constraints,
    ddl,
    made_objects,
    renamed_labels,
    structures,
    taken_off,
)
from anabranch.connectors.postgresql.target import shared_tables as shared
from anabranch.connectors.postgresql.target import small_tables as small
from anabranch.connectors.postgresql.target.begin import ADD_CHUNK, ONE_CREATES, SEE_EXTENSIONS, begin_new, chunk_rows
from anabranch.connectors.postgresql.target.catalog import holds_rows, read_table, relation_table
from anabranch.connectors.postgresql.target.copy_in import refuse_miscount
from anabranch.connectors.postgresql.target.counters import pass_counters
from anabranch.connectors.postgresql.target.heirs import refuse_mixed
from anabranch.connectors.postgresql.target.own_source import OwnSource
from anabranch.connectors.postgresql.target.partitions import plan_partitions, taken
from anabranch.connectors.postgresql.target.script import script
from anabranch.connectors.postgresql.target.typemap import EXTENSIONS
from anabranch.connectors.postgresql.verbatim import is_partitioned
from anabranch.contracts import Bounds, Counter, CounterSet, LoadedChunk, NewLoad, ValueRules
from anabranch.errors import Fenced, RowRefused, TargetError
from anabranch.failpoints import reach
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep
from anabranch.model.table_life import Life, require_begin
from anabranch.rows.aside import AsideChange
from anabranch.rows.counted import Told, lines_in, miscount
from anabranch.rows.net import TargetTable

MALFORMED = "08P01"  # what a type's receive function says of bytes that it does not know, too
HELD_BYTES = 16 << 20  # one COPY: a refused row is looked up among the lines of its COPY, which are held until it ends

ZERO_DATE_HINT = '[types] zero_date = "null" turns zero dates into NULL'
UNIQUE_HINT = "the target table had this key before the load: [load] defer_constraints = true takes it off meanwhile"
# SQLSTATE -> what decides otherwise, for values that only a load meets; others: errors.MEANINGS
HINTS = {"22007": ZERO_DATE_HINT, "22008": ZERO_DATE_HINT, "23505": UNIQUE_HINT}

UNESCAPED = {b"\\\\": b"\\", b"\\t": b"\t", b"\\n": b"\n", b"\\r": b"\r"}
# in the error's context, in any language: COPY orders, line 7, column id: "x"
PLACE = re.compile(r"^COPY .*?, \D*(\d+)(?:, \S+ ([^:\n]+))?", re.MULTILINE)
ESCAPE = re.compile(rb"\\[\\tnr]")

HAS_TRIGGERS = """
SELECT c.relhastriggers FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s
"""
# A new generation locks the state row fully, chunks of one generation share it: they load side by side.
LOCK_STATE = "SELECT generation, state FROM anabranch.table_state WHERE job = %s AND source_table = %s FOR UPDATE"
SHARE_STATE = "SELECT generation, state FROM anabranch.table_state WHERE job = %s AND source_table = %s FOR KEY SHARE"
BEGIN_STATE = """
INSERT INTO anabranch.table_state (job, source_table, target_table, generation, state)
VALUES (%s, %s, %s, %s, 'loading')
ON CONFLICT (job, source_table) DO UPDATE
   SET target_table = excluded.target_table, generation = excluded.generation, state = 'loading',
       low = '', high = '', reason = '', rows_loaded = 0, facts = table_state.facts - 'loaded' - 'parked_for'
"""
NOT_KEPT = "UPDATE anabranch.table_state SET facts = facts - 'kept' WHERE job = %s AND source_table = %s"
HAS_LEDGER = "SELECT 1 FROM anabranch.load_chunk WHERE job = %s AND source_table = %s AND generation = %s LIMIT 1"
CLEAR_LEDGER = "DELETE FROM anabranch.load_chunk WHERE job = %s AND source_table = %s"
READ_LEDGER = """
SELECT number, lower, upper, rows, low, high FROM anabranch.load_chunk
 WHERE job = %s AND source_table = %s AND generation = %s ORDER BY number
"""
READ_LEDGERS = """
SELECT source_table, number, lower, upper, rows, low, high FROM anabranch.load_chunk
  JOIN unnest(%s::text[], %s::bigint[]) AS w (source_table, generation) USING (source_table, generation)
 WHERE job = %s ORDER BY source_table, number
"""
MARK_CHUNK = """
UPDATE anabranch.load_chunk SET rows = rows
 WHERE job = %s AND source_table = %s AND generation = %s AND number = %s RETURNING rows
"""
CHUNK_DONE = """
UPDATE anabranch.load_chunk SET rows = %s, low = %s, high = %s
 WHERE job = %s AND source_table = %s AND generation = %s AND number = %s
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
            if recreate:
                if load is not None:
                    self._own_source.refuse(connection, load[0], [table.target])
                    _lock_generation(connection, load[0], table.source, load[1] - 1)
                    shared.refuse_partition(connection, load[0], table)
                    shared.refuse_to_empty(connection, load[0], table)
                    taken_off.forget(connection, load[0], table)
                taken_off.drop_table(connection, table.target)
            _create_schema(connection, table.target.schema)
            if read_table(connection, table.target) is None:
                made_objects.make(connection, schema.needs)
                connection.execute(SEE_EXTENSIONS, [list(EXTENSIONS.values())])
                _create(connection, schema, table, rules, beside)

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
            last, state = _lock_generation(connection, job, table.source, generation)
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
            rows = self._session().execute(READ_LEDGER, [job, str(source), generation]).fetchall()
        return [
            LoadedChunk(number, Bounds(_tuple(lower), _tuple(upper)), done, low or "", high or "")
            for number, lower, upper, done, low, high in rows
        ]

    def ledgers(self, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
        with translated("read the load's ledger"):
            values = [[str(table) for table in generations], list(generations.values()), job]
            rows = self._session().execute(READ_LEDGERS, values).fetchall()
        found: dict[TableId, list[LoadedChunk]] = {table: [] for table in generations}
        for source, number, lower, upper, done, low, high in rows:
            bounds = Bounds(_tuple(lower), _tuple(upper))
            found[TableId.parse(source)].append(LoadedChunk(number, bounds, done, low or "", high or ""))
        return found

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
            rows = _copy(connection, job, table, number, lines)
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
            table, chunk, marks, lambda connection: _copy_binary(connection, job, table, number, form, blocks)
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
            done = _enter(connection, chunk)
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
        self, tables: Sequence[TargetTable], counters: Sequence[Counter], margin: int
    ) -> list[CounterSet]:
        return pass_counters(self._session(), tables, counters, margin)

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


# --- rows -------------------------------------------------------------------------------------------------------------


def _copy(connection: Connection, job: str, table: TargetTable, number: int, lines: Iterable[bytes]) -> int:
    """Copy all lines, in one COPY after another of at most HELD_BYTES. Each has to take as many rows as were sent."""
    total, blocks = 0, iter(lines)
    for first in blocks:
        held: list[bytes] = []
        cursor = connection.cursor()
        try:
            with cursor.copy(_command(table)) as copy:
                for block in _until_full(chain([first], blocks), held):
                    copy.write(block)
        except psycopg.Error as error:
            raise _refusal(error, job, table, held) from None
        sent = sum(map(lines_in, held))
        refuse_miscount(connection, table.target, sent, cursor.rowcount, f"load chunk {number}", table.source)
        total += sent
    return total


def _copy_binary(
    connection: Connection, job: str, table: TargetTable, number: int, form: str, blocks: Iterable[bytes]
) -> int:
    """Copy a stream in one COPY. The lock keeps the columns' types as they are found to be.

    As many rows have to arrive as the source says it sent; otherwise they are read again as lines, which are counted at
    both ends.
    """
    connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ROW EXCLUSIVE MODE").format(table_name(table.target)))
    if binary_forms(connection, [(table.target, table.columns)]) != [form]:
        raise RowRefused("the target's columns have other types by now", job=job, table=str(table.source))
    cursor, told = connection.cursor(), Told(blocks)
    try:
        with cursor.copy(_command(table) + sql.SQL(" (FORMAT binary)")) as copy:
            for block in told:
                copy.write(block)
    except psycopg.Error as error:
        kind, hint = meaning(error)
        if kind in WAITED_FOR and state_of(error) != MALFORMED:
            raise
        raise RowRefused(describe(error), hint=hint, job=job, table=str(table.source)) from None
    if told.rows is not None and told.rows != cursor.rowcount:
        message = f"load chunk {number}: {miscount('the source', told.rows, cursor.rowcount)}"
        raise RowRefused(message, job=job, table=str(table.source))
    return cursor.rowcount


def _command(table: TargetTable) -> sql.Composed:
    return sql.SQL("COPY {} ({}) FROM STDIN").format(table_name(table.target), column_list(table.columns))


def _until_full(blocks: Iterable[bytes], held: list[bytes]) -> Iterable[bytes]:
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        yield block
        if size >= HELD_BYTES:
            return


def _create(
    connection: Connection, schema: TableSchema, table: TargetTable, rules: ValueRules, beside: Collection[TableId]
) -> None:
    """Create the table. Its key gets another name where something has its own.

    Computed columns that the server refuses, because it lacks a function that they call, are tried again, and reported,
    when the rest is built.
    """
    if schema.key_name and relation_table(connection, table.target.schema, schema.key_name):
        schema = replace(schema, key_name="")

    schema = _taken_as(connection, schema, table, rules, beside)

    def create(computed: Collection[str] | None) -> str:
        return ddl.create_table(schema, table, rules, connection.info.server_version, beside, computed)

    if not table.computed or _is_taken(connection, create(None)):
        _run(connection, create(None))
    else:
        _run(connection, create([source for source, _ in table.computed if _is_taken(connection, create([source]))]))
    _create_partitions(connection, schema, table, beside)
    for statement in ddl.complete_table(schema, table, rules, beside):
        _run(connection, statement)


def _taken_as(
    connection: Connection, schema: TableSchema, table: TargetTable, rules: ValueRules, beside: Collection[TableId]
) -> TableSchema:
    """Return the definition, without partitions where the server refuses those: it may lack a function or sort otherwise."""
    if not is_partitioned(schema, table):
        return schema
    plain = ddl.create_table(schema, table, rules, connection.info.server_version, beside, ())
    try:
        with connection.transaction(force_rollback=True):
            _run(connection, plain)
            _create_partitions(connection, schema, table, beside)
    except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        bound = log.get(table=str(table.source), target=str(table.target))
        bound.warning("table_is_not_partitioned", reason=describe(error), by=schema.partition_key)
        return replace(schema, partition_key="", partitions=())
    return schema


def _create_partitions(
    connection: Connection, schema: TableSchema, table: TargetTable, beside: Collection[TableId]
) -> None:
    """Create the partitions. One whose name something at the target has gets another."""
    names = [part.name for part in plan_partitions(schema, table, beside)]
    for place in {name.schema for name in names}:
        _create_schema(connection, place)
    for part in plan_partitions(schema, table, {*beside, *taken(connection, names)}):
        _run(connection, part.sql)


def _create_schema(connection: Connection, name: str) -> None:
    """Create the schema unless it is there: nobody then asks for the right to create it."""
    if not made_objects.has_schema(connection, name):
        _run(connection, ddl.create_schema(name))


def _is_taken(connection: Connection, statement: str) -> bool:
    """Return whether the server would carry the statement out."""
    try:
        with connection.transaction(force_rollback=True):
            _run(connection, statement)
    except (psycopg.ProgrammingError, psycopg.NotSupportedError):
        return False
    return True


def _lock_generation(connection: Connection, job: str, table: TableId, highest: int) -> tuple[int, str]:
    """Return the table's present generation and state, locked; (0, "pending") without one. Raises Fenced above `highest`."""
    row = connection.execute(LOCK_STATE, [job, str(table)]).fetchone()
    last, state = (int(row[0]), str(row[1])) if row else (0, str(Life.PENDING))
    if last > highest:
        raise Fenced(f"load {highest} of the table was replaced by load {last}", table=str(table))
    return last, state


# --- ledger -----------------------------------------------------------------------------------------------------------


def _enter(connection: Connection, chunk: tuple[str, str, int, int]) -> int | None:
    """Return the rows of a chunk that is done, None for one that is ours to load. Raises Fenced."""
    job, source, generation, number = chunk
    state = connection.execute(SHARE_STATE, [job, source]).fetchone()
    if state is None or state[0] != generation or state[1] != "loading":
        raise Fenced(
            f"load {generation} of the table is over" + (f", it is {state[1]} in load {state[0]}" if state else ""),
            table=source,
            hint="a later load of the table replaced this one, or it has ended",
        )
    ledger = connection.execute(MARK_CHUNK, chunk).fetchone()
    if ledger is None:
        raise Fenced(f"load {generation} of the table has no chunk {number}", table=source)
    rows: int | None = ledger[0]
    return rows


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


# --- switching off ----------------------------------------------------------------------------------------------------


def _quiet_constraints(connection: Connection, table: TargetTable) -> None:
    """Switch the target's triggers off for loaded rows, if we may; nothing to do for plain tables."""
    row = connection.execute(HAS_TRIGGERS, [table.target.schema, table.target.name]).fetchone()
    if row and row[0]:
        constraints.bypass(connection)


# --- refused rows -----------------------------------------------------------------------------------------------------


def _refusal(error: psycopg.Error, job: str, table: TargetTable, held: list[bytes]) -> Exception:
    """Return RowRefused with the row's key where the server names a line of this COPY, else what the error means."""
    places = PLACE.findall(error.diag.context or "")
    kind, hint = meaning(error)
    if kind is not Meaning.CONFLICT or not places:
        return translate(error, f"copy rows into {table.target}")
    number, column = places[-1]
    what = describe(error)
    if column and f"column {column}" not in what:
        what += f" (column {column})"
    return RowRefused(
        f"{what}; {_key_text(table, _line(held, int(number)))}",
        hint=HINTS.get(error.sqlstate or "", hint),
        job=job,
        table=str(table.source),
    )


def _line(held: list[bytes], number: int) -> bytes:
    """Return line `number` (from 1) of the blocks."""
    for block in held:
        count = block.count(b"\n")
        if number <= count:
            return block.split(b"\n", number)[number - 1]
        number -= count
    return b""


def _key_text(table: TargetTable, line: bytes) -> str:
    values = dict(zip(table.columns, line.split(b"\t"), strict=False))
    if not table.key or not all(name in values for name in table.key):
        return "the row has no key"
    return "key " + ", ".join(f"{name}={unescape(values[name])}" for name in table.key)


def unescape(value: bytes) -> str:
    r"""Write a field of a line as readable text; \\N stays."""
    return ESCAPE.sub(lambda found: UNESCAPED[found[0]], value).decode(errors="backslashreplace")


def _run(connection: Connection, statement: str) -> None:
    """Run a statement of ddl.py: rendered, nothing to bind."""
    connection.execute(statement.encode())
