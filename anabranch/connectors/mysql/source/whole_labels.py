"""Labels of ENUM and SET as they are, where the server shows them with losses: in information_schema as in SHOW CREATE TABLE
each character beyond U+FFFF stands as `?`, in every release of both families. A value of the type has it whole.

So a server is asked for the values of a column that may have such labels: MariaDB by a variable of the column's type, MySQL by
a temporary table with such a column. Where it refuses, the column is refused, for nobody knows what its values are.
What does not live here: what labels mean (`typemap.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.connection import account, ask, family
from anabranch.connectors.mysql.rights import as_pattern, grant
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.mysql.source.privileges import TEMPORARY_TABLES
from anabranch.connectors.mysql.source.typemap import labels
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

LOST = "?"
# Character sets with characters beyond U+FFFF. https://dev.mysql.com/doc/refman/8.0/en/charset-unicode-sets.html
WIDE = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
LABELLED = (Kind.ENUM, Kind.SET)
# https://mariadb.com/kb/en/begin-end/ (NOT ATOMIC), https://mariadb.com/kb/en/declare-variable/ (TYPE OF)
VARIABLE = (
    "BEGIN NOT ATOMIC DECLARE v TYPE OF {table}.{column}; SET v = {value}; SELECT HEX(CONVERT(v USING utf8mb4)); END"
)
# Of the type alone: no row is read, and nothing is logged where rows are. A server may demand a primary key.
TEMPORARY = "`anabranch_labels`"
MAKE = "CREATE TEMPORARY TABLE {made} (id int PRIMARY KEY) SELECT {column} AS label FROM {table} LIMIT 0"
# No right to the database, to the table, to what a statement does.
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
DENIED = ((1044,), (1142,), (1227,))
UNKNOWN = "a label is shown as {label!r}, in which ? may stand for a character that the server does not show"


def are_doubtful(column: Column) -> bool:
    """Return whether labels of a column may be others than the server shows."""
    type = column.type
    return (
        type is not None
        and type.kind in LABELLED
        and column.charset.lower() in WIDE
        and any(LOST in label for label in type.values)
    )


def with_whole_labels(connection: pymysql.Connection, table: TableSchema) -> TableSchema:
    """Return the table with the labels that its columns have; a column of which they stay unknown is refused."""
    found = {column.name: _whole(connection, table.id, column) for column in table.columns if are_doubtful(column)}
    return replace(table, columns=tuple(found.get(c.name, c) for c in table.columns)) if found else table


def _whole(connection: pymysql.Connection, table: TableId, column: Column) -> Column:
    assert column.type is not None
    shown = column.type.values
    places = [place for place, label in enumerate(shown) if LOST in label]
    values = [1 << place if column.type.kind is Kind.SET else place + 1 for place in places]
    ways = {"mariadb": _by_variable, "mysql": _by_table}
    try:
        whole = dict(zip(places, ways[family(connection)](connection, table, column, values), strict=True))
    except SourceUnavailable:
        raise
    except SourceError as error:
        why = f"{UNKNOWN.format(label=shown[places[0]])}, and it does not say which: {error.message}"
        if _is_denied(error):
            why += f"; {grant(TEMPORARY_TABLES, f'{as_pattern(table.schema)}.*', account(connection))}"
        return replace(column, type=None, refusal=why)
    native = _native(column.native, shown, [whole.get(place, label) for place, label in enumerate(shown)])
    if native is None:
        return replace(column, type=None, refusal=UNKNOWN.format(label=shown[places[0]]))
    return replace(column, native=native, type=replace(column.type, values=labels(native)))


def _is_denied(error: SourceError) -> bool:
    cause = error.__cause__
    return isinstance(cause, pymysql.err.Error) and cause.args[:1] in DENIED


def _by_variable(connection: pymysql.Connection, table: TableId, column: Column, values: Sequence[int]) -> list[str]:
    asked = (VARIABLE.format(table=qualified(table), column=name(column.name), value=value) for value in values)
    return [_text(ask(connection, one)[0][0]) for one in asked]


def _by_table(connection: pymysql.Connection, table: TableId, column: Column, values: Sequence[int]) -> list[str]:
    made = f"{name(table.schema)}.{TEMPORARY}"
    ask(connection, MAKE.format(made=made, column=name(column.name), table=qualified(table)))
    try:
        return [_text(_value(connection, made, value)) for value in values]
    finally:
        ask(connection, f"DROP TEMPORARY TABLE {made}")


def _value(connection: pymysql.Connection, made: str, value: int) -> str:
    ask(connection, f"DELETE FROM {made}")
    ask(connection, f"INSERT INTO {made} (id, label) VALUES (1, {value})")
    return str(ask(connection, f"SELECT HEX(CONVERT(label USING utf8mb4)) FROM {made}")[0][0])


def _text(digits: str) -> str:
    return bytes.fromhex(digits).decode()


def _native(native: str, shown: Sequence[str], whole: Sequence[str]) -> str | None:
    """Return the type with its lost characters put back, None where what was told is not what is shown."""
    if list(map(len, shown)) != list(map(len, whole)):
        return None
    pairs = list(zip("".join(shown), "".join(whole), strict=True))
    if any(one not in (other, LOST) for one, other in pairs):
        return None
    lost = iter([other for one, other in pairs if one == LOST])
    return re.sub(re.escape(LOST), lambda _: next(lost), native)
