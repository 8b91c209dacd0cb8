"""Rows tried as a load would write them: in a temporary table, inside a transaction that is rolled back.

The table is made by what the load runs, or like the table that stands. What it needs beside it (types of users, extensions) is
made in the same transaction and goes with it. What does not live here: the statements (ddl.py), how a load copies
(copy_chunk.py), how rows are read back (verify.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import LiteralString

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list, connect, table_name
from anabranch.connectors.postgresql.errors import TAKEN, Meaning, describe, meaning, state_of, translate, translated
from anabranch.connectors.postgresql.needed_objects import present
from anabranch.connectors.postgresql.target import made_objects
from anabranch.connectors.postgresql.target.begin import SEE_EXTENSIONS
from anabranch.connectors.postgresql.target.catalog import read_table
from anabranch.connectors.postgresql.target.copy_chunk import HINTS, PLACE, copy_command
from anabranch.connectors.postgresql.target.copy_in import refuse_miscount
from anabranch.connectors.postgresql.target.create_table import create_whole_table
from anabranch.connectors.postgresql.target.typemap import EXTENSIONS
from anabranch.connectors.postgresql.target.verify import WHOLE_TABLE, PostgresReader
from anabranch.contracts import RefusedLine, ValueRules
from anabranch.errors import TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

TEMPORARY = "pg_temp"  # the schema of a session's own: https://www.postgresql.org/docs/current/sql-createtable.html
OWN, KEYS = TableId(TEMPORARY, "anabranch_scan"), TableId(TEMPORARY, "anabranch_scan_keys")
NUMBERS = TableId(TEMPORARY, "anabranch_scan_numbers")
COUNTING: LiteralString = """
SELECT a.attname::text, CASE WHEN a.atttypid IN (21, 23) THEN a.atttypid::regtype::text ELSE 'bigint' END
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = %s::regclass AND a.attgenerated = '' AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%'
"""
# The lock of begin.ONE_CREATES, but given back before the transaction ends; and one that scans alone take.
CREATES, CREATES_NO_MORE = "SELECT pg_advisory_lock(7168357)", "SELECT pg_advisory_unlock(7168357)"
ONE_TRIES = "SELECT pg_advisory_xact_lock(7168361)"
NO_RIGHT = "42501"
# Whoever may do this may do nothing else by it: https://www.postgresql.org/docs/current/ddl-priv.html
GRANT = "GRANT TEMPORARY ON DATABASE … TO the job's user"
GROUP = 256  # lines that are sent together behind a refused one: the server takes none of a COPY with one more


@dataclass(frozen=True, slots=True)
class _Fault:
    """Words against lines of one COPY. `at`: the number of the line, from 0; None where the server does not say."""

    what: str
    hint: str
    column: str
    state: str
    at: int | None


class PostgresTrial:
    """Trial over one connection, whose transaction is never committed.

    Delivery: nothing stays at the target, whatever happens."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._connection: Connection | None = None
        self._table: TargetTable | None = None

    def begin(self, schema: TableSchema, table: TargetTable, beside: Collection[TableId] = ()) -> TargetTable:
        connection = self._anew()
        self._table = replace(table, target=OWN)
        try:
            with translated(f"try rows of {table.target}"):
                self._make(connection, schema, table, beside)
        except TargetError as error:
            raise self._with_grant(error) from None
        return self._table

    def begin_key(
        self, schema: TableSchema, table: TargetTable, columns: Sequence[str], beside: Collection[TableId] = ()
    ) -> TargetTable:
        own = self.begin(schema, table, beside)
        names = tuple(dict.fromkeys((*columns, *table.key)))
        make = sql.SQL("CREATE TABLE {} AS SELECT {} FROM {} WITH NO DATA").format(
            table_name(KEYS), column_list(names), table_name(OWN)
        )
        unique = sql.SQL("ALTER TABLE {} ADD UNIQUE ({})").format(table_name(KEYS), column_list(tuple(columns)))
        with translated(f"make a table for the values of the key ({', '.join(columns)})"):
            self._session().execute(make)
            self._session().execute(unique)
        sources = dict(zip(own.columns, own.source_columns or own.columns, strict=True))
        types = tuple(own.type_of(name) for name in names)
        kept = tuple(sources[name] for name in names)
        self._table = replace(own, target=KEYS, columns=names, types=types, source_columns=kept, computed=())
        return self._table

    def take(self, block: bytes, most: int) -> Sequence[RefusedLine]:
        found: list[RefusedLine] = []
        waiting = [[line + b"\n" for line in block.split(b"\n")[:-1]]]
        while waiting and len(found) < most:
            lines = waiting.pop()
            fault = self._copied(lines) if lines else None
            if fault is None:
                continue
            if fault.at is None and len(lines) > 1:
                middle = len(lines) // 2
                waiting += [lines[middle:], lines[:middle]]
                continue
            at = fault.at or 0
            is_duplicate = fault.state in TAKEN
            found.append(RefusedLine(lines[at], fault.what, fault.hint, fault.column, is_duplicate))
            rest = [lines[start : start + GROUP] for start in range(at + 1, len(lines), GROUP)]
            waiting += [*reversed(rest), lines[:at]]
        return found

    def rows(self) -> Iterator[bytes]:
        yield from PostgresReader(self._endpoint, self._session()).lines(self._written(), WHOLE_TABLE)

    def empty(self) -> None:
        with translated("empty a temporary table"):
            self._session().execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(table_name(self._written().target)))

    def release(self) -> str:
        return f"PostgreSQL {self._session().info.parameter_status('server_version')}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- the table ----------------------------------------------------------------------------------------------------

    def _make(
        self, connection: Connection, schema: TableSchema, table: TargetTable, beside: Collection[TableId]
    ) -> None:
        existing = read_table(connection, table.target)
        if existing is not None:
            like = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(table_name(OWN), table_name(existing.id))
            connection.execute(like)
            self._count_apart(connection)
            return
        if schema.needs and len(present(connection, schema.needs)) < len(set(schema.needs)):
            self._make_beside(connection, schema)
        connection.execute(SEE_EXTENSIONS, [list(EXTENSIONS.values())])
        whole = replace(schema, partition_key="", partitions=(), key_name="")
        create_whole_table(connection, whole, self._written(), self._rules, beside)

    def _make_beside(self, connection: Connection, schema: TableSchema) -> None:
        """Make what the table needs. Who makes the same waits for the end of our transaction: scans do so by a lock of their
        own, and loads wait only while it is being made, unless they make the same."""
        connection.execute(ONE_TRIES)
        connection.execute(CREATES)
        try:
            with connection.transaction():
                made_objects.make(connection, schema.needs)
        finally:
            if not connection.closed:
                connection.execute(CREATES_NO_MORE)

    def _count_apart(self, connection: Connection) -> None:
        """Have columns that nobody writes count by a sequence of our own: a rollback does not take numbers back."""
        found = connection.execute(COUNTING, [table_name(OWN).as_string(None)]).fetchall()
        for at, (column, type) in enumerate(found):
            numbers, own = table_name(replace(NUMBERS, name=f"{NUMBERS.name}_{at}")), sql.Identifier(column)
            create = sql.SQL("CREATE SEQUENCE {} AS {} CYCLE OWNED BY {}.{}")
            connection.execute(create.format(numbers, sql.SQL(type), table_name(OWN), own))
            by = sql.SQL("ALTER TABLE {} ALTER {} SET DEFAULT nextval({}::regclass)")
            connection.execute(by.format(table_name(OWN), own, sql.Literal(numbers.as_string(None))))

    def _with_grant(self, error: TargetError) -> TargetError:
        if f"[{NO_RIGHT}]" in error.message and not error.table:
            error.hint = f"{GRANT}; what the table needs beside it may need the rights that the load needs, too"
        return error

    def _written(self) -> TargetTable:
        assert self._table is not None, "it was begun"
        return self._table

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _copied(self, lines: Sequence[bytes]) -> _Fault | None:
        """Copy lines, all of them or none. Returns why none was taken."""
        connection, table = self._session(), self._written()
        with translated(f"try rows of {table.source}"):
            connection.execute("SAVEPOINT tried")
        cursor = connection.cursor()
        try:
            with cursor.copy(copy_command(table)) as copy:
                copy.write(b"".join(lines))
        except psycopg.Error as error:
            fault = _fault(error, table, len(lines))
            with translated(f"try rows of {table.source}"):
                connection.execute("ROLLBACK TO SAVEPOINT tried")
            return fault
        refuse_miscount(connection, table.target, len(lines), cursor.rowcount, "try rows", table.source)
        with translated(f"try rows of {table.source}"):
            connection.execute("RELEASE SAVEPOINT tried")
        return None

    # --- the session --------------------------------------------------------------------------------------------------

    def _anew(self) -> Connection:
        """Return the session in a new transaction, in which nothing of a former one is."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._endpoint, "anabranch-scan", autocommit=True)
            with translated("begin a session"):
                self._connection.execute("SET idle_in_transaction_session_timeout = 0")
        with translated("begin a transaction"):
            self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN")
        return self._connection

    def _session(self) -> Connection:
        assert self._connection is not None, "it was begun"
        return self._connection


def _fault(error: psycopg.Error, table: TargetTable, lines: int) -> _Fault:
    """Return what is said against rows. Raises the error that it means where it is not about rows."""
    kind, hint = meaning(error)
    if kind is not Meaning.CONFLICT:
        raise translate(error, f"try rows of {table.source}") from None
    places = PLACE.findall(error.diag.context or "")
    number, column = places[-1] if places else ("", "")
    at = int(number) - 1 if number and 0 < int(number) <= lines else None
    what = describe(error).replace(OWN.name, table.source.name)
    return _Fault(
        what, HINTS.get(error.sqlstate or "", hint), column or error.diag.column_name or "", state_of(error), at
    )
