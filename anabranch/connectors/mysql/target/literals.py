"""Values as SQL, and statements for single rows that go to the server together.

A key is compared with a literal of the column's own kind, so that the server finds it by its index: numbers stand bare (a
quoted one would be compared as a double), bytes of a BINARY(n) are as long as the column is. FLOAT has no literal: 0.1 is
not the FLOAT 0.1; rows with such a key are staged. What does not live here: what a value of a type is as SQL (terms.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target import terms
from anabranch.connectors.mysql.target.known_columns import KnownColumn, KnownTable
from anabranch.connectors.mysql.target.session import Connection, quoted
from anabranch.connectors.mysql.target.staging import refuse_warnings
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

NUMBERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "year"))
INCOMPARABLE = frozenset(("float", "json", "geometry", "vector"))
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LENGTH = re.compile(r"binary\(([0-9]+)\)")
NULL, REFUSED = "NULL", "''"  # no number and no moment: in place of a NULL that the server would replace


class Literals:
    """Writes values of one table's columns as SQL."""

    def __init__(self, connection: Connection, table: TargetTable, known: KnownTable, nul: str) -> None:
        self._connection, self._strips = connection, nul == "strip"
        self._family, self.table, self.known = family(connection), table, known

    def value(self, column: str, text: str | None) -> str:
        """Return what a column is set to."""
        if text is None:
            return REFUSED if self.known.column(column).replaces_null(self._connection.explicit_timestamps) else NULL
        text = text.replace("\0", "") if self._strips else text
        return terms.assignment(self.table.type_of(column), str(self._connection.literal(text)), self._family)

    def key(self, values: Sequence[str | None], before: str = "") -> str:
        """Return the condition for the row with this key, its values in the key's order. `before`: in front of each name."""
        pairs = zip(self.table.key, values, strict=True)
        return " AND ".join(f"{before}{quoted(name)} = {self._compared(name, text)}" for name, text in pairs)

    def _compared(self, name: str, text: str | None) -> str:
        column = self.known.column(name)
        if text is not None and column.type in NUMBERS and _NUMBER.fullmatch(text):
            return text
        value = self.value(name, text)
        length = _LENGTH.fullmatch(column.declared)
        return f"RPAD({value}, {length[1]}, X'00')" if length else value


def comparable(known: KnownTable, table: TargetTable) -> bool:
    """Return whether rows of a table are found by literals of their keys."""
    return all(_is_comparable(known.column(name)) for name in table.key)


def _is_comparable(column: KnownColumn) -> bool:
    return column.type not in INCOMPARABLE


def run_each(connection: Connection, statements: Iterable[str], source: TableId) -> list[int]:
    """Carry out statements together, and return how many rows each has found. Behind an error none is carried out. Raises
    Conflict where a value was taken otherwise than it was given."""
    found: list[int] = []
    for batch in _batches(statements, connection.packet // 2):
        counts, warned = [connection.query(";".join(batch))], False
        warned |= bool(connection._result.warning_count)
        while connection._result.has_next:
            connection._read_query_result()
            counts.append(connection._result.affected_rows)
            warned |= bool(connection._result.warning_count)
        if warned:  # the server keeps those of the last statement only
            for statement, count in zip(batch, counts, strict=True):
                if connection.query(statement) != count:  # its row has moved to another key: nothing is told of it now
                    raise Conflict(source, "the server warned of a statement that cannot be carried out again")
                refuse_warnings(connection, source)
        found += counts
    return found


def _batches(statements: Iterable[str], most: int) -> Iterable[list[str]]:
    held: list[str] = []
    size = 0
    for statement in statements:
        length = len(statement.encode()) + 1
        if held and size + length > most:
            yield held
            held, size = [], 0
        held.append(statement)
        size += length
    if held:
        yield held
