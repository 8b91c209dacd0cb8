"""Unique keys of the target beside the primary key, and which of their columns may be NULL meanwhile (K8).

A row meets no other one while a column of the key is NULL in it. Vendor facts:
https://dev.mysql.com/doc/refman/8.0/en/information-schema-statistics-table.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.connectors.mysql.target.session import Connection, ask
from anabranch.model.ids import TableId

# A part without a column is an expression.
KEYS = """
SELECT s.INDEX_NAME, s.COLUMN_NAME, s.NULLABLE = 'YES', c.EXTRA LIKE '% GENERATED%',
       EXISTS (SELECT 1 FROM information_schema.KEY_COLUMN_USAGE AS k
                WHERE k.REFERENCED_TABLE_SCHEMA = s.TABLE_SCHEMA AND k.REFERENCED_TABLE_NAME = s.TABLE_NAME
                  AND k.REFERENCED_COLUMN_NAME = s.COLUMN_NAME)
  FROM information_schema.STATISTICS AS s
  LEFT JOIN information_schema.COLUMNS AS c
    ON c.TABLE_SCHEMA = s.TABLE_SCHEMA AND c.TABLE_NAME = s.TABLE_NAME AND c.COLUMN_NAME = s.COLUMN_NAME
 WHERE s.NON_UNIQUE = 0 AND s.INDEX_NAME <> 'PRIMARY' AND s.TABLE_SCHEMA = %s AND s.TABLE_NAME = %s
 ORDER BY s.INDEX_NAME, s.SEQ_IN_INDEX
"""


EXPRESSION = ""  # the name of no column


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """`columns`: those that it names, and EXPRESSION for a part that is none: by such a key no row is found. A row meets no
    other one while a column of `parking` is NULL in it."""

    columns: frozenset[str]
    parking: frozenset[str]


def unique_keys(connection: Connection, wanted: Iterable[TableId]) -> dict[TableId, list[UniqueKey]]:
    """Return per table the unique keys beside its primary key, where there are any."""
    found: dict[TableId, list[UniqueKey]] = {}
    for table in wanted:
        keys: dict[str, tuple[set[str], set[str]]] = {}
        for index, column, is_nullable, is_generated, is_referenced in ask(connection, KEYS, table.schema, table.name):
            columns, parking = keys.setdefault(str(index), (set(), set()))
            if column is None:
                columns.add(EXPRESSION)
            else:
                columns.add(str(column))
                if is_nullable and not is_generated and not is_referenced:
                    parking.add(str(column))
        if keys:
            found[table] = [UniqueKey(frozenset(columns), frozenset(parking)) for columns, parking in keys.values()]
    return found
