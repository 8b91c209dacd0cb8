"""Tables that inherit from tables of a history at a PostgreSQL source: what is said to such a table is said to its heirs, too.

Each has rows of its own, at the target in a table of its own. What a change of the parent does to an heir's rows is in the log
by the heir's name. What does not live here: what is said to them; keys, which nobody inherits, are drawn anew.
https://www.postgresql.org/docs/current/ddl-inherit.html
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from anabranch.testing.torture.postgresql_tables import shape_of
from anabranch.testing.torture.tables import Column, ForeignKey, Schema, Table

SHARE = 0.35  # of the histories
OWN = Column("v9", "pg text")


def with_heirs(schema: Schema, seed: int, decoder: str = "") -> Schema:
    """The same for the same seed; of some histories as it is."""
    r = random.Random(f"heirs {seed}")
    if r.random() > SHARE:
        return schema
    whole = [table for table in schema.tables if not shape_of(table, decoder)]
    heirs = list[Table]()
    for parent in r.sample(whole, min(len(whole), r.choice((1, 1, 2)))):
        heirs += _heirs(r, parent, len(heirs) + 1)
    return Schema((*schema.tables, *heirs))


def _heirs(r: random.Random, parent: Table, number: int) -> Iterator[Table]:
    """One, two, or one and one of its own."""
    first = _heir(r, parent, f"h{number}")
    yield first
    if r.random() < 0.4:
        yield _heir(r, r.choice((parent, first)), f"h{number + 1}")


def _heir(r: random.Random, parent: Table, name: str) -> Table:
    """Draw a table that inherits: with or without the parent's key, its other keys, and a column of its own."""
    columns = parent.columns if OWN in parent.columns or r.random() < 0.5 else (*parent.columns, OWN)
    key = parent.key if r.random() < 0.75 else ()
    if not key and all(column.name != "g" for column in columns):
        columns = (*columns, Column("g", "pg integer"))
    uniques = parent.uniques if r.random() < 0.5 else ()
    foreign = tuple(_own(one, name) for one in parent.foreign_keys) if r.random() < 0.6 else ()
    return replace(
        parent, name=name, columns=columns, key=key, uniques=uniques, foreign_keys=foreign, inherits=parent.name
    )


def _own(key: ForeignKey, name: str) -> ForeignKey:
    return replace(key, name=f"{name}_{key.name.rpartition('_')[2]}")
