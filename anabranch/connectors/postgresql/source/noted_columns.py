"""A definition compared with what the source has noted of its table, at a place of its log.

What does not live here: the note (statement_notes.py), what a table is behind it (redefined_columns.py).
"""

from __future__ import annotations

from enum import Enum

from anabranch.connectors.postgresql.source.noted_defaults import has_default
from anabranch.connectors.postgresql.source.statement_notes import Note
from anabranch.model.column_changes import ColumnChange
from anabranch.model.schema import TableSchema


class Compared(Enum):
    SAME = "the note has the definition"
    STRICTER = "the note has it, apart from columns that take NULL no longer"
    OTHER = "the note has another one"


BY_NOTES = frozenset((ColumnChange.NULLABILITY, ColumnChange.DEFAULT))
"""The kinds of changes that a note tells of, and no row."""


def compared(schema: TableSchema, note: Note, kinds: frozenset[ColumnChange]) -> Compared:
    """Compare by numbers, names, types, and what of BY_NOTES is one of `kinds`: by defaults where the note has these, the table
    is not partitioned, and the column does not count; by NULL where no key has the column."""
    columns = [column for column in schema.columns if not column.generated]
    if [(c.number, c.name, c.native) for c in columns] != [(c.number, c.name, c.native) for c in note.columns]:
        return Compared.OTHER
    defaults = None if schema.partition_key or ColumnChange.DEFAULT not in kinds else note.defaults
    if defaults is not None and not all(c.auto_increment or has_default(c, defaults.get(c.number)) for c in columns):
        return Compared.OTHER
    if ColumnChange.NULLABILITY not in kinds:
        return Compared.SAME
    pairs = [(c, n) for c, n in zip(columns, note.columns, strict=True) if c.name not in schema.keyed]
    if any(not column.nullable and not noted.not_null for column, noted in pairs):
        return Compared.OTHER
    return Compared.STRICTER if any(column.nullable and noted.not_null for column, noted in pairs) else Compared.SAME
