"""Values of a column's type that are in no table, in a temporary table of the session that reads them.

What does not live here: which values those are (`edge_values.py`, and whoever draws), reading them (`load.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.charsets import character_bytes
from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.errors import translate
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.edge_values import ALL
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.mysql.source.typemap import spelled
from anabranch.contracts import Drawn, lone_column
from anabranch.errors import SourceError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

TABLE, VALUE = "anabranch_types", "v"
DATABASES = """
SELECT SCHEMA_NAME FROM information_schema.SCHEMATA
 WHERE SCHEMA_NAME NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys') ORDER BY SCHEMA_NAME
"""
KEY = Column("anabranch_id", LogicalType(Kind.INT32), "int", nullable=False)
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
NO_RIGHT = (1044, 1142)
LOST = (2006, 2013, 2055)
# What a server says of a value; everything else leaves open whether the column takes it.
OF_VALUES = (pymysql.err.DataError, pymysql.err.IntegrityError)
NOT_TAKEN = frozenset(
    {
        *(1048, 1118, 1210, 1264, 1265, 1292, 1300, 1366, 1367, 1406, 1411, 1416, 1441, 1525, 1690),
        *(3037, 3055, 3140, 3141, 3144, 3157, 3616, 3617, 3643, 3751, 3752, 3819, 4025, 4079),
    }
)
GRANT = "GRANT CREATE TEMPORARY TABLES ON {}.* TO the job's user at the source"


def draw(connection: pymysql.Connection, table: TableSchema, column: str, texts: Sequence[str]) -> Drawn:
    """Do what DrawingReader.draw says."""
    place = TableId(table.id.schema, TABLE)
    made = f"AS SELECT 0 AS {name(KEY.name)}, {name(column)} FROM {qualified(table.id)} LIMIT 0"
    _make(connection, place, made)
    return _filled(connection, lone_column(table, place, KEY, column), texts)


def natives() -> Sequence[str]:
    return list(ALL)


def draw_type(
    connection: pymysql.Connection, native: str, texts: Callable[[LogicalType], Sequence[str]], own: str
) -> Drawn | None:
    """Do what DrawingReader.draw_type says, in any database that is there. `own`: the family."""
    found = ask(connection, DATABASES)
    if not found:
        raise SourceError("the source has no database in which a temporary table can stand", hint="CREATE DATABASE …")
    place = TableId(str(found[0][0]), TABLE)
    made = f"({name(KEY.name)} int, {name(VALUE)} {native}) DEFAULT CHARACTER SET utf8mb4"
    if not _make(connection, place, made, refuses=True):
        return None
    _, (_, printed, collation, *_rest) = ask(connection, f"SHOW FULL COLUMNS FROM {qualified(place)}")
    type, charset = spelled(str(printed), own), str(collation or "").partition("_")[0]
    if type is None:
        return None
    column = Column(VALUE, type, str(printed), charset=charset, collation=str(collation or ""))
    column = replace(column, character_bytes=character_bytes(charset))
    return _filled(connection, TableSchema(place, (KEY, column), (KEY.name,), engine="InnoDB"), texts(type))


def _make(connection: pymysql.Connection, place: TableId, made: str, refuses: bool = False) -> bool:
    """Make the table. Returns False where the server refuses it and `refuses` says that it may."""
    with connection.cursor() as cursor:
        with suppress(pymysql.err.Error):  # without the right: no server logs a temporary table by rows
            cursor.execute("SET SESSION sql_log_bin = 0")
        try:
            cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {qualified(place)}")
            cursor.execute(f"CREATE TEMPORARY TABLE {qualified(place)} {made}")
        except (pymysql.err.Error, OSError) as error:
            number = error.args[0] if error.args else 0
            if refuses and number not in (*NO_RIGHT, *LOST) and isinstance(error, pymysql.err.Error):
                return False
            found = translate(error)
            if isinstance(found, SourceError) and number in NO_RIGHT:
                found.hint = GRANT.format(name(place.schema))
            raise found from error
    return True


def _filled(connection: pymysql.Connection, schema: TableSchema, texts: Sequence[str]) -> Drawn:
    with connection.cursor() as cursor:
        values = enumerate(_values(schema.columns[1], texts))
        taken = sum(_is_put(cursor, schema.id, number, one) for number, one in values)
    return Drawn(schema, taken, str(ask(connection, "SELECT VERSION()")[0][0]))


def _is_put(cursor: pymysql.cursors.Cursor, place: TableId, number: int, value: object) -> bool:
    """Insert a value. Returns whether the column has taken it."""
    try:
        cursor.execute(f"INSERT INTO {qualified(place)} VALUES (%s, %s)", (number, value))
    except pymysql.err.Error as error:
        if not isinstance(error, OF_VALUES) and (not error.args or error.args[0] not in NOT_TAKEN):
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
