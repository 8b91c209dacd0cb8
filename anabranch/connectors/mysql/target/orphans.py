"""Rows without a parent: what a foreign key says that was added with the session's keys off, and that the server has not asked.

https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html#foreign-key-checks
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.session import Connection, one, quoted, table_name
from anabranch.model.ids import TableId


class Key(Protocol):
    """A foreign key, planned or there."""

    @property
    def name(self) -> str: ...

    @property
    def child(self) -> TableId: ...

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def parent(self) -> TableId: ...

    @property
    def parent_columns(self) -> Sequence[str]: ...


def without_parent(connection: Connection, key: Key) -> list[str]:
    """Return what is to be said of a key that stands, if some rows have no parent. One statement sees one moment."""
    with translated(f"look for rows without a parent in {key.child}"):
        count = int(one(connection, query(key)) or 0)
    rows = "1 row" if count == 1 else f"{count:,} rows"
    said = f"foreign key {key.name} of {key.child} stands unvalidated: {rows} without a parent, as at the source"
    return [said] if count else []


def query(key: Key) -> str:
    """Return the query for the number of rows without a parent; NULL in a column needs none."""
    pairs = zip(key.columns, key.parent_columns, strict=True)
    same = " AND ".join(f"p.{quoted(parent)} = c.{quoted(own)}" for own, parent in pairs)
    known = " AND ".join(f"c.{quoted(own)} IS NOT NULL" for own in key.columns)
    found = f"SELECT 1 FROM {table_name(key.parent)} AS p WHERE {same}"
    return f"SELECT COUNT(*) FROM {table_name(key.child)} AS c WHERE {known} AND NOT EXISTS ({found})"
