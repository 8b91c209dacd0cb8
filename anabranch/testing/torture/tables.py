"""Tables of a history as values, with their statements at the source and a JSON form.

What does not live here: drawing them (schemas.py), rows (history.py).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from anabranch.testing.torture import expressions, mysql_target_values, postgresql_values, values, widened_values
from anabranch.testing.torture.expressions import Computed
from anabranch.testing.torture.values import Kind, Literal, Text, Version, exact_collation

LEDGER = "ledger"  # one row per transaction, written just before its COMMIT
RESTRICT, CASCADE, SET_NULL = "RESTRICT", "CASCADE", "SET NULL"
# What becomes of a column while a history streams (altering.py).
DROPPED, RENAMED, NULLABLE, DEFAULTED, WIDENED = "dropped", "renamed", "nullable", "defaulted", "widened"
MADE = "made"  # of a table, beside DROPPED and RENAMED (passing.py)
KEPT = "__dropped"  # ends the name of what a target keeps of a dropped table; the product puts a time behind it
_KINDS = {
    **values.KINDS,
    **postgresql_values.KINDS,
    **postgresql_values.OWN,
    **mysql_target_values.OWN,
    **mysql_target_values.UNSIGNED,
    **expressions.KINDS,
    **{kind.name: kind for kind in widened_values.KINDS.values()},
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a kind in values.py or postgresql_values.py. `default`: what it takes where an insert leaves it out.
    `computed`: no statement gives it. `added`: it comes while the history streams (growing.py). `altered`: what becomes of it
    then (altering.py), `next_default`: its default from then on, `gone`: it is dropped by now. (None of these is in its repr,
    by which more is drawn: postgresql_tables.py.)"""

    name: str
    kind: str
    nullable: bool = True
    default: Literal = None
    computed: Computed | None = field(default=None, repr=False)
    added: bool = field(default=False, repr=False)
    altered: str = field(default="", repr=False)
    next_default: Literal = field(default=None, repr=False)
    gone: bool = field(default=False, repr=False)

    @property
    def of(self) -> Kind:
        return _KINDS[self.kind]

    def before(self, family: str = "mysql") -> Text:
        """Return what rows have, by the model, while the column is not there yet. `family`: the source's."""
        return self.of.text(self.default, family)

    @property
    def next_name(self) -> str:
        """Return its name behind the statement that renames it; "" for one that is not."""
        return f"{self.name}n" if self.altered == RENAMED else ""

    @property
    def varying(self) -> tuple[str, ...]:
        """Return the names under which it may be there or not; () for one that always is there, under its name."""
        if self.altered == RENAMED:
            return self.name, self.next_name
        return (self.name,) if self.added or self.altered == DROPPED else ()

    def shown_as(self, there: Container[str]) -> str:
        """Return the name under which it is there, "" for one that is not. `there`: those of `varying` that are."""
        return next((name for name in self.varying if name in there), "") if self.varying else self.name

    @property
    def at_first(self) -> Column:
        """The column before it is altered. The model has it as it may be later."""
        if self.altered == WIDENED:
            narrow = next(name for name, kind in widened_values.KINDS.items() if kind.name == self.kind)
            return replace(self, kind=narrow)
        return replace(self, nullable=False) if self.altered == NULLABLE else self

    @property
    def afterwards(self) -> Column:
        """The column behind the statement that alters it."""
        if self.altered == RENAMED:
            return replace(self, name=self.next_name, altered="")
        if self.altered == DEFAULTED:
            return replace(self, default=self.next_default)
        return replace(self, gone=self.altered == DROPPED)


LEDGER_COLUMNS = (Column("n", "int", nullable=False),)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    name: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_delete: str = RESTRICT
    on_update: str = RESTRICT


