"""Statements that mend a source's tables, for hints: whoever reads one can run it. Nothing here runs them."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.model.schema import Index, TableSchema

SHOWN = 8  # tables in one hint
NEW_KEYS = ("id", "row_id", "anabranch_id")  # the first that the table does not have yet


def give_transactions(tables: Iterable[TableSchema]) -> str:
    """Return the statement that makes tables transactional.

    https://dev.mysql.com/doc/refman/8.0/en/converting-tables-to-innodb.html
    """
    return _each(f"ALTER TABLE {qualified(table.id)} ENGINE = InnoDB" for table in tables)


def give_keys(tables: Iterable[TableSchema]) -> str:
    return _each(f"ALTER TABLE {qualified(table.id)} {_key(table)}" for table in tables)


def give_either(tables: Iterable[TableSchema]) -> str:
    tables = list(tables)
    return f"{give_transactions(tables)}; or {give_keys(tables)}; or exclude {', '.join(str(t.id) for t in tables[:SHOWN])}"


def standing_key(table: TableSchema) -> Index | None:
    """Return the unique key that a server takes for the primary one, which the table lacks.
    https://dev.mysql.com/doc/refman/8.0/en/innodb-index-types.html"""
    may_be_null = {column.name for column in table.columns if column.nullable}
    found = (i for i in table.indexes if i.unique and may_be_null.isdisjoint(i.columns) and not any(i.prefixes))
    return None if table.primary_key else next(found, None)


def _key(table: TableSchema) -> str:
    """Make a key of columns that are unique and never NULL already, else of a number of its own for each row."""
    key = standing_key(table)
    if key is not None:
        return f"ADD PRIMARY KEY ({', '.join(map(name, key.columns))})"
    numbers = [column.name for column in table.columns if column.auto_increment]
    if numbers:
        return f"ADD PRIMARY KEY ({name(numbers[0])})"
    taken = {column.name.lower() for column in table.columns}
    new = next((one for one in NEW_KEYS if one not in taken), NEW_KEYS[-1] + "_2")
    return f"ADD COLUMN {name(new)} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY"


def _each(statements: Iterable[str]) -> str:
    return "; ".join(list(statements)[:SHOWN])
