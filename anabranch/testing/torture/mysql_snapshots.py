"""Snapshots of a history's tables at a MySQL or MariaDB (targets.Snapshots): several statements in one round trip, inside one
transaction of REPEATABLE READ.

What does not live here: when it is asked, and whether what is seen is right (watcher.py, check.py); what a printed value means
(mysql_target_values.py). https://dev.mysql.com/doc/refman/8.0/en/innodb-consistent-read.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.constants import CLIENT, ER
from pymysql.converters import encoders

from anabranch.testing.databases import Database
from anabranch.testing.torture.mysql_target_values import Printed, Shown, read_as, shown
from anabranch.testing.torture.tables import Column
from anabranch.testing.torture.targets import Passing, Snapshot, found_in, shown_in
from anabranch.testing.torture.values import copied

CONNECT_SECONDS = 10
SILENCE = 30  # seconds after which a target that does not answer counts as lost
PINS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', sql_safe_updates = 0, lock_wait_timeout = 30",
)
HAS_STATES = (
    "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'anabranch' AND table_name = 'table_state'"
)
NONE_AWAY = "SELECT '' FROM DUAL WHERE FALSE"
AWAY = (
    "SELECT SUBSTRING_INDEX(source_table, '.', -1) FROM anabranch.table_state WHERE job = '{job}' AND state <> 'streaming'"
    " ORDER BY 1"
)
STREAMS = "SELECT COALESCE(MIN(state = 'streaming'), 0) FROM anabranch.table_state WHERE job = %s"
# A table that is made anew meanwhile, or changed since the snapshot: the next look sees it.
PASSING = frozenset({ER.NO_SUCH_TABLE, ER.TABLE_DEF_CHANGED, ER.BAD_FIELD_ERROR})
# Asked behind the tables: where it is as it was before them, they were without these columns all the time.
ADDED = """
SELECT table_name, column_name FROM information_schema.columns
 WHERE table_schema = '{namespace}' AND column_name IN ({names})"""
# The same of all columns of tables that come and go.
PASSING_THERE = """
SELECT table_name, column_name FROM information_schema.columns
 WHERE table_schema = '{namespace}' AND (column_name IN ({names}) OR table_name RLIKE '^({tables})(_[0-9_]+)?$')"""
Row = tuple[Printed | None, ...]


def connected(target: Database, **options: Any) -> Any:
    """Return a connection whose values come as the server prints them, with the settings that matter pinned."""
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": SILENCE}
    connection = target.connect(conv=dict(encoders), **limits | options)  # what is read is left as it is printed
    with connection.cursor() as cursor:
        for pin in PINS:
            cursor.execute(pin)
    return connection


@dataclass
class MysqlSnapshots:
    """`columns`: those to be read, by table; one that comes or goes shows, while it is away, its default. `beside`: whole
    tables or views, all of texts and numbers. `passing`: tables that come and go, by name, with the columns that each of them
    may have."""

    target: Database
    namespace: str
    columns: Mapping[str, Sequence[Column]]
    beside: Sequence[str]
    passing: Mapping[str, Sequence[Sequence[Column]]] = field(default_factory=dict)
    _connection: Any = field(default=None, init=False)
    _query: str = field(default="", init=False)
    _lines: list[Lines] = field(default_factory=list, init=False)
    _there: frozenset[tuple[str, str]] = field(default=frozenset(), init=False)  # columns that vary, by table
    _found: Sequence[Passing] = field(default=(), init=False)  # of those that come and go, the ones that are there

    @property
    def has_more(self) -> bool:
        return False

    def read(self) -> Snapshot:
        if self._connection is None:
            self._connect()
        try:
            results = results_of(self._connection, self._query)
        except pymysql.err.ProgrammingError as error:
            if error.args[0] not in PASSING:
                raise
            raise pymysql.err.OperationalError(*error.args) from error
        _, *read_rows, away, there, _ = results
        if _pairs(there) != self._there:
            self.close()
            return self.read()
        read = [lines.of_rows(rows) for lines, rows in zip(self._lines, read_rows, strict=True)]
        tables = dict(zip(self.columns, read, strict=False))
        beside = dict(zip(self.beside, read[len(tables) :], strict=False))
        passing = shown_in(self.passing, self._found, read[len(tables) + len(beside) :])
        return Snapshot(tables | passing, beside, frozenset(str(row[0]) for row in away))

    def _connect(self) -> None:
        self._connection = connected(self.target, client_flag=CLIENT.MULTI_STATEMENTS)
        with self._connection.cursor() as cursor:
            cursor.execute(HAS_STATES)
            has_states = cursor.fetchone()[0] != "0"
        names = ", ".join(sorted({f"'{n}'" for some in self.columns.values() for c in some for n in c.varying}))
        added = ADDED.format(namespace=self.namespace, names=names) if names else NONE_AWAY
        if self.passing:
            added = PASSING_THERE.format(
                namespace=self.namespace, names=names or "''", tables="|".join(map(re.escape, self.passing))
            )
        self._there = _pairs(results_of(self._connection, added)[0])
        self._lines = [Lines([self._shown(table, c) for c in columns]) for table, columns in self.columns.items()]
        self._lines += [Lines([]) for _ in self.beside]
        self._found = found_in(self.passing, self._there)
        self._lines += [Lines([shown(column.of) for column in one.columns]) for one in self._found]
        selects = [
            f"SELECT {', '.join(self._read_as(table, c) for c in columns)} FROM `{self.namespace}`.`{table}`"
            for table, columns in self.columns.items()
        ]
        selects += [f"SELECT * FROM `{self.namespace}`.`{table}`" for table in self.beside]
        selects += [_selected(self.namespace, one) for one in self._found]
        selects += [AWAY.format(job=self.namespace) if has_states else NONE_AWAY, added]
        self._query = "; ".join(("START TRANSACTION WITH CONSISTENT SNAPSHOT", *selects, "COMMIT"))

    def _name(self, table: str, column: Column) -> str:
        return column.shown_as([name for one, name in self._there if one == table])

    def _read_as(self, table: str, column: Column) -> str:
        if name := self._name(table, column):
            return read_as(column.of, name)
        return "NULL" if column.before() is None else "1"

    def _shown(self, table: str, column: Column) -> Shown:
        return shown(column.of) if self._name(table, column) else lambda _: column.before() or ""

    def streams(self) -> bool:
        with closing(connected(self.target)) as connection, connection.cursor() as cursor:
            cursor.execute(HAS_STATES)
            if cursor.fetchone()[0] == "0":
                return False
            cursor.execute(STREAMS, [self.namespace])
            return str(cursor.fetchone()[0]) == "1"

    def close(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.err.Error, OSError):
                self._connection.close()
            self._connection = None


def _selected(namespace: str, one: Passing) -> str:
    columns = ", ".join(read_as(column.of, column.name) for column in one.columns)
    return f"SELECT {columns or 1} FROM `{namespace}`.`{one.table}`" + ("" if columns else " LIMIT 0")


def _pairs(rows: Sequence[Row]) -> frozenset[tuple[str, str]]:
    return frozenset((str(table), str(column)) for table, column in rows)


@dataclass
class Lines:
    """Makes lines of rows, each different one once: a table is read hundreds of times a second and changes a little.

    `of`: what makes a text of each column's values; [] for all of them texts already."""

    of: Sequence[Shown]
    _known: dict[Row, bytes] = field(default_factory=dict)

    def of_row(self, row: Row) -> bytes:
        made: Sequence[Callable[[Printed], str]] = self.of or [str] * len(row)
        texts = (None if value is None else text(value) for text, value in zip(made, row, strict=True))
        return "\t".join(map(copied, texts)).encode() + b"\n"

    def of_rows(self, rows: Sequence[Row]) -> bytes:
        known = self._known
        for row in rows:
            if row not in known:
                known[row] = self.of_row(row)
        return b"".join(known[row] for row in rows)


def results_of(connection: Any, query: str) -> list[Sequence[Row]]:
    """Return the rows of each statement. A lost line is an operational error, whatever the driver says of it."""
    found = []
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            found.append(cursor.fetchall())
            while cursor.nextset():
                found.append(cursor.fetchall())
    except (pymysql.err.InterfaceError, OSError) as error:
        raise pymysql.err.OperationalError(0, f"the line was lost: {error}") from error
    return found
