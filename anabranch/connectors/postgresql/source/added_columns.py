"""Definitions of tables behind an ALTER TABLE that has added columns, by what rows say and what the catalogue still shows.

Rows say names and types of all columns, at the place where they stand in the log; the catalogue says what they are, at the
moment it is asked, perhaps behind later statements. So each column has to be the same in both, by its number: a column that is
dropped keeps its number for ever. What rows that are there got is certain where the catalogue keeps that constant, which no
later SET DEFAULT changes, or where nobody has written the rows anew: then it is NULL.
https://www.postgresql.org/docs/current/catalog-pg-attribute.html (attmissingval) · https://www.postgresql.org/docs/11/release-11.html

What does not live here: reading definitions (definitions.py), who asks (capture).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from anabranch.connectors.postgresql.connection import Connection
from anabranch.model.schema import Column, TableSchema

MISSING = 110_000  # from here on a constant default is kept beside the rows, which are not written anew
# An array of one value, of the column's type; one that is read as more has a delimiter of its own.
_ATTRIBUTES = """
SELECT a.attnum::int, CASE WHEN a.attisdropped THEN '' ELSE a.attname::text END, {has},
       CASE WHEN pg_catalog.cardinality(m.found) = 1 THEN m.found[1] END
  FROM pg_catalog.pg_attribute a LEFT JOIN LATERAL (SELECT {value} AS found) AS m ON true
 WHERE a.attrelid = %s AND a.attnum > 0 ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that a table has or had. `name`: "" of one that is dropped. `has_constant`: rows of before it was added have
    `constant` in it, in the server's text form; None: it cannot be read."""

    number: int
    name: str
    has_constant: bool = False
    constant: str | None = None


@dataclass(frozen=True, slots=True)
class SeenFile:
    """The file with a table's rows, and the highest number that a column had when this file was seen first: one of a higher
    number was added to it later."""

    file: int
    numbers: int


def note_files(seen: dict[int, SeenFile], tables: Iterable[TableSchema]) -> None:
    """Note the files of tables as the catalogue has them now."""
    for table in tables:
        if table.oid not in seen or seen[table.oid].file != table.file:
            seen[table.oid] = SeenFile(table.file, table.numbers)


class _Unknown(Exception):
    """Something is not certain; the text says what."""


def attributes(connection: Connection, oid: int) -> list[Attribute]:
    """Read all that the table has or had. Driver errors pass."""
    is_kept = connection.info.server_version >= MISSING
    kept = ("a.atthasmissing", "a.attmissingval::text::text[]") if is_kept else ("false", "NULL::text[]")
    query = _ATTRIBUTES.format(has=kept[0], value=kept[1])
    return [Attribute(*row) for row in connection.execute(query.encode(), [oid]).fetchall()]


def behind(
    then: TableSchema,
    columns: Sequence[tuple[str, str]],
    now: TableSchema,
    numbered: Sequence[Attribute],
    seen: SeenFile | None = None,
) -> TableSchema | str | None:
    """Return what RedefinedCatalog.behind returns. `now`: the table as the catalogue has it, `numbered`: its columns by their
    numbers, `seen`: its file as it was looked at before."""
    try:
        return _behind(then, columns, now, numbered, seen)
    except _Unknown as why:
        return str(why)


def _behind(
    then: TableSchema,
    columns: Sequence[tuple[str, str]],
    now: TableSchema,
    numbered: Sequence[Attribute],
    seen: SeenFile | None,
) -> TableSchema | None:
    new = _new(then, columns)
    if then.oid != now.oid:
        raise _Unknown("another table has its name now")
    if then.partition_key or now.partition_key:
        raise _Unknown("its rows are in partitions, each of which keeps what they had in a new column")
    later = _later(then, numbered)
    if len(later) < len(new):
        return None
    _refuse_others(new, later)
    _refuse_keys(now, then, {name for name, _ in new})
    is_same_file = now.file == (then.file or then.oid)
    came_later = seen.numbers if seen is not None and seen.file == now.file else sys.maxsize
    added = tuple(
        _column(now, name, native, one, is_same_file or one.number > came_later)
        for (name, native), one in zip(new, later, strict=False)
    )
    is_latest = len(later) == len(new)
    return replace(
        then,
        columns=then.columns + added,
        numbers=later[len(new) - 1].number,
        file=now.file if is_same_file or is_latest else 0,
        needs=then.needs + tuple(need for need in now.needs if need not in then.needs),
        type_states=then.type_states + tuple(one for one in now.type_states if one[0] not in dict(then.type_states)),
    )


def _new(then: TableSchema, columns: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return those of the columns that the table has not had; they come last. Raises _Unknown."""
    names = {name for name, _ in columns}
    before = [(c.name, c.native) for c in then.columns if not c.generated or c.name in names]
    if list(columns[: len(before)]) != before or len(columns) == len(before):
        raise _Unknown("that is more than columns which were added in the last places")
    return columns[len(before) :]


def _later(then: TableSchema, numbered: Sequence[Attribute]) -> list[Attribute]:
    """Return the columns that came since, in their order. Raises _Unknown where one of the others was made anew."""
    there = {one.name: one.number for one in numbered if one.name}
    for column in then.columns:
        if there.get(column.name, column.number) != column.number:
            raise _Unknown(f"{column.name} was dropped and added again")
    highest = then.numbers or max((column.number for column in then.columns), default=0)
    return [one for one in numbered if one.number > highest]


def _refuse_others(new: Sequence[tuple[str, str]], later: Sequence[Attribute]) -> None:
    for (name, _), one in zip(new, later, strict=False):
        if not one.name:
            raise _Unknown(f"a column was dropped that came since the table was read, so {name} may be another one now")
        if one.name != name:
            raise _Unknown(f"the catalogue has {one.name} where the log has {name}")


def _refuse_keys(now: TableSchema, then: TableSchema, new: set[str]) -> None:
    if now.primary_key != then.primary_key:
        raise _Unknown("its primary key is another one now")
    unique = (set(index.columns) for index in now.indexes if index.unique)
    keyed = new.intersection(*[set().union(*unique, *(key.columns for key in now.foreign_keys))])
    if keyed:
        raise _Unknown(f"{', '.join(sorted(keyed))} is unique, or refers to another table")


def _column(now: TableSchema, name: str, native: str, one: Attribute, is_same_file: bool) -> Column:
    """Return the column with what rows that were there have in it for its default, whatever the catalogue has for others."""
    column = now.column(name)
    if column.native != native:
        raise _Unknown(f"{name} is {native} in the log and {column.native} by now")
    if column.type is None or column.auto_increment or column.generated:
        raise _Unknown(f"{name} is computed, counts, or has a type that is not replicated")
    if one.has_constant:
        if one.constant is None:
            raise _Unknown(f"what rows had in {name} cannot be read")
        return replace(column, has_default=True, default=one.constant, default_is_expression=False, default_term=None)
    if not is_same_file:
        raise _Unknown(
            f"what rows had in {name} is not known: they were written anew since (a default that is computed for each row, "
            "VACUUM FULL, CLUSTER, TRUNCATE)"
        )
    none = replace(column, has_default=False, default=None, default_is_expression=False, default_term=None)
    return replace(none, nullable=True)  # NOT NULL came later, or there was no row
