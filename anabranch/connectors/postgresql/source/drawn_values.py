"""Values of a column's type that are in no table, in a temporary table of the session that reads them.

What does not live here: which values those are (edge_values.py, and whoever draws), reading them (snapshot.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.source.edge_values import values_of
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.typemap import spelled
from anabranch.connectors.postgresql.verbatim import DIALECT
from anabranch.contracts import Drawn, lone_column
from anabranch.errors import SourceError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

PLACE, VALUE = TableId("pg_temp", "anabranch_types"), "v"
KEY = Column("anabranch_id", LogicalType(Kind.INT32), "integer", nullable=False)
# A value that the type, or a domain's check, does not take: https://www.postgresql.org/docs/current/errcodes-appendix.html
NOT_TAKEN = ("0A", "22", "23", "42", "54")
NO_RIGHT = "permission denied to create temporary tables"
GRANT = "GRANT TEMPORARY ON DATABASE … TO the job's user at the source"


def draw(connection: Connection, table: TableSchema, column: str, texts: Sequence[str]) -> Drawn:
    """Do what DrawingReader.draw says."""
    made = sql.SQL("AS SELECT NULL::integer AS {}, {} FROM {} WITH NO DATA").format(
        sql.Identifier(KEY.name), sql.Identifier(column), table_name(table.id)
    )
    with translated("make a temporary table"):
        _make(connection, made)
    return _filled(connection, lone_column(table, PLACE, KEY, column), texts)


def natives(connection: Connection) -> Sequence[str]:
    return list(values_of(connection.info.server_version // 10_000))


def draw_type(connection: Connection, native: str, texts: Callable[[LogicalType], Sequence[str]]) -> Drawn | None:
    """Do what DrawingReader.draw_type says."""
    type = spelled(native)
    with translated("make a temporary table"):
        try:
            _make(
                connection,
                sql.SQL("({} integer, {} {})").format(sql.Identifier(KEY.name), sql.Identifier(VALUE), _own(native)),
            )
        except (psycopg.errors.UndefinedObject, psycopg.errors.FeatureNotSupported):
            return None
    schema = TableSchema(PLACE, (KEY, Column(VALUE, type, native)), (KEY.name,), dialect=DIALECT)
    return _filled(connection, schema, texts(type))


def _make(connection: Connection, made: sql.Composable) -> None:
    """Make the table. Raises psycopg.Error, SourceError without the right."""
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table_name(PLACE)))
    try:
        connection.execute(sql.SQL("CREATE TABLE {} ").format(table_name(PLACE)) + made)
    except psycopg.errors.InsufficientPrivilege as error:
        if NO_RIGHT in str(error):
            raise SourceError(NO_RIGHT, hint=GRANT) from None
        raise


def _filled(connection: Connection, schema: TableSchema, texts: Sequence[str]) -> Drawn:
    put = sql.SQL("INSERT INTO {} VALUES ({}, {})")
    taken, column = 0, schema.columns[1]
    for value in _values(column, texts, connection.info.server_version // 10_000):
        with translated("draw values"):
            try:
                connection.execute(put.format(table_name(PLACE), sql.Literal(taken + 1), value))
            except psycopg.Error as error:
                if not (error.sqlstate or "").startswith(NOT_TAKEN):
                    raise
                continue
        taken += 1
    return Drawn(schema, taken, f"PostgreSQL {connection.info.parameter_status('server_version')}")


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
