"""Columns that ALTER TABLE has added, by the catalogue: what they are, and what rows that were there got in them.

That is certain where the catalogue keeps that constant, which no later SET DEFAULT changes, or where nobody has written the
rows anew: then it is NULL.
https://www.postgresql.org/docs/current/catalog-pg-attribute.html (attmissingval) · https://www.postgresql.org/docs/11/release-11.html

What does not live here: which column is which (redefined_columns.py), reading definitions (definitions.py).
"""

from __future__ import annotations

from collections.abc import Iterable
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


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table since a definition of it was read. `are_as_they_were`: their file is the one of then; `seen`: their
    file of now as it was looked at before, None where it was not."""

    are_as_they_were: bool
    seen: SeenFile | None = None

    def lack(self, number: int) -> bool:
        """Return whether nobody has written them anew since the column of this number came."""
        return self.are_as_they_were or (self.seen is not None and number > self.seen.numbers)


def note_files(seen: dict[int, SeenFile], tables: Iterable[TableSchema]) -> None:
    """Note the files of tables as the catalogue has them now."""
    for table in tables:
        if table.oid not in seen or seen[table.oid].file != table.file:
            seen[table.oid] = SeenFile(table.file, table.numbers)


class Unknown(Exception):
    """Something is not certain; the text says what."""


def attributes(connection: Connection, oid: int) -> list[Attribute]:
    """Read all that the table has or had. Driver errors pass."""
    is_kept = connection.info.server_version >= MISSING
    kept = ("a.atthasmissing", "a.attmissingval::text::text[]") if is_kept else ("false", "NULL::text[]")
    query = _ATTRIBUTES.format(has=kept[0], value=kept[1])
    return [Attribute(*row) for row in connection.execute(query.encode(), [oid]).fetchall()]


def added(now: TableSchema, name: str, native: str, one: Attribute, rows: Rows) -> Column:
    """Return a column that was added, by the name that it had then, with what rows that were there have in it for its default,
    whatever the catalogue has for others. Raises Unknown."""
    if not one.name:
        raise Unknown(f"{name} was dropped since: what rows had in it is not known")
    column = next((column for column in now.columns if column.number == one.number), None)
    if column is None:
        raise Unknown("the catalogue is being changed")
    if column.type is None or column.auto_increment or column.generated:
        raise Unknown(f"{one.name} is computed, counts, or has a type that is not replicated")
    if column.native != native:
        raise Unknown(f"{name} is {native} in the log and {column.native} by now")
    unique = (set(index.columns) for index in now.indexes if index.unique)
    if column.name in set().union(*unique, *(key.columns for key in now.foreign_keys)):
        raise Unknown(f"{column.name} is unique, or refers to another table")
    # NULL is taken whatever the catalogue says: NOT NULL may have come later, behind rows that have NULL.
    column = replace(column, name=name, default_is_expression=False, default_term=None, nullable=True)
    if one.has_constant:
        if one.constant is None:
            raise Unknown(f"what rows had in {name} cannot be read")
        return replace(column, has_default=True, default=one.constant)
    if not rows.lack(one.number):
        raise Unknown(
            f"what rows had in {name} is not known: they were written anew since (a default that is computed for each row, "
            "VACUUM FULL, CLUSTER, TRUNCATE)"
        )
    return replace(column, has_default=False, default=None)
