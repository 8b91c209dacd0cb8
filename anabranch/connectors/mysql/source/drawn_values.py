"""Values of a column's type that are in no table, in a temporary table of the session that reads them.

What does not live here: which values those are (`edge_values.py`, and whoever draws), reading them (`load.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pymysql

from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.errors import translate
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.edge_values import ALL
from anabranch.connectors.mysql.source.expressions import name
from anabranch.contracts import Drawn, lone_column
from anabranch.errors import SourceError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

TABLE = "anabranch_types"
KEY = Column("anabranch_id", LogicalType(Kind.INT32), "int", nullable=False)
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
NO_RIGHT = (1044, 1142)
LOST = (2006, 2013, 2055)
GRANT = "GRANT CREATE TEMPORARY TABLES ON {}.* TO the job's user at the source"


def draw(connection: pymysql.Connection, table: TableSchema, column: str, texts: Sequence[str]) -> Drawn:
    """Do what DrawingReader.draw says."""
    place = TableId(table.id.schema, TABLE)
    with connection.cursor() as cursor:
        with suppress(pymysql.err.Error):  # without the right: no server logs a temporary table by rows
            cursor.execute("SET SESSION sql_log_bin = 0")
        try:
            cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {qualified(place)}")
            cursor.execute(
                f"CREATE TEMPORARY TABLE {qualified(place)} AS"
                f" SELECT 0 AS {name(KEY.name)}, {name(column)} FROM {qualified(table.id)} LIMIT 0"
            )
        except (pymysql.err.Error, OSError) as error:
            found = translate(error)
            if isinstance(found, SourceError) and error.args and error.args[0] in NO_RIGHT:
                found.hint = GRANT.format(name(table.id.schema))
            raise found from error
        taken = sum(
            _is_put(cursor, place, number, one) for number, one in enumerate(_values(table.column(column), texts))
        )
    release = str(ask(connection, "SELECT VERSION()")[0][0])
    return Drawn(lone_column(table, place, KEY, column), taken, release)


def _is_put(cursor: pymysql.cursors.Cursor, place: TableId, number: int, value: object) -> bool:
    """Insert a value. Returns whether the column has taken it."""
    try:
        cursor.execute(f"INSERT INTO {qualified(place)} VALUES (%s, %s)", (number, value))
    except pymysql.err.Error as error:
        if not error.args or error.args[0] in LOST:
            raise translate(error) from error
        return False
    return True


def _values(column: Column, texts: Sequence[str]) -> Iterator[object]:
    words = column.native.lower().replace("(", " ").split()
    for native, values in ALL.items():
        if native.replace("(", " ").split()[0] == words[0]:
            yield from values
    for text in texts:
        yield _value(column, text)
    yield None


def _value(column: Column, text: str) -> object:
    """Return a value in text form as the driver writes it for this column."""
    kind = column.type.kind if column.type is not None else Kind.TEXT
    if kind is Kind.BINARY:
        return bytes.fromhex(text.removeprefix("\\x"))
    if kind is Kind.BIT:
        return int(text, 2)
    return text.removesuffix("+00") if kind is Kind.INSTANT else text
