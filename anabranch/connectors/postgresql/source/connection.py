"""Sessions at a PostgreSQL that is the source, which one it is, and how a query there names a table's rows.

What does not live here: settings of every session (connection.py), the connection that the log comes over (wal_stream.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, limit_statements, one, opened, settle, table_name
from anabranch.connectors.postgresql.lookout import watch
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.positions import lsn_of
from anabranch.connectors.postgresql.told import tell
from anabranch.errors import SourceError
from anabranch.model.endpoint import Endpoint

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema

NAME = "anabranch"

# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-CONTROLDATA: a standby that is promoted keeps it
_IDENTITY = "SELECT system_identifier || ':' || current_database() FROM pg_catalog.pg_control_system()"
# The first eight digits of the file that is written now.
_TIMELINE = """
SELECT ('x' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::int
"""
# https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-BACKUP; both names of one page's beginning: a
# record that follows has its place behind the page's header, one that ended has it before.
_END = """
SELECT pg_catalog.pg_current_wal_insert_lsn()::text, size.bytes
  FROM (SELECT setting::bigint * CASE unit WHEN '8kB' THEN 8192 ELSE 1 END AS bytes
          FROM pg_catalog.pg_settings WHERE name = 'wal_segment_size') AS size
"""
_PAGE, _HEADER, _FIRST_HEADER = 8192, 24, 40  # bytes: src/include/access/xlog_internal.h
_NEW_SNAPSHOT = 130_000  # https://www.postgresql.org/docs/13/functions-info.html#FUNCTIONS-PG-SNAPSHOT


def open_session(endpoint: Endpoint, what: str = NAME, limited: bool = True) -> Connection:
    """Return a session that commits each statement. `limited`: its statements may not take longer than the job says. Raises
    SourceUnavailable, or SourceError when it refuses us."""
    with translated(f"cannot connect to {endpoint}"):
        connection, settings = opened(endpoint, what, autocommit=True)
        tell(connection, endpoint, what)
        refuse_unsettled(connection, endpoint)
        if limited:
            limit_statements(connection, endpoint)
        watch(str(endpoint), connection, settings, endpoint.limits)
        return connection


def refuse_unsettled(connection: Connection, endpoint: Endpoint, walsender: bool = False) -> None:
    """Pin the session's settings. Raises SourceError, with the connection closed, where one is not as our reading needs it."""
    if refusal := settle(connection, walsender, at_source=True):
        connection.close()
        raise SourceError(f"{endpoint.place}: {refusal[0]}", hint=refusal[1])


def identity(connection: Connection) -> str:
    """Return the identity of the server's data and the database in it."""
    return str(one(connection, _IDENTITY))


def server(connection: Connection) -> str:
    """Return the identity with the timeline, which changes when a standby is promoted."""
    return f"{identity(connection)}/{one(connection, _TIMELINE)}"


def refuse_other(connection: Connection, expected: str) -> None:
    """Raise SourceError when the connection leads to another database than capture follows (K29)."""
    if expected and (here := server(connection)) != expected:
        raise SourceError(
            f"this database is {here}, capture follows {expected}",
            hint="the source's URL leads to several servers: name the one that capture reads",
        )


def log_end(connection: Connection) -> int:
    """Ask where the last record ends: whatever is seen to be committed now is before it."""
    text, segment = connection.execute(_END).fetchall()[0]
    lsn = lsn_of(text)
    if lsn % int(segment) == _FIRST_HEADER:
        return lsn - _FIRST_HEADER
    return lsn - _HEADER if lsn % _PAGE == _HEADER else lsn


def snapshot_text(connection: Connection) -> str:
    """Return which transactions the session's snapshot has: `xmin:xmax:in progress`."""
    name = "pg_current_snapshot" if connection.info.server_version >= _NEW_SNAPSHOT else "txid_current_snapshot"
    return str(one(connection, sql.SQL("SELECT pg_catalog.{}()::text").format(sql.Identifier(name))))


def own_rows(table: TableSchema) -> sql.Composable:
    """Return what a query names for the rows that the log calls this table's.

    They are those of its partitions, and of no table that inherits from it.
    https://www.postgresql.org/docs/current/ddl-inherit.html
    """
    name = table_name(table.id)
    return name if table.partition_key else sql.SQL("ONLY {}").format(name)
