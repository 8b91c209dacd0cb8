"""Measures how long the values of columns are, for targets whose keys have room for so much only: one query per table.

What does not live here: what a target makes of it (its own preflight).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.source.connection import open_session, own_rows
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.model.datatype import Kind
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import TableSchema

MOST_BYTES = 256 << 20  # of a table with all of its partitions: preflight is not to read a large one
BYTES = """
SELECT sum(pg_table_size(p.relid))::bigint FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
 CROSS JOIN LATERAL (SELECT r.oid AS relid UNION SELECT relid FROM pg_partition_tree(r.oid)) p
 WHERE n.nspname = %s AND r.relname = %s
HAVING count(*) > 0
"""
SINCE = 120_000  # pg_partition_tree
# It took too long, another one has the table, or the user may not read it: its own check says so. Or the table is no longer as
# the job has it, which parks that one table.
UNANSWERED = (
    psycopg.errors.QueryCanceled,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedFunction,
)


def longest(endpoint: Endpoint, table: TableSchema, columns: Sequence[str]) -> Mapping[str, int] | None:
    """Return the length of each column's longest value, as SourceLengths has it. Raises SourceUnavailable."""
    with open_session(endpoint) as connection, translated(f"ask how long values of {table.id} are"):
        if connection.info.server_version < SINCE:
            return None
        size = connection.execute(BYTES, [table.id.schema, table.id.name]).fetchone()
        if size is None or size[0] > MOST_BYTES:
            return None
        lengths = sql.SQL(", ").join(_length(table, name) for name in columns)
        try:
            query = sql.SQL("SELECT {} FROM {}").format(lengths, own_rows(table))
            (found,) = connection.execute(query).fetchall()
        except UNANSWERED:
            return None
        return {name: int(length or 0) for name, length in zip(columns, found, strict=True)}


def _length(table: TableSchema, name: str) -> sql.Composable:
    """Return the most of a column's lengths. concat() prints a value of any type as it goes to a target."""
    type = table.column(name).type
    is_bytes = type is not None and type.kind is Kind.BINARY
    form = "max(octet_length({}))" if is_bytes else "max(char_length(concat({})))"
    return sql.SQL(form).format(sql.Identifier(name))
