"""Computed columns drawn into the tables of a history at a MySQL or MariaDB: over foreign keys that act, over each other, over
what statements give.

Both servers let only what is not stored depend on a column that a foreign key changes. What does not live here: what an
expression comes to (expressions.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from anabranch.testing.torture.expressions import HOWS, NUMBERS, READABLE, Computed
from anabranch.testing.torture.tables import RESTRICT, Column, Schema, Table

SHARE = 0.4  # of the histories
SPACED = "short text"  # with how many spaces depends on the session: MariaDB stores nothing that is computed from it
OF_ONE = ("word", "word", "known", "crc")


def with_computed(schema: Schema, seed: int) -> Schema:
    """The same for the same seed; of some histories as it is."""
    r = random.Random(f"computed {seed}")
    return schema if r.random() > SHARE else Schema(tuple(_computing(r, table) for table in schema.tables))


def computes_over_keys(schema: Schema) -> bool:
    """Return whether a foreign key that acts changes what a column is computed from."""
    return any(
        {*_acting(table)} & {*c.computed.columns} for table in schema.tables for c in table.columns if c.computed
    )


def _acting(table: Table) -> list[str]:
    """Columns that a foreign key may change."""
    keys = (key for key in table.foreign_keys if (key.on_delete, key.on_update) != (RESTRICT, RESTRICT))
    return [name for key in keys for name in key.columns]


def _computing(r: random.Random, table: Table) -> Table:
    """Each new column stands anywhere, before what it is computed from, too; only behind computed ones, as the servers want."""
    columns = list(table.columns)
    for column in _drawn(r, table):
        below = column.computed.columns if column.computed else ()
        first = max((place + 1 for place, one in enumerate(columns) if one.computed and one.name in below), default=0)
        columns.insert(r.randint(first, len(columns)), column)
    return replace(table, columns=tuple(columns))


def _drawn(r: random.Random, table: Table) -> Iterator[Column]:
    acting = _acting(table)
    readable = [column.name for column in table.columns if column.kind in READABLE]
    over = [name for name in dict.fromkeys(acting) if name in readable and r.random() < 0.8]
    number = 0
    for name in over:
        number += 1
        yield _column(number, r.choice(OF_ONE), (name,))
    numbers = [name for name in readable if table.column(name).kind in NUMBERS]
    if len(numbers) > 1 and r.random() < 0.5:
        number += 1
        names = tuple(r.sample(numbers, 2))
        yield _column(number, "joined", names, is_stored=not {*names} & {*acting} and r.random() < 0.7)
    given = [name for name in readable if name not in acting]
    if given and r.random() < 0.3:
        number += 1
        name = r.choice(given)
        stores = r.random() < 0.7 and table.column(name).kind != SPACED
        yield _column(number, r.choice(OF_ONE), (name,), is_stored=stores)
    depth = r.choice((0, 1, 1, 3)) if over else 0
    for below in range(depth):
        number += 1
        yield _column(number, "over", (f"c{number - 1 if below else 1}",))


def _column(number: int, how: str, names: tuple[str, ...], *, is_stored: bool = False) -> Column:
    return Column(f"c{number}", HOWS[how].kind, computed=Computed(how, names, is_stored))
