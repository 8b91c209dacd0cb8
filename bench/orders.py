"""The table of all workloads, 164 bytes a row as text, and its changes, made inside the source's server.

What the log holds of a backlog of 1,000,000 changes: one transaction of 500,000 inserts, 2,000 transactions of 100
scattered updates, 300,000 transactions of one insert.
"""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from anabranch.testing.databases import Database

TABLE = """
CREATE TABLE {name} (
  id bigint NOT NULL PRIMARY KEY, customer_id int NOT NULL, status varchar(16) NOT NULL, amount decimal(12,2) NOT NULL,
  note varchar(200) NOT NULL, created_at datetime(6) NOT NULL, flag tinyint NOT NULL, payload varchar(100) NOT NULL)
"""
TARGET_TABLE = """
CREATE TABLE {name} (
  id bigint PRIMARY KEY, customer_id integer NOT NULL, status varchar(16) NOT NULL, amount numeric(12,2) NOT NULL,
  note varchar(200) NOT NULL, created_at timestamp(6) NOT NULL, flag smallint NOT NULL, payload varchar(100) NOT NULL)
"""
# The row of number k: columns that compress and sort no better than real ones.
_ROW = (
    "{k}, {k} % 100003, ELT(1 + {k} % 4, 'new', 'paid', 'shipped', 'cancelled'), {k} % 999983 / 100,"
    " CONCAT('order ', {k}, ' of ', MD5({k}), ' left the house today'),"
    " TIMESTAMP('2024-01-01 00:00:00.000001') + INTERVAL {k} * 7 SECOND, {k} % 2, CONCAT(MD5({k} + 1), ' pay')"
)
_INSERT = (
    "INSERT INTO orders SELECT " + _ROW.format(k="n") + " FROM (SELECT {first} + a.n * 1000 + b.n AS n FROM numbers a"
)
_INSERT += " JOIN numbers b WHERE b.n < 1000 AND a.n * 1000 + b.n < {count}) AS wanted"
_ONE_BY_ONE = (
    "CREATE PROCEDURE one_by_one(k bigint, last bigint) BEGIN WHILE k < last DO"
    f" INSERT INTO orders VALUES ({_ROW.format(k='k')}); SET k = k + 1; END WHILE; END"
)
DIGITS = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5"
DIGITS += " UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
_NUMBERS = (
    f"INSERT INTO numbers SELECT o.d + 10 * t.d + 100 * h.d + 1000 * k.d FROM {DIGITS} o, {DIGITS} t, {DIGITS} h, "
)
_NUMBERS += f"{DIGITS} k"
ROWS_PER_UPDATE = 100


@dataclass
class Orders:
    """The table in a database of the source; knows which numbers are taken. Up to 10,000,000 rows at once."""

    database: Database
    base: int = 0  # rows that were there before the changes
    next: int = 0
    _random: random.Random = field(default_factory=lambda: random.Random(1))

    def create(self, rows: int) -> None:
        self._run(
            TABLE.format(name="orders"),
            "CREATE TABLE numbers (n int PRIMARY KEY)",
            _NUMBERS,
            _ONE_BY_ONE,
        )
        for first in range(0, rows, 500_000):
            self.insert(min(500_000, rows - first))
        self.base = rows
        self._run("ANALYZE TABLE orders")

    def insert(self, rows: int) -> int:
        """One transaction; how many transactions that is."""
        self._run(_INSERT.format(first=self.next, count=rows))
        self.next += rows
        return 1

    def backlog(self, changes: int) -> int:
        """The mix of performance figures; how many transactions it is."""
        return self.insert(changes // 2) + self.small(changes - changes // 2)

    def small(self, changes: int) -> int:
        """The small transactions of the mix; how many it is."""
        updates = changes * 2 // 5 // ROWS_PER_UPDATE
        with closing(self.database.connect()) as connection, closing(connection.cursor()) as cursor:
            for _ in range(updates):
                self._update(cursor)
        singles = changes - updates * ROWS_PER_UPDATE
        return updates + self.singles(singles)

    def singles(self, rows: int) -> int:
        """Transactions of one new row each; how many it is."""
        self._run(f"CALL one_by_one({self.next}, {self.next + rows})")
        self.next += rows
        return rows

    def _update(self, cursor: Any) -> None:
        """One transaction: rows scattered over all that was there before, or over all when nothing was."""
        keys = self._random.sample(range(self.base or self.next), ROWS_PER_UPDATE)
        cursor.execute(
            f"UPDATE orders SET amount = amount + 1, flag = 1 - flag WHERE id IN ({', '.join(map(str, keys))})"
        )

    def _run(self, *statements: str) -> None:
        self.database.execute(*statements)
