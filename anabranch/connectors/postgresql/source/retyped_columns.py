"""Columns whose values ALTER TABLE may have written anew (ALTER TYPE … USING) without another name or type to tell of it.

Such a statement leaves two marks: the table has another file, and the column's row in the catalogue was written again with
the same type. After TRUNCATE there is the first one alone, and so after VACUUM FULL and CLUSTER where no column has
a constant that the server keeps.
Notes of ALTER TABLE tell it at its place; that one came is only certain once the definition in force has its file. Until the
log is read up to where a look was taken it may come; where it did not, two looks, ten seconds apart, decide.
https://www.postgresql.org/docs/current/catalog-pg-attribute.html

What does not live here: what notes say (statement_notes.py), who looks and when (set_up.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.statement_notes import TRIGGERS, WHOLE
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

# A row of the catalogue that is younger than both triggers was written with them.
_COLUMNS = f"""
SELECT a.attrelid::int8, pg_catalog.pg_relation_filenode(a.attrelid)::int8, a.attnum::int, a.attname::text, a.xmin::text,
       pg_catalog.concat_ws(' ', a.atttypid, a.atttypmod, a.attcollation),
       t.number = %s AND coalesce(pg_catalog.age(a.xmin) < t.age, false)
  FROM pg_catalog.pg_attribute a
 CROSS JOIN ({WHOLE}) AS t
 WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class ColumnLook:
    """A column's row in the catalogue. `written`: by which transaction; `said`: its type; `noted`: notes were set up
    when it was written, and its last change should have come with one."""

    name: str
    written: str
    said: str
    noted: bool


@dataclass(frozen=True, slots=True)
class TableLook:
    """The file with a table's rows, and its columns by their numbers."""

    file: int
    columns: Mapping[int, ColumnLook]


@dataclass(slots=True)
class Looks:
    """The last looks at tables, by their oids. `awaited`: ends of the log up to which a note may come that a table needs;
    `scanned`: as partitions.Look has it."""

    tables: dict[int, TableLook] = field(default_factory=dict)
    awaited: dict[int, int] = field(default_factory=dict)
    scanned: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)

    def awaits(self, oid: int, end: int, read: int) -> bool:
        """Return whether a note may still come. `end`: of the log at this look; `read`: what capture is behind, durably."""
        return read < self.awaited.setdefault(oid, end)


def look(connection: Connection, tables: Mapping[TableId, TableSchema]) -> dict[int, TableLook]:
    """Look at the tables, by their oids. Driver errors pass."""
    asked = [len(TRIGGERS), TRIGGERS, [schema.oid for schema in tables.values() if schema.oid]]
    files, columns = dict[int, int](), defaultdict[int, dict[int, ColumnLook]](dict)
    for oid, file, number, *facts in connection.execute(_COLUMNS.encode(), asked).fetchall():
        files[oid] = file or 0
        columns[oid][number] = ColumnLook(*facts)
    return {oid: TableLook(files[oid], found) for oid, found in columns.items()}


def why_retyped(before: TableLook, now: TableLook, file: int) -> tuple[str, bool]:
    """Say which column may have got other values between two looks, and whether a note should tell; "" where none has, or one
    did. `file`: of the definition in force, which has the one of now where its note was taken."""
    if now.file and before.file == now.file:  # a partitioned table has none
        return "", False
    found = ("", False)
    for number, column in now.columns.items():
        former = before.columns.get(number)
        if not former or former.written == column.written or former.said != column.said:
            continue
        if column.noted and now.file and file == now.file:
            continue
        why = f"rows were written anew for {column.name}, perhaps by an expression (USING), which no log tells"
        if not column.noted:
            return why, False
        found = (why, True)
    return found
