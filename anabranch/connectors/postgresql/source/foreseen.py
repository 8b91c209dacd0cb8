"""Foresees what rows and notes would tell of an ALTER TABLE that nobody has run, by what judges those that were.

The definition, the numbers of columns and the note behind the statement are made of it as the server would leave them; what
becomes of the table is then asked of redefined_columns.py. What is not read here is said, and never taken for something else.
https://www.postgresql.org/docs/current/sql-altertable.html

What does not live here: clauses and types (foreseen_clauses.py), whether notes are set up (statement_notes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from anabranch.connectors.postgresql.source.added_columns import Attribute
from anabranch.connectors.postgresql.source.foreseen_clauses import (
    Adds,
    Clause,
    Defaults,
    Drops,
    Nulls,
    Refused,
    Renames,
    Retypes,
    Unread,
    clauses,
    default_words,
)
from anabranch.connectors.postgresql.source.noted_defaults import constant, has_default, with_default
from anabranch.connectors.postgresql.source.redefined_columns import behind, behind_note
from anabranch.connectors.postgresql.source.statement_notes import CAST, NEW, Note, NotedColumn
from anabranch.connectors.postgresql.source.widened import keeps_rows
from anabranch.model.column_changes import Altered, ColumnChange
from anabranch.model.schema import Column, TableSchema


@dataclass
class _Behind:
    """A table while clauses go by. `constants`: what rows that were there have in columns that came, by their numbers."""

    then: TableSchema
    columns: list[Column] = field(default_factory=list)
    numbers: int = 0
    constants: dict[int, str] = field(default_factory=dict)
    values: str = ""

    def __post_init__(self) -> None:
        self.columns = list(self.then.columns)
        self.numbers = max(self.then.numbers, *(column.number for column in self.then.columns))

    def put(self, name: str, column: Column) -> None:
        self.columns[self.columns.index(self.column(name))] = column

    def column(self, name: str) -> Column:
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            raise Unread(f"the table has no column {name}")
        return found


def foreseen(sql: str, then: TableSchema, is_noted: bool, tells_defaults: bool) -> Altered | str | None:
    """Return what ForeseeingCatalog.foreseen returns. `is_noted`, `tells_defaults`: of the notes at the source."""
    try:
        read = clauses(sql, then)
    except Refused as why:
        return str(why)
    if not read:
        return None
    made = _Behind(then)
    for clause in read:
        _take(made, clause)
    file = then.file or then.oid
    now = replace(then, columns=tuple(made.columns), numbers=made.numbers, file=file + bool(made.values))
    attributes = _attributes(made)
    if not is_noted:
        told = [(column.name, column.native) for column in now.columns if not column.generated]
        found = behind(then, told, now, attributes)
        return found if found is not None else "the log does not tell which column is which"
    noted = behind_note(then, _note(now, made, file), now, attributes, None, ends_nulls=True)
    return _with_defaults(noted, made) if isinstance(noted, Altered) and tells_defaults else noted


def _take(made: _Behind, clause: Clause) -> None:
    match clause:
        case Adds():
            if any(column.name == clause.name for column in made.columns):
                raise Unread(f"the table has a column {clause.name}")
            made.numbers += 1
            column = Column(clause.name, clause.type, clause.native, not clause.not_null, number=made.numbers)
            if clause.default is not None:
                told = default_words(clause.default, clause.native)
                text = None if told is None else constant(told, clause.native)
                if told is not None and text is None:
                    raise Unread(f"what rows would have in {clause.name} is known only once the statement is run")
                if text is not None:
                    made.constants[made.numbers] = text
                column = with_default(column, told)
            made.columns.append(column)
        case Drops():
            made.columns.remove(made.column(clause.name))
        case Renames():
            made.put(clause.name, replace(made.column(clause.name), name=clause.to))
        case Retypes():
            column = made.column(clause.name)
            if clause.is_computed or not (column.native == clause.native or keeps_rows(column.native, clause.native)):
                made.values = NEW if clause.is_computed or made.values == NEW else CAST
            made.put(clause.name, replace(column, type=clause.type, native=clause.native))
        case Nulls():
            made.put(clause.name, replace(made.column(clause.name), nullable=clause.nullable))
        case Defaults():
            column = made.column(clause.name)
            told = None if clause.default is None else default_words(clause.default, column.native)
            if not has_default(column, told):
                made.put(clause.name, with_default(column, told))


def _attributes(made: _Behind) -> Sequence[Attribute]:
    names = {column.number: column.name for column in made.columns}
    kept = made.constants
    return [Attribute(one, names.get(one, ""), one in kept, kept.get(one)) for one in range(1, made.numbers + 1)]


def _note(now: TableSchema, made: _Behind, before: int) -> Note:
    columns = tuple(
        NotedColumn(c.number, c.name, c.native, not c.nullable, c.number in made.constants)
        for c in now.columns
        if not c.generated
    )
    return Note(now.id, now.oid, now.numbers, now.file, columns, made.values, before if made.values else 0)


def _with_defaults(found: Altered, made: _Behind) -> Altered:
    """Return the change with the defaults of columns that were there."""
    there = {column.number: column for column in made.columns}
    former = {column.number: column for column in made.then.columns}
    columns, names = [], ("has_default", "default", "default_is_expression", "default_term")
    for column in found.schema.columns:
        if column.number in former and column.number in there:
            column = replace(column, **{name: getattr(there[column.number], name) for name in names})
        columns.append(column)
    if tuple(columns) == found.schema.columns:
        return found
    kinds = found.kinds | {ColumnChange.DEFAULT}
    return replace(found, schema=replace(found.schema, columns=tuple(columns)), kinds=kinds)
