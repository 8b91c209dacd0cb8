"""Rows tried as a load would write them: in a temporary table, inside a transaction that is rolled back.

The table is made by what the load runs, or like the table that stands. It stands in a database that is there, since a temporary
table has to: none is made. What does not live here: the statements (`ddl.py`), how a load sends rows and which one was refused
(`copy_in.py`), how rows are read back (`verify.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target import ddl
from anabranch.connectors.mysql.target.copy_in import ELSE, Complaint, hint_of, loaded
from anabranch.connectors.mysql.target.errors import TAKEN, translated
from anabranch.connectors.mysql.target.load_data import Columns, Way, insert, way
from anabranch.connectors.mysql.target.local_lines import lines_of
from anabranch.connectors.mysql.target.pieces import WHOLE
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import (
    Connection,
    ask,
    column_list,
    connect,
    one,
    quoted,
    run,
    table_name,
)
from anabranch.connectors.mysql.target.structures import has_database, read_table
from anabranch.connectors.mysql.target.verify import MysqlTargetReader
from anabranch.contracts import RefusedLine, ValueRules
from anabranch.errors import TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

OWN, KEYS = "anabranch_scan", "anabranch_scan_keys"
# A temporary table is made with a right of its own: https://dev.mysql.com/doc/refman/8.0/en/privileges-provided.html
NO_RIGHT = (1044, 1142, 1227)
GRANT = "GRANT CREATE TEMPORARY TABLES ON *.* TO the job's user, or on the database of the target's tables"
DATABASES = """
SELECT SCHEMA_NAME FROM information_schema.SCHEMATA
 WHERE SCHEMA_NAME NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys') ORDER BY SCHEMA_NAME
"""
NO_DATABASE = "the target has no database in which a temporary table can stand: {} is made by the load"
MADE = "CREATE TABLE "
# Temporary tables are in no information_schema.COLUMNS: https://dev.mysql.com/doc/refman/8.0/en/information-schema-columns-table.html
COLUMNS = "SHOW COLUMNS FROM {}"


class MysqlTrial:
    """Trial over one connection, which commits no row.

    Delivery: nothing stays at the target, whatever happens; nothing of it is in its log where the user may keep it out."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._connection: Connection | None = None
        self._release: Release | None = None
        self._table: TargetTable | None = None
        self._way: Way | None = None

    def begin(self, schema: TableSchema, table: TargetTable, beside: Collection[TableId] = ()) -> TargetTable:
        ddl.refuse_names(table)
        connection = self._anew()
        with translated(f"try rows of {table.target}"):
            self._table = replace(table, target=TableId(self._database(connection, table), OWN))
            try:
                self._make(connection, schema, table)
            except pymysql.err.Error as error:
                if error.args[0] not in NO_RIGHT:
                    raise
                raise TargetError(
                    f"no temporary table can be made at the target: {error.args[1]}", hint=GRANT
                ) from None
            self._ready(connection)
        return self._table

    def begin_key(
        self, schema: TableSchema, table: TargetTable, columns: Sequence[str], beside: Collection[TableId] = ()
    ) -> TargetTable:
        own = self.begin(schema, table, beside)
        names = tuple(dict.fromkeys((*columns, *table.key)))
        place = TableId(own.target.schema, KEYS)
        make = (
            f"CREATE TEMPORARY TABLE {table_name(place)} (UNIQUE KEY ({column_list(columns)})) ENGINE=InnoDB"
            f" SELECT {column_list(names)} FROM {table_name(own.target)} LIMIT 0"
        )
        connection = self._session()
        sources = dict(zip(own.columns, own.source_columns or own.columns, strict=True))
        types, kept = tuple(map(own.type_of, names)), tuple(sources[name] for name in names)
        self._table = replace(own, target=place, columns=names, types=types, source_columns=kept, computed=())
        with translated(f"make a table for the values of the key ({', '.join(columns)})"):
            run(connection, "ROLLBACK")
            run(connection, make)
            self._ready(connection)
        return self._table

    def take(self, block: bytes, most: int) -> Sequence[RefusedLine]:
        connection, table, way_there = self._session(), self._written(), self._way
        assert way_there is not None, "it was begun"
        found: list[RefusedLine] = []
        waiting = [lines_of([block])]
        with translated(f"try rows of {table.source}"):
            while waiting and len(found) < most:
                lines = waiting.pop()
                complaint = _complaint(connection, way_there, lines) if lines else None
                if complaint is None:
                    continue
                if len(lines) == 1:
                    found.append(_refused(complaint, lines[0], table))
                else:
                    middle = len(lines) // 2
                    waiting += [lines[middle:], lines[:middle]]
        return found

    def rows(self) -> Iterator[bytes]:
        yield from MysqlTargetReader(self._endpoint, self._session()).lines(self._written(), WHOLE)

    def empty(self) -> None:
        with translated("empty a temporary table"):
            run(self._session(), "ROLLBACK")
            run(self._session(), "START TRANSACTION")

    def release(self) -> str:
        with translated("read the target's release"):
            return str(one(self._session(), "SELECT VERSION()"))

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    # --- the table ----------------------------------------------------------------------------------------------------

    def _database(self, connection: Connection, table: TargetTable) -> str:
        """Return the database of the target table, or another one where the load has to make that first."""
        wanted = table.target.schema
        if has_database(connection, wanted):
            return wanted
        found = ask(connection, DATABASES)
        if not found:
            raise TargetError(NO_DATABASE.format(wanted), hint=f"CREATE DATABASE {quoted(wanted)}, or any other")
        return str(found[0][0])

    def _make(self, connection: Connection, schema: TableSchema, table: TargetTable) -> None:
        own = self._written()
        existing = read_table(connection, table.target)
        if existing is not None:
            run(connection, f"CREATE TEMPORARY TABLE {table_name(own.target)} LIKE {table_name(table.target)}")
            if existing.engine.lower() != "innodb":  # of no other one a rollback empties the table
                run(connection, f"ALTER TABLE {table_name(own.target)} ENGINE=InnoDB ROW_FORMAT=DEFAULT")
            return
        if self._release is None:
            self._release = Release.of(connection)
        create = ddl.create_table(schema, own, self._rules, self._release)
        if table.computed and not self._is_made(connection, create):
            create = ddl.create_table(schema, own, self._rules, self._release, computes=False)
        run(connection, _temporary(create))

    def _is_made(self, connection: Connection, create: str) -> bool:
        """Return whether the server makes the table with the columns that it computes; it is gone again."""
        try:
            run(connection, _temporary(create))
        except pymysql.err.Error as error:
            if error.args[0] in NO_RIGHT or not connection.open:
                raise
            return False
        run(connection, f"DROP TEMPORARY TABLE {table_name(self._written().target)}")
        return True

    def _ready(self, connection: Connection) -> None:
        """Find how rows are sent to the table, and begin the transaction."""
        table = self._written()
        self._way = way(table, family(connection), _columns_of(connection, table))
        run(connection, "START TRANSACTION")

    def _written(self) -> TargetTable:
        assert self._table is not None, "it was begun"
        return self._table

    # --- the session --------------------------------------------------------------------------------------------------

    def _anew(self) -> Connection:
        """Return the session without the tables of a former trial."""
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint, "anabranch-scan", autocommit=True, checks_keys=False)
            with suppress(pymysql.err.Error):  # without the right: no server logs a temporary table by rows
                run(self._connection, "SET SESSION sql_log_bin = 0")
        with translated("begin a session"):
            run(self._connection, "ROLLBACK")
            if self._table is not None:
                places = (TableId(self._table.target.schema, name) for name in (OWN, KEYS))
                run(self._connection, f"DROP TEMPORARY TABLE IF EXISTS {', '.join(map(table_name, places))}")
        return self._connection

    def _session(self) -> Connection:
        assert self._connection is not None, "it was begun"
        return self._connection


