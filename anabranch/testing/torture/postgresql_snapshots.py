"""Snapshots of a history's tables at a PostgreSQL (targets.Snapshots): one query of several COPYs, one round trip.

Where no transaction has begun or ended at the server since the last one, a snapshot shows the same, and is not read again: most
of the looks at a job that works for a while at its next epoch.

What does not live here: when it is asked, and whether what is seen is right (watcher.py, check.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus

from anabranch.connectors.sql.readable import is_readable, is_writable
from anabranch.testing.databases import Database
from anabranch.testing.torture.tables import Column
from anabranch.testing.torture.targets import Passing, Snapshot, found_in, shown_in

OPTIONS = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c client_encoding=UTF8"
CONNECT_SECONDS = 10
SILENCE = 30.0  # seconds after which a target that does not answer counts as lost
HAS_STATES = "SELECT to_regclass('anabranch.table_state') IS NOT NULL"
NONE_AWAY = "COPY (SELECT WHERE false) TO STDOUT"
AWAY = """
COPY (SELECT split_part(source_table, '.', 2) FROM anabranch.table_state WHERE job = '{job}' AND state <> 'streaming'
       ORDER BY 1) TO STDOUT"""
# Equal answers see the same rows. https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT
SEEN = b"COPY (SELECT pg_catalog.pg_current_snapshot()) TO STDOUT"
# Of columns that come, go or are renamed: those that are there, in the same snapshot.
ADDED = """
COPY (SELECT table_name, column_name FROM information_schema.columns
       WHERE table_schema = '{namespace}' AND column_name = ANY ('{{{names}}}')) TO STDOUT"""
# The same of all columns of tables that come and go, and each table's number behind its name.
PASSING = """
COPY (SELECT table_name, column_name FROM information_schema.columns
       WHERE table_schema = '{namespace}'
         AND (column_name = ANY ('{{{names}}}') OR table_name ~ '^({tables})(_[0-9_]+)?$')
      UNION ALL
      SELECT c.relname, c.oid::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = '{namespace}' AND c.relkind = 'r' AND c.relname ~ '^({tables})(_[0-9_]+)?$') TO STDOUT"""
# Names are those of now, in an old snapshot, too: a table that came in place of another one since would look empty.
SAME = """
COPY (SELECT t, to_regclass(format('%I.%I', '{namespace}', t))::oid::text
        FROM unnest('{{{tables}}}'::text[]) t) TO STDOUT"""
STREAMS = "SELECT coalesce(bool_and(state = 'streaming'), false) FROM anabranch.table_state WHERE job = %s"


@dataclass
class PostgresqlSnapshots:
    """`columns`: those to be read, by table; one that comes or goes shows, while it is away, its default. `beside`: whole
    tables or views. `passing`: tables that come and go, by name, with the columns that each of them may have."""

    target: Database
    namespace: str
    columns: Mapping[str, Sequence[Column]]
    beside: Sequence[str]
    passing: Mapping[str, Sequence[Sequence[Column]]] = field(default_factory=dict)
    _connection: Any = field(default=None, init=False)
    _query: bytes = field(default=b"", init=False)
    _there: frozenset[tuple[str, str]] = field(default=frozenset(), init=False)  # columns that vary, by table
    _found: Sequence[Passing] = field(default=(), init=False)  # of those that come and go, the ones that are there
    _last: tuple[bytes, Snapshot] | None = field(
        default=None, init=False
    )  # of this connection: after a crash numbers come again

    @property
    def has_more(self) -> bool:
        return False

    def read(self) -> Snapshot:
        if self._connection is None:
            self._connect()
        if self._last is not None and copied_out(self._connection.pgconn, SEEN, 1) == [self._last[0]]:
            return self._last[1]
        try:
            number = len(self.columns) + len(self.beside) + len(self._found) + 4
            seen, there, *read, away, same = copied_out(self._connection.pgconn, self._query, number)
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable) as error:
            # The server has forgotten its last commits, or a table went behind the snapshot.
            raise psycopg.OperationalError(str(error)) from error
        if _pairs(there) != self._there or not _pairs(same) <= self._there:
            self.close()
            return self.read()
        tables = dict(zip(self.columns, read, strict=False))
        beside = dict(zip(self.beside, read[len(tables) :], strict=False))
        passing = shown_in(self.passing, self._found, read[len(tables) + len(beside) :])
        self._last = seen, Snapshot(tables | passing, beside, frozenset(away.decode().split()))
        return self._last[1]

    def _connect(self) -> None:
        self._connection = self.target.connect(options=OPTIONS, connect_timeout=CONNECT_SECONDS)
        has_states = self._connection.execute(HAS_STATES).fetchone()[0]
        names = ",".join(sorted({n for some in self.columns.values() for c in some for n in c.varying}))
        added = ADDED.format(namespace=self.namespace, names=names) if names else NONE_AWAY
        if self.passing:
            added = PASSING.format(namespace=self.namespace, names=names, tables="|".join(map(re.escape, self.passing)))
        self._there = _pairs(copied_out(self._connection.pgconn, added.encode(), 1)[0])
        copies = [SEEN.decode(), added]
        copies += [
            f'COPY (SELECT {self._shown(table)} FROM "{self.namespace}"."{table}") TO STDOUT' for table in self.columns
        ]
        copies += [f'COPY (TABLE "{self.namespace}"."{table}") TO STDOUT' for table in self.beside]
        self._found = found_in(self.passing, self._there)
        copies += [_copied(self.namespace, one) for one in self._found]
        copies.append(AWAY.format(job=self.namespace) if has_states else NONE_AWAY)
        copies.append(SAME.format(namespace=self.namespace, tables=",".join(one.table for one in self._found)))
        self._query = "; ".join(("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", *copies, "COMMIT")).encode()

    def _shown(self, table: str) -> str:
        there = [name for one, name in self._there if one == table]
        names = (column.shown_as(there) for column in self.columns[table])
        return ", ".join(
            f'"{name}"' if name else sql.Literal(column.before()).as_string()
            for column, name in zip(self.columns[table], names, strict=True)
        )

    def streams(self) -> bool:
        with closing(self.target.connect(connect_timeout=CONNECT_SECONDS)) as connection:
            if connection.execute(HAS_STATES).fetchone()[0]:
                return bool(connection.execute(STREAMS, [self.namespace]).fetchone()[0])
        return False

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = self._last = None


def _pairs(lines: bytes) -> frozenset[tuple[str, str]]:
    return frozenset((table, column) for table, column in (line.split("\t") for line in lines.decode().splitlines()))


def copied_out(connection: Any, query: bytes, tables: int) -> list[bytes]:
    """Return the result of each COPY of a query of several statements: libpq gives one result for each.
    https://www.postgresql.org/docs/current/libpq-async.html"""
    connection.send_query(query)
    while connection.flush():
        is_writable(connection.socket, SILENCE)
    found: list[bytes] = []
    error: psycopg.Error | None = None
    while True:
        while connection.is_busy():
            _receive(connection)
        result = connection.get_result()
        if result is None:
            break
        if result.status == ExecStatus.COPY_OUT:
            found.append(_all_rows(connection))
        elif result.status == ExecStatus.FATAL_ERROR:
            error = error or _error(connection, result)
    if error is not None:
        raise error
    if len(found) != tables:
        raise psycopg.OperationalError("the line was lost")
    return found


