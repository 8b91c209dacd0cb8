"""Definitions of tables behind ALTER TABLE, by what rows say and what the catalogue shows: the log has no statement of it.

Rows say names and types of all columns, at the place where they stand in the log; the catalogue says what became of each
column, by its number, perhaps behind later statements. Where both leave one possibility for which is which, columns that went,
came, and got other names are certain. A type takes more as long as nobody has written the rows anew: ALTER TYPE may have
given them other values (USING), and that they are as they were is told by the file that holds them.
https://www.postgresql.org/docs/current/sql-altertable.html

What does not live here: the possibilities (column_readings.py), what rows had in new columns (added_columns.py), reading
definitions (definitions.py), who asks (capture).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.connectors.postgresql.source.added_columns import Attribute, Rows, SeenFile, Unknown, added
from anabranch.connectors.postgresql.source.column_readings import readings
from anabranch.connectors.postgresql.source.noted_columns import Compared, compared
from anabranch.connectors.postgresql.source.noted_defaults import has_default, with_default
from anabranch.connectors.postgresql.source.statement_notes import CAST, NEW, Note
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.connectors.postgresql.source.widened import keeps_rows, keeps_values
from anabranch.model.column_changes import Altered, ColumnChange, Untold
from anabranch.model.schema import Column, Index, TableSchema

Told = Sequence[tuple[str, str]]
"""Names and types of columns, as the log has them."""


@dataclass(frozen=True)
class Shown:
    """The table as the catalogue has it, with all its attributes, and its file as it was looked at before."""

    now: TableSchema
    numbered: Sequence[Attribute]
    seen: SeenFile | None = None
    is_cast: bool = False  # types were given anew by the server's casts, of rows that were as the definition's

    def column(self, number: int) -> Column | None:
        """Return the column of this number, None where it is gone by now."""
        return next((column for column in self.now.columns if column.number == number), None)


def behind(
    then: TableSchema, columns: Told, now: TableSchema, numbered: Sequence[Attribute], seen: SeenFile | None = None
) -> Altered | str | None:
    """Return what RedefinedCatalog.behind returns. `now`: the table as the catalogue has it, `numbered`: its columns by their
    numbers, `seen`: its file as it was looked at before."""
    try:
        return _behind(then, columns, Shown(now, numbered, seen))
    except Unknown as why:
        return str(why)


def behind_note(
    then: TableSchema,
    note: Note,
    now: TableSchema,
    numbered: Sequence[Attribute],
    seen: SeenFile | None = None,
    ends_nulls: bool = False,
) -> Altered | str:
    """Return what RedefinedCatalog.behind returns where the source has noted the statement: numbers and NULL of all columns.
    `ends_nulls`: no row of its transaction is before it."""
    try:
        return _behind_note(then, note, Shown(now, numbered, seen), ends_nulls)
    except Unknown as why:
        return str(why)


def _behind_note(then: TableSchema, note: Note, shown: Shown, ends_nulls: bool) -> Altered:
    _refuse_others(then, shown.now)
    if note.values == NEW:
        raise Unknown(
            "its rows were written anew for a column's type, and that no expression (USING) did so is not told"
        )
    if note.numbers < max(then.numbers, *(column.number for column in then.columns)):
        raise Unknown("the table was read behind that statement, and before the next one")
    logged = [column for column in then.columns if not column.generated]
    told = {column.number: (column.name, column.native) for column in note.columns}
    kept, seen = {one.number: one for one in shown.numbered}, shown.seen
    rows = Rows(note.file == (then.file or then.oid), seen if seen is not None and seen.file == note.file else None)
    attributes = [
        replace(kept[one.number], has_constant=one.has_constant) for one in note.columns if one.number in kept
    ]
    is_cast = note.values == CAST and note.before == (then.file or then.oid)
    found = _altered(then, logged, told, replace(shown, numbered=attributes, is_cast=is_cast), rows)
    found = _with_nulls(_added_strict(found, then, note), then, note, ends_nulls)
    found = _with_defaults(found, then, note)
    schema = replace(found.schema, numbers=note.numbers, file=note.file)
    if compared(schema, note, frozenset()) is not Compared.SAME:
        raise Unknown("it is not as the source has noted it")
    return replace(found, schema=schema)


def _added_strict(found: Altered, then: TableSchema, note: Note) -> Altered:
    """Return the table with columns that took no NULL from the place on where they were added with a constant."""
    strict = {one.number for one in note.columns if one.not_null} - {column.number for column in then.columns}
    columns = (replace(c, nullable=False) if c.number in strict and c.has_default else c for c in found.schema.columns)
    return replace(found, schema=replace(found.schema, columns=tuple(columns)))


def _with_nulls(found: Altered, then: TableSchema, note: Note, ends_nulls: bool) -> Altered:
    """Return the table with columns that take NULL now, or, `ends_nulls`, take it no longer."""
    noted, former = {one.number: one for one in note.columns}, {column.number for column in then.columns}
    columns = list(found.schema.columns)
    for place, column in enumerate(columns):
        if column.number not in noted or column.number not in former or column.name in found.schema.keyed:
            continue
        is_nullable = not noted[column.number].not_null
        if column.nullable is not is_nullable and (is_nullable or ends_nulls):
            columns[place] = replace(column, nullable=is_nullable)
    if tuple(columns) == found.schema.columns:
        return found
    kinds = found.kinds | {ColumnChange.NULLABILITY}
    return replace(found, schema=replace(found.schema, columns=tuple(columns)), kinds=kinds)


def _with_defaults(found: Altered, then: TableSchema, note: Note) -> Altered:
    """Return the table with the defaults that the note tells of columns which were there before. One that comes has what rows
    that were there have got, and gets its own by a second look at the same note."""
    former = {column.number for column in then.columns}
    columns = list(found.schema.columns)
    for place, column in enumerate(columns):
        if note.defaults is None or column.number not in former or column.auto_increment or column.generated:
            continue
        if not has_default(column, told := note.defaults.get(column.number)):
            columns[place] = with_default(column, told)
    if tuple(columns) == found.schema.columns:
        return found
    kinds = found.kinds | {ColumnChange.DEFAULT}
    return replace(found, schema=replace(found.schema, columns=tuple(columns)), kinds=kinds)


def _behind(then: TableSchema, columns: Told, shown: Shown) -> Altered | None:
    now, names = shown.now, {name for name, _ in columns}
    _refuse_others(then, now)
    logged = [column for column in then.columns if not column.generated or column.name in names]
    numbers = _numbers(then, logged, columns, shown.numbered)
    if numbers is None:
        return None
    told = dict(zip(numbers, columns, strict=True))
    is_same_file = now.file == (then.file or then.oid)
    rows = Rows(is_same_file, shown.seen if shown.seen is not None and shown.seen.file == now.file else None)
    found = _altered(then, logged, told, shown, rows)
    file = now.file if is_same_file or _is_latest(told, shown) else 0
    return replace(found, schema=replace(found.schema, numbers=max(then.numbers, *told), file=file))


def _refuse_others(then: TableSchema, now: TableSchema) -> None:
    """Raise Unknown where the table is another one, or of a kind that is not followed."""
    if then.oid != now.oid:
        raise Unknown("another table has its name now")
    if then.partition_key or now.partition_key:
        raise Unknown("its rows are in partitions, each of which keeps what they had in a new column")
    there = {column.number: column for column in now.columns}
    if any(column.generated and there.get(column.number) != column for column in then.columns):
        raise Unknown("a column that is computed is not as it was")
    if now.primary_key != then.primary_key:
        raise Unknown("its primary key is another one now")


def _numbers(
    then: TableSchema, logged: Sequence[Column], columns: Told, numbered: Sequence[Attribute]
) -> tuple[int, ...] | None:
    """Return the numbers of the log's columns; None where the catalogue does not show them yet. Raises Unknown."""
    if not all(column.number for column in logged):
        raise Unknown("the trail is of an early release, and does not know the numbers of its columns")
    highest = then.numbers or max((column.number for column in then.columns), default=0)
    found = readings(
        [column.number for column in logged], highest, [(one.number, bool(one.name)) for one in numbered], len(columns)
    )
    if len(found) > 1:
        unsure = set().union(*found) - set(found[0]).intersection(*found)
        names = ", ".join(column.name for column in logged if column.number in unsure)
        raise Unknown(
            f"{names or 'a column that came since'} was dropped, and whether before these rows or behind them is not told:"
            " another one may have its name"
        )
    return found[0] if found else None