def _complaint(connection: Connection, way_there: Way, lines: list[bytes]) -> Complaint | None:
    """Load lines, all of them or none. Returns what the server has against them; of a single one in the words of an error."""
    run(connection, "SAVEPOINT anabranch_tried")
    complaint = loaded(connection, way_there, [b"".join(lines)], lines)
    if complaint is None:
        return None
    run(connection, "ROLLBACK TO SAVEPOINT anabranch_tried")
    if len(lines) == 1:
        complaint = loaded(connection, way_there, lines, lines, insert) or complaint
        run(connection, "ROLLBACK TO SAVEPOINT anabranch_tried")
    return complaint


def _refused(complaint: Complaint, line: bytes, table: TargetTable) -> RefusedLine:
    if not complaint.number:
        raise TargetError(f"try rows: {complaint.text}", table=str(table.source), hint=ELSE)
    what = complaint.text.replace(f"{table.target.name}.", "")
    column = next((name for name in table.columns if f"'{name}'" in what), "")
    return RefusedLine(line, what, hint_of(complaint), column, complaint.number in TAKEN)


def _temporary(create: str) -> str:
    assert create.startswith(MADE), create
    return f"CREATE TEMPORARY TABLE {create.removeprefix(MADE)}"


def _columns_of(connection: Connection, table: TargetTable) -> Columns:
    """Look up the columns that need care, as `load_data.columns_of` does in a table that everybody sees."""
    guarded, counted = set(), set()
    ours = {name.lower(): name for name in table.columns}
    for name, kind, nullable, _, _, extra in ask(connection, COLUMNS.format(table_name(table.target))):
        column = ours.get(str(name).lower(), str(name))
        is_counted = "auto_increment" in str(extra).lower()
        is_moment = str(kind).lower().startswith("timestamp") and str(nullable) == "NO"
        if is_counted:
            counted.add(column)
        if (is_counted or is_moment) and column not in table.key:
            guarded.add(column)
    return Columns(frozenset(guarded), frozenset(counted))
