"""Compare a table with its shadow at a MySQL or MariaDB: rows of both whose values are not the same, byte by byte.

The family has no FULL JOIN: rows of the table and those that only the shadow has are two queries, on one snapshot. Rows have no
number that changes when they are written again, so a version is a digest of the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pymysql

from anabranch.connectors.mysql.connection import ask
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.contracts import Unlike, UnlikeRow
from anabranch.model.ids import TableId

TYPES = (
    "SELECT COLUMN_NAME, LOWER(DATA_TYPE) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
# Types whose values have an equality of their own, which is finer or coarser than that of what a reader sees.
CHARACTERS = frozenset("char varchar tinytext text mediumtext longtext enum set".split())  # noqa: SIM905 - a table of words
SHAPES = frozenset(
    [
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
        "vector",
    ]
)
BYTES = frozenset("binary varbinary tinyblob blob mediumblob longblob bit".split())  # noqa: SIM905 - a table of words
TABLE, SHADOW = "o", "s"


def unlike(
    connection: pymysql.Connection,
    table: TableId,
    shadow: TableId,
    key: Sequence[str],
    columns: Sequence[str],
    limit: int,
) -> Unlike:
    """Compare on one snapshot. The first rows by key are told, of the table's before those of the shadow alone."""
    types = {str(column): str(type) for column, type in ask(connection, TYPES, table.schema, table.name)}
    query = _Queries(table, shadow, key, columns, types)
    try:
        ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        ((rows,),) = ask(connection, f"SELECT COUNT(*) FROM {qualified(table)}")
        found = ask(connection, query.of_table(limit)), ask(connection, query.of_shadow_alone(limit))
        count = sum(map(len, found))
        if any(len(one) == limit for one in found):
            count = sum(int(ask(connection, one)[0][0]) for one in query.counts())
        ask(connection, "ROLLBACK")
    except BaseException:  # whatever it was: to wait for the answer's end would take as long as the comparison
        connection._force_close()
        raise
    sample = [_row(row, len(key), columns) for some in found for row in some][:limit]
    return Unlike(int(rows), count, tuple(sample))


class _Queries:
    def __init__(
        self, table: TableId, shadow: TableId, key: Sequence[str], columns: Sequence[str], types: Mapping[str, str]
    ) -> None:
        self._table, self._shadow, self._key, self._columns, self._types = table, shadow, key, columns, types

    def of_table(self, limit: int) -> str:
        """Return the query for rows of the table that the shadow has otherwise, or not at all."""
        found = f"{SHADOW}.{name(self._key[0])} IS NOT NULL"
        columns = (f"{found} AND {self._differs(column)}" for column in self._columns)
        shown = self._shown(TABLE, self._digest(TABLE), f"IF({found}, {self._digest(SHADOW)}, '')", columns)
        return f"SELECT {shown} {self._rows_of_table()} ORDER BY {self._order(TABLE)} LIMIT {limit}"

    def of_shadow_alone(self, limit: int) -> str:
        shown = self._shown(SHADOW, "''", self._digest(SHADOW), ("FALSE" for _ in self._columns))
        return f"SELECT {shown} {self._rows_of_shadow_alone()} ORDER BY {self._order(SHADOW)} LIMIT {limit}"

    def counts(self) -> tuple[str, str]:
        return f"SELECT COUNT(*) {self._rows_of_table()}", f"SELECT COUNT(*) {self._rows_of_shadow_alone()}"

    def _rows_of_table(self) -> str:
        differs = " OR ".join([f"{SHADOW}.{name(self._key[0])} IS NULL", *map(self._differs, self._columns)])
        return f"FROM {self._joined((self._table, TABLE), (self._shadow, SHADOW))} WHERE {differs}"

    def _rows_of_shadow_alone(self) -> str:
        joined = self._joined((self._shadow, SHADOW), (self._table, TABLE))
        return f"FROM {joined} WHERE {TABLE}.{name(self._key[0])} IS NULL"

    def _joined(self, left: tuple[TableId, str], right: tuple[TableId, str]) -> str:
        on = " AND ".join(f"{TABLE}.{name(column)} = {SHADOW}.{name(column)}" for column in self._key)
        return f"{qualified(left[0])} {left[1]} LEFT JOIN {qualified(right[0])} {right[1]} ON {on}"

    def _shown(self, of: str, original: str, shadow: str, columns: Iterable[str]) -> str:
        keys = (self._key_text(of, column) for column in self._key)
        return ", ".join([*keys, original, shadow, *columns])

    def _order(self, of: str) -> str:
        return ", ".join(f"{of}.{name(column)}" for column in self._key)

    def _key_text(self, of: str, column: str) -> str:
        value = f"{of}.{name(column)}"
        return f"HEX({value})" if self._types[column] in BYTES else f"CAST({value} AS CHAR)"

    def _differs(self, column: str) -> str:
        return f"NOT ({self._exact(TABLE, column)} <=> {self._exact(SHADOW, column)})"

    def _exact(self, of: str, column: str) -> str:
        """Return what is equal only where a reader sees the same."""
        value, type = f"{of}.{name(column)}", self._types[column]
        if type in CHARACTERS:
            return f"CAST({value} AS BINARY)"
        if type == "json":  # its own equality takes 1 for 1.0
            return f"CAST(CAST({value} AS CHAR) AS BINARY)"
        return f"HEX({value})" if type in SHAPES else value

    def _digest(self, of: str) -> str:
        """Return a digest of the values that are compared; each cell is one first, so that no text grows beyond a packet."""
        cells = (f"IFNULL(SHA2({self._printed(of, column)}, 256), '-')" for column in self._columns)
        return f"SHA2(CONCAT_WS(',', {', '.join(cells)}), 256)"

    def _printed(self, of: str, column: str) -> str:
        exact = self._exact(of, column)
        return f"{exact} + 0e0" if self._types[column] == "float" else exact


def _row(row: Sequence[object], keys: int, columns: Sequence[str]) -> UnlikeRow:
    key, (original, shadow), differ = row[:keys], row[keys : keys + 2], row[keys + 2 :]
    named = tuple(column for column, is_other in zip(columns, differ, strict=True) if is_other)
    return UnlikeRow(tuple(map(_text, key)), (_text(original), _text(shadow)), named)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