def _altered(
    then: TableSchema, logged: Sequence[Column], told: Mapping[int, tuple[str, str]], shown: Shown, rows: Rows
) -> Altered:
    """Return the table whose columns have these numbers, names and types; the highest number and its file as before."""
    now, attributes = shown.now, {one.number: one for one in shown.numbered}
    table, kinds, names = then, set[ColumnChange](), list[str]()
    renamed = []
    for column in logged:
        if column.number not in told:
            table, kinds, names = _without(table, column), kinds | {ColumnChange.DROP}, [*names, column.name]
            continue
        name, native = told[column.number]
        if native != column.native:
            table = _widened(table, column, native, shown, rows.are_as_they_were)
            kinds |= {ColumnChange.TYPE}
        if name != column.name:
            table, kinds, names = (
                _renamed(table, column.name, name),
                kinds | {ColumnChange.RENAME},
                [*names, column.name, name],
            )
            renamed.append((column.name, name))
    there = {column.number for column in logged}
    if unknown := [told[number][0] for number in told if number not in there and number not in attributes]:
        raise Unknown(f"the catalogue does not know {unknown[0]}")
    come = tuple(added(now, *told[number], attributes[number], rows) for number in told if number not in there)
    kinds |= {ColumnChange.ADD} if come else set()
    _refuse_twice(names + [column.name for column in come])
    table = replace(
        table,
        columns=table.columns + come,
        needs=then.needs + tuple(need for need in now.needs if need not in then.needs),
        type_states=then.type_states + tuple(one for one in now.type_states if one[0] not in dict(then.type_states)),
    )
    return Altered(table, frozenset(kinds), Untold(tuple(renamed)))