def _all_rows(connection: Any) -> bytes:
    rows = []
    while True:
        size, data = connection.get_copy_data(1)
        if size > 0:
            rows.append(bytes(data))
        elif size == 0:
            _receive(connection)
        else:
            return b"".join(rows)


def _receive(connection: Any) -> None:
    if not is_readable(connection.socket, SILENCE):
        raise psycopg.OperationalError(f"the target said nothing for {SILENCE:.0f} s")
    connection.consume_input()


def _error(connection: Any, result: Any) -> psycopg.Error:
    """Return the error with its class by SQLSTATE; a connection that ended is an operational error."""
    message = result.error_message.decode(errors="replace") if hasattr(result.error_message, "decode") else ""
    state = result.error_field(DiagnosticField.SQLSTATE)
    if connection.status == ConnStatus.BAD or state is None or state[:2] in (b"57", b"08", b"53"):
        return psycopg.OperationalError(message)
    connection.exec_(b"ROLLBACK")
    return psycopg.errors.lookup(state.decode())(message)


def _copied(namespace: str, one: Passing) -> str:
    columns = ", ".join(f'"{column.name}"' for column in one.columns) or "NULL WHERE false"
    return f'COPY (SELECT {columns} FROM "{namespace}"."{one.table}") TO STDOUT'
