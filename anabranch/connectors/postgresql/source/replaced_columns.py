"""Columns of the definitions in force that were dropped, and whose names other columns have by now.

Rows name columns and say no numbers. So where all types are alike, too, rows that come behind such a change look as before,
and nothing in the log tells that those of before have other values by now, or none.

What does not live here: when a table is parked for it (capture), changes that rows tell of (redefined_columns.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from anabranch.connectors.postgresql.connection import Connection
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

_NAMED = """
SELECT a.attrelid::int8, a.attname::text, a.attnum::int FROM pg_catalog.pg_attribute a
 WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
"""


def replaced(connection: Connection, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
    """Return what SourceReplacedColumns.replaced returns. A trail of an early release has no numbers: its tables are left out.
    Driver errors pass."""
    named: defaultdict[int, dict[str, int]] = defaultdict(dict)
    oids = [schema.oid for schema in tables.values() if schema.oid]
    for oid, name, number in connection.execute(_NAMED.encode(), [oids]).fetchall():
        named[oid][name] = number
    found = {table: why_replaced(schema, named[schema.oid]) for table, schema in tables.items() if schema.oid in named}
    return {table: why for table, why in found.items() if why}


def why_replaced(then: TableSchema, now: Mapping[str, int]) -> str:
    """Say which column is gone and has its name on another one; "" where there is none. `now`: numbers by names."""
    there = set(now.values())
    gone = (column for column in then.columns if column.number and column.number not in there)
    return next(
        (f"{c.name} was dropped at the source, and another column has its name" for c in gone if c.name in now), ""
    )
