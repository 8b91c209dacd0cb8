"""Values of a column's type that are in no table, in a temporary table of the session that reads them.

What does not live here: which values those are (edge_values.py, and whoever draws), reading them (snapshot.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.source.edge_values import values_of
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.contracts import Drawn, lone_column
from anabranch.errors import SourceError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

PLACE = TableId("pg_temp", "anabranch_types")
KEY = Column("anabranch_id", LogicalType(Kind.INT32), "integer", nullable=False)
# A value that the type, or a domain's check, does not take: https://www.postgresql.org/docs/current/errcodes-appendix.html
NOT_TAKEN = ("0A", "22", "23", "42", "54")
NO_RIGHT = "permission denied to create temporary tables"
GRANT = "GRANT TEMPORARY ON DATABASE … TO the job's user at the source"


def draw(connection: Connection, table: TableSchema, column: str, texts: Sequence[str]) -> Drawn:
    """Do what DrawingReader.draw says."""
    release = str(connection.info.parameter_status("server_version"))
    make = sql.SQL("CREATE TABLE {} AS SELECT NULL::integer AS {}, {} FROM {} WITH NO DATA").format(
        table_name(PLACE), sql.Identifier(KEY.name), sql.Identifier(column), table_name(table.id)
    )
    try:
        with translated("make a temporary table"):
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table_name(PLACE)))
            connection.execute(make)
    except SourceError as error:
        if NO_RIGHT in error.message:
            error.hint = GRANT
        raise
    put = sql.SQL("INSERT INTO {} VALUES ({}, {})")
    taken = 0
    for value in _values(table.column(column), texts, connection.info.server_version // 10_000):
        with translated("draw values"):
            try:
                connection.execute(put.format(table_name(PLACE), sql.Literal(taken + 1), value))
            except psycopg.Error as error:
                if not (error.sqlstate or "").startswith(NOT_TAKEN):
                    raise
                continue
        taken += 1
    return Drawn(lone_column(table, PLACE, KEY, column), taken, f"PostgreSQL {release}")


def _values(column: Column, texts: Sequence[str], release: int) -> Iterator[sql.Composable]:
    edges = values_of(release)
    bare = column.native.partition("(")[0]
    for native, values in edges.items():
        if native == column.native or native.partition("(")[0] == bare:
            for value in values:
                yield sql.SQL("({})::{}").format(_own(value), _own(column.native))
    for text in texts:
        yield sql.Literal(text)
    yield sql.NULL


def _own(text: str) -> sql.SQL:
    """Return words of this database's own, an expression of edge_values.py or a type as the server spells it, as SQL."""
    return sql.SQL(text)
