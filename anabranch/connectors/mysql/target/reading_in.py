"""Unique keys of a table whose rows contend, read into the server's memory once for a session (decision 262).

A MySQL builds an index past its buffer pool (8.0.27 and later). While a page of it is not in memory, what a DELETE does to the
index goes to the change buffer, at four times the processor time. Each key is read up to a number of entries, between two
transactions. Where changes of deletes are not buffered (MariaDB, MySQL from 8.4 on, by default) nothing is read.
https://dev.mysql.com/doc/refman/8.0/en/innodb-change-buffer.html
What does not live here: which rows contend (apply engine), what becomes of them (`exchange.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pymysql

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, run, table_name
from anabranch.model.ids import TableId

MANY = 1_000  # rows that have contended, before it is worth reading
MOST = 1_000_000  # entries of one key, half a second where they are in memory or near
MOST_MS = 1_000  # whatever they are
# The server ends a statement that takes longer. https://dev.mysql.com/doc/refman/8.0/en/optimizer-hints.html ·
# https://mariadb.com/kb/en/set-statement/
LIMITED = {
    "mysql": f"SELECT /*+ MAX_EXECUTION_TIME({MOST_MS}) */ 1 FROM",
    "mariadb": f"SET STATEMENT max_statement_time = {MOST_MS / 1000} FOR SELECT 1 FROM",
}
BUFFERING = "SHOW GLOBAL VARIABLES LIKE 'innodb_change_buffering'"
BUFFERS_DELETES = ("all", "changes", "deletes")
KEYS = """
SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0 AND INDEX_NAME <> 'PRIMARY'
"""


@dataclass
class ReadingIn:
    """Counts the rows that contend in a session, and says what is to be read."""

    _contended: dict[TableId, int] = field(default_factory=dict)
    _read: set[TableId] = field(default_factory=set)

    def contended(self, table: TableId, rows: int) -> None:
        self._contended[table] = self._contended.get(table, 0) + rows

    def wanted(self) -> list[TableId]:
        """Return the tables whose keys are to be read now; each is named once."""
        found = [table for table, rows in self._contended.items() if rows >= MANY and table not in self._read]
        self._read.update(found)
        return found


def read_in(connection: Connection, table: TableId) -> int:
    """Read the unique keys beside the primary, and return how many. Outside of a transaction. A key that cannot be read, or not
    in time, is passed over: nothing depends on it. Errors of a lost connection pass."""
    done = 0
    for name in list(_to_read(connection, table)):
        try:
            select = f"{LIMITED[family(connection)]} {table_name(table)} FORCE INDEX ({quoted(name)}) LIMIT {MOST}, 1"
            run(connection, select)
        except pymysql.err.Error:
            if not connection.open:
                raise
            continue
        done += 1
    return done


def _to_read(connection: Connection, table: TableId) -> Iterator[str]:
    buffered = ask(connection, BUFFERING)
    if buffered and str(buffered[0][1]) in BUFFERS_DELETES:
        yield from (str(name) for (name,) in ask(connection, KEYS, table.schema, table.name))
