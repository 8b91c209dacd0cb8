"""Columns of a history that a MySQL or MariaDB drops, renames or defines anew while it streams.

To the model such a column is there from the beginning to the end, under both of its names and with the wider type. A column
that is dropped has its default in every row from then on, and whoever reads a table without it shows that default
(tables.Column.before). What does not live here: columns that are added (growing.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from anabranch.testing.torture.history import Statement, Transaction
from anabranch.testing.torture.sources import Kinds
from anabranch.testing.torture.tables import (
    DEFAULTED,
    DROPPED,
    NULLABLE,
    RENAMED,
    WIDENED,
    Column,
    Schema,
    Table,
    column_sql,
)
from anabranch.testing.torture.values import Kind, plain_constants
from anabranch.testing.torture.widened_values import KINDS as WIDE

SHARE = 0.6  # of the histories whose tables are altered; the others only get columns
NAMES = ("v5", "v6")  # of a table's columns that are altered, in any order
# MODIFY and CHANGE repeat a definition; of these a catalogue shows another one, or the server's own check belongs to them.
_NOT_REPEATED = ("json", "timestamp", "bit", "point")


def with_altered(schema: Schema, seed: int, known: Kinds) -> Schema:
    """Return the schema where some tables have further columns, behind their own, which are altered later."""
    r = random.Random(f"altered {seed}")
    if r.random() > SHARE:
        return schema
    chosen = {table.name for table in r.sample(schema.tables, r.randint(1, 2))}
    return Schema(tuple(_with_columns(r, t, known) if t.name in chosen else t for t in schema.tables))


def _with_columns(r: random.Random, table: Table, known: Kinds) -> Table:
    made = (_column(r, name, known) for name in NAMES[: r.choice((1, 2))])
    return replace(table, columns=(*table.columns, *made))


def _column(r: random.Random, name: str, known: Kinds) -> Column:
    change = r.choice((DROPPED, RENAMED, NULLABLE, DEFAULTED, WIDENED))
    if change == WIDENED:
        narrow = r.choice([kind.name for kind in known.all if kind.name in WIDE])
        return Column(name, WIDE[narrow].name, altered=change)
    kind = r.choice([kind for kind in known.all if "\\" not in kind.native and _FITS[change](kind)])
    constants = plain_constants(kind)
    default = r.choice(constants) if constants and r.random() < 0.7 else None
    then = r.choice([one for one in constants if one != default]) if change == DEFAULTED else None
    nullable = change == NULLABLE or default is None or r.random() < 0.6
    return Column(name, kind.name, nullable, default, altered=change, next_default=then)


_FITS: Mapping[str, Callable[[Kind], bool]] = {
    DROPPED: lambda _: True,
    RENAMED: lambda kind: not kind.native.startswith("json"),
    NULLABLE: lambda kind: not kind.native.startswith(_NOT_REPEATED),
    DEFAULTED: lambda kind: len(plain_constants(kind)) > 1,  # what is defined as it was parks its table
}


def draw_altering(schema: Schema, seed: int, places: int, sessions: int) -> Mapping[int, list[Transaction]]:
    """Return the transactions that alter columns by the place before which they stand, of so many."""
    r = random.Random(f"alters {seed}")
    found: dict[int, list[Transaction]] = {}
    session = r.randrange(sessions)
    for table in schema.tables:
        for column in (column for column in table.columns if column.altered):
            statement = Statement("alter", table.name, (column.name,), name=r.choice(_forms(column)))
            one = Transaction(0, session, (statement,), pause=r.randint(0, 4))
            found.setdefault(r.randrange(places), []).append(one)
    return found


def _forms(column: Column) -> Sequence[str]:
    """Return the words by which a statement may say it."""
    if column.altered == RENAMED:
        return ("RENAME", "RENAME" if column.of.native.startswith(_NOT_REPEATED) else "CHANGE")
    return {DROPPED: ("DROP",), DEFAULTED: ("ALTER", "MODIFY")}.get(column.altered, ("MODIFY",))


def alter_sql(table: Table, statement: Statement, number: int, exact: str) -> str:
    """Return the statement at a MySQL or MariaDB. `exact`: the collation that compares bytes."""
    column = table.column(statement.columns[0])
    line = column_sql(table, column.afterwards, exact)
    said = {
        "DROP": f"DROP COLUMN {column.name}",
        "RENAME": f"RENAME COLUMN {column.name} TO {column.next_name}",
        "CHANGE": f"CHANGE {column.name} {line}",
        "ALTER": f"ALTER COLUMN {column.name} SET DEFAULT {column.next_default}",
        "MODIFY": f"MODIFY {line}",
    }[statement.name]
    return f"ALTER /* {number} */ TABLE {table.name} {said}"