def _is_latest(told: Mapping[int, tuple[str, str]], shown: Shown) -> bool:
    """Return whether the catalogue shows the table as the log has it: else a later statement may have written its file."""
    columns = [shown.column(number) for number in told]
    is_alike = all(
        column is not None and column.native == native
        for column, (_, native) in zip(columns, told.values(), strict=True)
    )
    return is_alike and max(one.number for one in shown.numbered) <= max(told)


def _refuse_twice(names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Unknown(f"{twice[0]} is the name of two columns, before and behind the change")


# --- columns of before --------------------------------------------------------------------------------------------------


def _alone(table: TableSchema, column: Column) -> None:
    """Raise Unknown where anything of the table depends on the column but indexes that are not unique."""
    word = re.compile(rf"(?<![\w$]){re.escape(column.name)}(?![\w$])")
    computed = {name for other in table.columns if other.generated for name in table.named_by(other)}
    texts = [check.text for check in table.checks]
    texts += [index.definition for index in table.indexes if index.definition] + [
        part for i in table.indexes for part in i.parts
    ]
    if column.name in table.keyed | computed or any(map(word.search, texts)):
        raise Unknown(
            f"{column.name} is part of a key, or a check, an index over more than columns or a computed column names it"
        )
    if column.auto_increment or column.generated or column.type is None:
        raise Unknown(f"{column.name} is computed, counts, or has a type that is not replicated")
    if any(one.name == column.name for one in table.lacking):
        raise Unknown(f"{column.name} uses what the target does not have")


def _without(table: TableSchema, column: Column) -> TableSchema:
    """Return the table without the column. The server drops its indexes, too, also over several columns."""
    _alone(table, column)
    indexes = tuple(index for index in table.indexes if column.name not in index.columns)
    return replace(table, columns=tuple(c for c in table.columns if c.name != column.name), indexes=indexes)


def _renamed(table: TableSchema, former: str, name: str) -> TableSchema:
    _alone(table, table.column(former))
    indexes = tuple(_index(index, former, name) for index in table.indexes)
    columns = tuple(replace(c, name=name) if c.name == former else c for c in table.columns)
    return replace(table, columns=columns, indexes=indexes)


def _index(index: Index, former: str, name: str) -> Index:
    return replace(index, columns=tuple(name if column == former else column for column in index.columns))


def _widened(table: TableSchema, column: Column, native: str, shown: Shown, is_same_file: bool) -> TableSchema:
    """Return the table with a column whose type takes more."""
    is_kept = keeps_rows(column.native, native)
    if not is_kept and not (shown.is_cast and keeps_values(column.native, native)):
        raise Unknown(f"{column.name} was {column.native} and is {native} in the log")
    if not is_same_file and not shown.is_cast:
        raise Unknown(
            f"{column.name} was {column.native} and is {native} in the log; rows were written anew since, with what is not told"
        )
    _alone(table, column)
    now = shown.column(column.number)
    if now is not None and now.collation != column.collation:
        raise Unknown(f"{column.name} has another collation now")
    next_one = replace(column, type=logical_type(native), native=native)
    return replace(table, columns=tuple(next_one if c is column else c for c in table.columns))
