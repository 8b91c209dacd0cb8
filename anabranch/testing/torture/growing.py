"""Columns that are added to tables of a history while it streams: by a statement that commits by itself at a MySQL or MariaDB,
by a part of a transaction at a PostgreSQL.

To the model they are there from the beginning: no statement names one before it is added, and rows that are there get its
default. Whoever reads a table that does not have it yet shows that default (tables.Column.before); which value a row has
behind it tells whether the column came in time. What does not live here: columns that are altered in another way (altering.py).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.history import History, Statement, Transaction
from anabranch.testing.torture.postgresql_tables import shape_of
from anabranch.testing.torture.sources import Kinds
from anabranch.testing.torture.tables import Column, Schema, Table, column_sql
from anabranch.testing.torture.values import Kind, plain_constants

SHARE = 0.3  # of the histories that may
NAMES = ("v8", "v9")  # of a table's columns, in the order in which they come
DIES = 0.5  # of these histories: a process is gone at one of the places
POINTS = ("apply.altering", "apply.altered.apart", "apply.altered", "capture.statement.noted")
SETTING = """
[ddl]
add_column = "apply"
drop_column = "apply"
rename_column = "apply"
nullability = "apply"
column_default = "apply"
change_type = "apply"
"""


def may_grow(seed: int) -> bool:
    """The same for the same seed."""
    return random.Random(f"growing {seed}").random() < SHARE


def with_added(schema: Schema, seed: int, known: Kinds, *, is_postgresql: bool = False) -> Schema:
    """Return the schema where some tables have further columns, in the last places, which are added later."""
    r = random.Random(f"added {seed}")
    growing = {table.name for table in r.sample(schema.tables, r.randint(1, len(schema.tables)))}
    whole = (_with_columns(r, table, known) if table.name in growing else table for table in schema.tables)
    kept = [
        old if is_postgresql and not _is_one(schema, new) else new
        for old, new in zip(schema.tables, whole, strict=True)
    ]
    return Schema(tuple(kept))


def _is_one(schema: Schema, table: Table) -> bool:
    """Return whether a table is in one piece at a PostgreSQL: partitioned ones park, heirs get what their parent gets."""
    return not (shape_of(table) or table.inherits or any(schema.heirs(table.name)))


def _with_columns(r: random.Random, table: Table, known: Kinds) -> Table:
    kinds = [kind for kind in known.all if "\\" not in kind.native]  # which parks the table
    added = (_column(r, name, r.choice(kinds)) for name in NAMES[: r.choice((1, 1, 2))])
    return replace(table, columns=(*table.columns, *added))


def _column(r: random.Random, name: str, kind: Kind) -> Column:
    constants = plain_constants(kind)
    default = r.choice(constants) if constants and r.random() < 0.7 else None
    return Column(name, kind.name, default is None or r.random() < 0.6, default, added=True)


def draw_growing(schema: Schema, seed: int, places: int, sessions: int) -> Mapping[int, list[Transaction]]:
    """Return the transactions that add columns by the place before which they stand, of so many. One session has them all: two
    ALTERs of tables that foreign keys connect were seen to wait for each other in MariaDB 10.11.19 for ever."""
    r = random.Random(f"grows {seed}")
    found: dict[int, list[Transaction]] = {}
    session = r.randrange(sessions)
    for table in schema.tables:
        names = [column.name for column in table.columns if column.added]
        parts = [names] if len(names) == 2 and r.random() < 0.4 else [[name] for name in names]
        there = [column.name for column in table.columns if not column.added]
        for place, part in zip(sorted(r.sample(range(places), len(parts))), parts, strict=True):
            order = r.choice(("", "", "FIRST", f"AFTER {r.choice(there)}"))
            statement = Statement("grow", table.name, tuple(part), order=order)
            one = Transaction(0, session, (statement,), pause=r.randint(0, 4))
            found.setdefault(place, []).append(one)
            there += part
    return found


def joined(transactions: Sequence[Transaction], seed: int) -> list[Transaction]:
    """Return the transactions of a PostgreSQL, where adding columns is a part of one: of its own, at the end of the one before,
    at the beginning of the next, or between both, which are one then."""
    r, found = random.Random(f"joined {seed}"), list[Transaction]()
    for one in transactions:
        if one.alone:
            one = replace(one, statements=(replace(one.alone, do="add", order=""),))
        if found and _may_join(found[-1], one) and r.random() < 0.5:
            before = found.pop()
            one = replace(before, statements=(*before.statements, *one.statements))
        found.append(one)
    return found


def _may_join(before: Transaction, one: Transaction) -> bool:
    adds = one.statements[:1] + before.statements[-1:]
    alike = (before.commits, before.checks) == (one.commits, one.checks) == (True, one.checks)
    return alike and any(statement.do == "add" for statement in adds)


def grow_sql(table: Table, statement: Statement, number: int, exact: str) -> str:
    """Return the statement at a MySQL or MariaDB. `exact`: the collation that compares bytes."""
    lines = (column_sql(table, table.column(name), exact) for name in statement.columns)
    added = ", ".join(f"ADD COLUMN {line} {statement.order}".rstrip() for line in lines)
    return f"ALTER /* {number} */ TABLE {table.name} {added}"


def growing_faults(history: History) -> tuple[Fault, ...]:
    """Return the faults that a history has for its sake."""
    drawn = random.Random(f"faults of growing {history.seed}")
    if not history.grows or drawn.random() > DIES:
        return ()
    return (Fault("exit", drawn.choice(POINTS), drawn.choice((1, 1, 2))),)
