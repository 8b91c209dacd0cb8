"""AUTO_INCREMENT counters of replicated columns: raised behind the highest value there, so that the next row of another writer
gets a free number.

InnoDB raises a counter by itself when a row with a number is inserted, not when one is moved to a number by UPDATE (before
MySQL 8.0 and on MariaDB). Never lowered: the server does not go below the rows, and numbers that were drawn here stay drawn.
https://dev.mysql.com/doc/refman/8.0/en/innodb-auto-increment-handling.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.connectors.mysql.connection import family, version
from anabranch.connectors.mysql.target.attempts import attempt
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.session import Connection, one, quoted, run, table_name
from anabranch.connectors.mysql.target.structures import read_tables
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

# Otherwise the counter is what it was a day ago: https://dev.mysql.com/doc/refman/8.0/en/information-schema-optimization.html
FRESH, FRESH_SINCE = "SET SESSION information_schema_stats_expiry = 0", (8, 0, 0)
COUNTER = "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
HIGHEST = 2**64 - 1  # a counter's


def raise_sequences(connection: Connection, tables: Sequence[TargetTable]) -> list[str]:
    """Raise the counters. Returns those that could not be, and why."""
    problems: list[str] = []
    with translated("read the counters of the target"):
        if family(connection) == "mysql" and version(connection) >= FRESH_SINCE:
            run(connection, FRESH)
        found = list(_too_low(connection, tables))
    for table, wanted in found:
        statement = f"ALTER TABLE {table_name(table)} AUTO_INCREMENT = {wanted}"
        problems += attempt(connection, statement, f"the counter of {table}", "raised")
    return problems


def _too_low(connection: Connection, tables: Sequence[TargetTable]) -> Iterator[tuple[TableId, int]]:
    """Yield the tables whose next number would be one that is there, and the one to take."""
    there = read_tables(connection, [table.target for table in tables])
    for table in tables:
        existing = there.get(table.target)
        columns = existing.columns if existing else []
        column = next((c.name for c in columns if c.auto_increment and c.name in table.columns), None)
        if column is None:
            continue
        highest = one(connection, f"SELECT MAX({quoted(column)}) FROM {table_name(table.target)}")
        counter = one(connection, COUNTER, table.target.schema, table.target.name)
        if highest is not None and int(counter or 1) <= int(highest) < HIGHEST:
            yield table.target, int(highest) + 1
