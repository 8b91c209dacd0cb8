"""An enum type of a history at a PostgreSQL source, and the labels that are added to it while rows take them.

No log tells of an added label: the first row that has it does. What does not live here: labels that are renamed.
https://www.postgresql.org/docs/current/sql-altertype.html
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from anabranch.testing.torture.postgresql_values import LABEL, LABELS, TYPE
from anabranch.testing.torture.tables import Column, Schema, Table

SHARE = 0.35  # of the histories
NAME = "v7"  # of the column


def with_labels(schema: Schema, seed: int) -> Schema:
    """The same for the same seed; of some histories as it is."""
    r = random.Random(f"labels {seed}")
    if r.random() > SHARE:
        return schema
    having = {table.name for table in r.sample(schema.tables, r.randint(1, len(schema.tables)))}
    return Schema(tuple(_labelled(r, table) if table.name in having else table for table in schema.tables))


def _labelled(r: random.Random, table: Table) -> Table:
    default = r.choice(sorted(LABELS)) if r.random() < 0.2 else None
    column = Column(NAME, LABEL, r.random() < 0.7, default)
    return replace(table, columns=(*table.columns, column))


def has_labels(schema: Schema) -> bool:
    return any(column.kind == LABEL for table in schema.tables for column in table.columns)


def types(schema: Schema) -> Iterator[str]:
    """The statement that makes the type, where there is a column of it."""
    if has_labels(schema):
        yield f"CREATE TYPE {TYPE} AS ENUM ({', '.join(LABELS)})"
