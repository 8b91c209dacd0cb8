"""Cutting a target table for verification: ranges of its primary key, in the database's own order, as conditions in SQL.

What is there is asked of the server: the key may be another than the source's, and so may be its columns' types. What does
not live here: reading the pieces (`verify.py`), cutting a single integer (`mysql/cutting.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from anabranch.connectors.mysql.cutting import beyond, evenly
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, table_name
from anabranch.contracts import Bounds
from anabranch.errors import TargetError
from anabranch.model.ids import TableId

WHOLE = "TRUE"
COLUMNS = """
SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
"""
# SUB_PART: the index has the beginning of the values only
KEY = """
SELECT COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX
"""
INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the primary key. `charset`: "" for what is no text."""

    name: str
    type: str
    charset: str

    @property
    def text(self) -> str:
        """SQL for a value as `literal` takes it."""
        return TERMS[self.type][0].format(quoted(self.name))

    def literal(self, value: str) -> str:
        """Return a value as SQL that compares with the bare column, by the column's own collation and index."""
        return TERMS[self.type][1](value, self.charset)


Literal = Callable[[str, str], str]
_NUMBER: tuple[str, Literal] = ("({0}+0)", lambda value, charset: value)  # labels by their number, which is their order
_TEXT: tuple[str, Literal] = ("HEX({0})", lambda value, charset: f"_{charset} x'{value}'")
_BYTES: tuple[str, Literal] = ("HEX({0})", lambda value, charset: f"x'{value}'")
_PRINTED: tuple[str, Literal] = ("CAST({0} AS CHAR)", lambda value, charset: f"'{value}'")
# Type of a key column -> SQL for its value, and the literal made of that. A key is cut by the columns before the first of
# another type.
TERMS: Mapping[str, tuple[str, Literal]] = {
    **dict.fromkeys((*INTEGERS, "decimal", "bit", "enum", "set"), _NUMBER),
    **dict.fromkeys(("char", "varchar"), _TEXT),
    **dict.fromkeys(("binary", "varbinary"), _BYTES),
    **dict.fromkeys(("date", "datetime", "timestamp", "time", "uuid", "inet6", "inet4"), _PRINTED),
}


def pieces(connection: Connection, table: TableId, rows: int) -> list[str]:
    """Return disjoint conditions that together are the table, with some `rows` rows each. Raises TargetError where there
    is no such table."""
    key, is_whole = _key(connection, table)
    if not key:
        return [WHOLE]
    name = table_name(table)
    ends: Iterator[tuple[str, ...]]
    if is_whole and len(key) == 1 and key[0].type in INTEGERS:
        cut = evenly(lambda sql: named(connection, sql), name, quoted(key[0].name), rows)
        ends = ((str(end),) for end in cut)
    else:
        ends = _by_walking(connection, name, key, rows)
    return _conditions(key, list(ends))


def ranges(connection: Connection, table: TableId, columns: Sequence[str], bounds: Sequence[Bounds]) -> list[str]:
    """Return a condition for each range of columns of whole numbers; [] unless the primary key begins with them."""
    key, _ = _key(connection, table)
    leading = key[: len(columns)]
    if [one.name.lower() for one in leading] != [name.lower() for name in columns]:
        return []
    if not all(one.type in (*INTEGERS, "decimal") for one in leading):
        return []
    return [_inside(leading, _numbers(one.lower), _numbers(one.upper)) for one in bounds]


def _numbers(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(int(value)) for value in values)


def source(table: TableId, piece: str) -> str:
    """Return what stands behind FROM for the rows of a piece, which uses the primary key whatever the statistics say."""
    name = table_name(table)
    return name if piece == WHOLE else f"{name} FORCE INDEX (PRIMARY) WHERE {piece}"


def named(connection: Connection, sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query by the names of its columns."""
    rows = ask(connection, sql)
    names = [str(field.name) for field in connection._result.fields]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _key(connection: Connection, table: TableId) -> tuple[list[KeyColumn], bool]:
    """Return the leading columns of the primary key by which it can be cut, and whether these are all of it."""
    place = (table.schema, table.name)
    there = {
        str(name): (str(type).lower(), str(charset or "")) for name, type, charset in ask(connection, COLUMNS, *place)
    }
    if not there:
        raise TargetError(f"the target table {table} does not exist")
    key = [(str(name), part) for name, part in ask(connection, KEY, *place)]
    fit = takewhile(lambda one: one[1] is None and there[one[0]][0] in TERMS, key)
    found = [KeyColumn(name, *there[name]) for name, _ in fit]
    return found, len(found) == len(key)


def _by_walking(connection: Connection, table: str, key: Sequence[KeyColumn], rows: int) -> Iterator[tuple[str, ...]]:
    """Yield keys: each is that of the row that stands so many rows behind the one before."""
    wanted = ", ".join(f"CONCAT({column.text})" for column in key)
    order = ", ".join(quoted(column.name) for column in key)
    where = ""
    while True:
        place = f"{table} FORCE INDEX (PRIMARY){where} ORDER BY {order} LIMIT 1 OFFSET {rows - 1}"
        found = ask(connection, f"SELECT {wanted} FROM {place}")
        if not found:
            return
        last = tuple(map(str, found[0]))
        yield last
        where = f" WHERE {_compared(key, last, '>', '>')}"


def _conditions(key: Sequence[KeyColumn], ends: Sequence[tuple[str, ...]]) -> list[str]:
    """Return `low < key <= high` for neighbouring ends; the first and the last are open."""
    return [_inside(key, lower, upper) for lower, upper in zip([None, *ends], [*ends, None], strict=True)]


def _inside(key: Sequence[KeyColumn], lower: tuple[str, ...] | None, upper: tuple[str, ...] | None) -> str:
    """Return `lower < key <= upper`; None: open."""
    above = "" if lower is None else _compared(key, lower, ">", ">")
    below = "" if upper is None else _compared(key, upper, "<", "<=")
    return " AND ".join(filter(None, (above, below))) or WHOLE


def _compared(key: Sequence[KeyColumn], values: Sequence[str], strict: str, last: str) -> str:
    pairs = [(quoted(column.name), column.literal(value)) for column, value in zip(key, values, strict=True)]
    return beyond(pairs, strict, last)