@dataclass(frozen=True, slots=True)
class Table:
    """`key` is () for a table without a primary key; `uniques` are its other unique keys. `inherits`: from which other one
    (heirs.py). `life`: what becomes of the table while the history streams, in this order, of MADE, RENAMED, DROPPED; () for
    one that is there all the time. `called`: its name at both ends, where another table had it before ("": its own). (None of
    these three is in its repr.)"""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    inherits: str = field(default="", repr=False)
    life: tuple[str, ...] = field(default=(), repr=False)
    called: str = field(default="", repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that it has at the source, one after the other."""
        first = self.called or self.name
        return (first, f"{first}n") if RENAMED in self.life else (first,)

    def column(self, name: str) -> Column:
        return self.columns[self.place(name)]

    def place(self, name: str) -> int:
        return next(i for i, column in enumerate(self.columns) if name in (column.name, column.next_name))

    @property
    def at_first(self) -> Table:
        """The table without what is added to it later, and before its columns are altered."""
        return replace(self, columns=tuple(column.at_first for column in self.columns if not column.added))

    @property
    def may_be_emptied(self) -> bool:
        """Return whether a job can tell what rows get in columns that are added: at a PostgreSQL not without a default, where
        TRUNCATE wrote the table anew."""
        return not any(column.added and column.default is None for column in self.columns)

    @property
    def given(self) -> tuple[Column, ...]:
        """The columns for which statements give values."""
        return tuple(column for column in self.columns if column.computed is None and not column.gone)

    @property
    def named(self) -> tuple[Column, ...]:
        """The columns that statements may name."""
        return tuple(column for column in self.columns if not column.gone)

    @property
    def unique_keys(self) -> tuple[tuple[str, ...], ...]:
        """The primary key first."""
        return (*((self.key,) if self.key else ()), *self.uniques)

    @property
    def has_stand_in(self) -> bool:
        """Return whether a unique key without NULL stands for the primary key. Partial images then name the row by it alone."""
        keys = ([self.column(name).nullable for name in unique] for unique in self.uniques)
        return not self.key and not all(map(any, keys))

    @property
    def has_untold_default(self) -> bool:
        """Return whether a default is of bytes. Servers tell it as text, and exactly only where the table has a row."""
        return any(column.default is not None and column.default.startswith("x'") for column in self.columns)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one history, without its ledger. Foreign keys may lead anywhere."""

    tables: tuple[Table, ...]

    def __getitem__(self, name: str) -> Table:
        """Return the table of this name, else one that is called so at some time."""
        by_name = (table for table in self.tables if table.name == name)
        return next(by_name, None) or next(table for table in self.tables if name in table.names)

    @property
    def at_first(self) -> Schema:
        return Schema(tuple(table.at_first for table in self.tables if MADE not in table.life))

    @property
    def steady(self) -> tuple[Table, ...]:
        """Return the tables that are there all the time, under one name."""
        return tuple(table for table in self.tables if not table.life)

    def passing(self, drops: str = "") -> dict[str, tuple[Table, ...]]:
        """Return the other tables by name: those that may have it, one after the other. `drops` is "rename" where a target
        keeps dropped ones under another name."""
        found: dict[str, tuple[Table, ...]] = {}
        for table in (table for table in self.tables if table.life):
            aside = [f"{table.names[-1]}{KEPT}"] if drops == "rename" and DROPPED in table.life else []
            for name in (*table.names, *aside):
                found[name] = (*found.get(name, ()), table)
        return found

    def references(self, parent: str) -> Iterator[tuple[Table, ForeignKey]]:
        """Return what refers to a table, in the order of the keys' names, as InnoDB goes through them."""
        found = [(t, key) for t in self.tables for key in t.foreign_keys if key.parent == parent]
        yield from sorted(found, key=lambda one: one[1].name)

    def heirs(self, name: str) -> Iterator[Table]:
        """Return what inherits from a table, over all levels."""
        for table in (table for table in self.tables if table.inherits == name):
            yield table
            yield from self.heirs(table.name)

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(table) for table in self.tables]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Schema:
        return cls(tuple(_table(one) for one in data))


def create_statements(schema: Schema, family: str, version: Version) -> Iterator[str]:
    """Every table at a MySQL or MariaDB. Keys may lead to tables that come later: `foreign_key_checks` has to be off."""
    yield f"CREATE TABLE {LEDGER} (n INT PRIMARY KEY) ENGINE=InnoDB"
    for table in schema.tables:
        yield create_sql(table, exact_collation(family, version))


def create_sql(table: Table, exact: str, create: str = "CREATE TABLE") -> str:
    """Return the statement that makes a table at a MySQL or MariaDB. `exact`: the collation that compares bytes."""
    lines = [column_sql(table, column, exact) for column in table.columns]
    if table.key:
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    lines += [f"UNIQUE KEY {table.name}_u{i} ({', '.join(u)})" for i, u in enumerate(table.uniques)]
    lines += [_foreign_key(key) for key in table.foreign_keys]
    return f"{create} {table.names[0]} ({', '.join(lines)}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"


def heading(names: Iterable[str]) -> bytes:
    """Return the line that stands among the rows of a table that is not there all the time: it is there, with these columns."""
    return f"there, with {' '.join(sorted(names))}".encode()


def column_sql(table: Table, column: Column, exact: str) -> str:
    """Return a column's line at a MySQL or MariaDB. `exact`: the collation that compares bytes."""
    null = "" if column.nullable else " NOT NULL"
    native = column.of.native.replace("{exact}", exact)
    if column.computed is not None:
        return (
            f"{column.name} {native} {column.computed.sql([table.column(name).of for name in column.computed.columns])}"
        )
    default = f" DEFAULT {column.default}" if column.default is not None else ""
    return f"{column.name} {native.removesuffix(' null') if null else native}{null}{default}"


def _foreign_key(key: ForeignKey) -> str:
    return (
        f"CONSTRAINT {key.name} FOREIGN KEY ({', '.join(key.columns)}) REFERENCES {key.parent}"
        f" ({', '.join(key.parent_columns)}) ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
    )


def _table(data: Mapping[str, Any]) -> Table:
    return Table(
        data["name"],
        tuple(map(_read_column, data["columns"])),
        tuple(data["key"]),
        tuple(tuple(one) for one in data["uniques"]),
        tuple(
            ForeignKey(**{**one, "columns": tuple(one["columns"]), "parent_columns": tuple(one["parent_columns"])})
            for one in data["foreign_keys"]
        ),
        data.get("inherits", ""),
        tuple(data.get("life", ())),
        data.get("called", ""),
    )


def _read_column(data: Mapping[str, Any]) -> Column:
    computed = data.get("computed")
    made = Computed(**{**computed, "columns": tuple(computed["columns"])}) if computed else None
    return Column(**{**data, "computed": made})
