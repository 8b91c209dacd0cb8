"""Columns whose values ALTER TABLE may have written anew (ALTER TYPE … USING) without another name or type to tell of it.

Such a statement leaves two marks: the table has another file, and the column's row in the catalogue was written again with
nothing else in it. VACUUM FULL, CLUSTER and TRUNCATE leave the first one alone. Notes of ALTER TABLE tell it at its place;
where there are none, or they came later than the statement, two looks at the catalogue are compared, ten seconds apart.
https://www.postgresql.org/docs/current/catalog-pg-attribute.html

What does not live here: what notes say (statement_notes.py), who looks and when (set_up.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.statement_notes import TRIGGERS
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

# A row of the catalogue that is younger than both triggers was written with them.
_COLUMNS = """
SELECT a.attrelid::int8, pg_catalog.pg_relation_filenode(a.attrelid)::int8, a.attnum::int, a.attname::text, a.xmin::text,
       pg_catalog.md5(pg_catalog.row_to_json(a)::text), coalesce(pg_catalog.age(a.xmin) < t.age, false)
  FROM pg_catalog.pg_attribute a
 CROSS JOIN (SELECT CASE WHEN count(*) = %s THEN min(pg_catalog.age(e.xmin)) END AS age FROM pg_catalog.pg_event_trigger e
              WHERE e.evtname = ANY (%s) AND e.evtenabled <> 'D') AS t
 WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class ColumnLook:
    """A column's row in the catalogue. `written`: by which transaction; `said`: all that is in it; `noted`: its last change
    came with a note."""

    name: str
    written: str
    said: str
    noted: bool


@dataclass(frozen=True, slots=True)
class TableLook:
    """The file with a table's rows, and its columns by their numbers."""

    file: int
    columns: Mapping[int, ColumnLook]


Looks = dict[int, TableLook]


def look(connection: Connection, tables: Mapping[TableId, TableSchema]) -> Looks:
    """Look at the tables, by their oids. Driver errors pass."""
    asked = [len(TRIGGERS), TRIGGERS, [schema.oid for schema in tables.values() if schema.oid]]
    files, columns = dict[int, int](), defaultdict[int, dict[int, ColumnLook]](dict)
    for oid, file, number, *facts in connection.execute(_COLUMNS.encode(), asked).fetchall():
        files[oid] = file or 0
        columns[oid][number] = ColumnLook(*facts)
    return {oid: TableLook(files[oid], found) for oid, found in columns.items()}


def why_retyped(before: TableLook, now: TableLook) -> str:
    """Say which column may have got other values between two looks; "" where none has, or a note tells."""
    if now.file and before.file == now.file:  # a partitioned table has none
        return ""
    for number, column in now.columns.items():
        former = before.columns.get(number)
        if former and former.written != column.written and former.said == column.said and not column.noted:
            return f"rows were written anew for {column.name}, perhaps by an expression (USING), which no log tells"
    return ""
