"""Room inside the state's file for what has to be written while the disk is full: free pages that only short notes may take.

What is kept of the past (passages, samples) is written only where the file has room for it beside these pages, and makes
the file larger first. Nothing here catches an error: a disk without room is seen to by the store.
https://www.sqlite.org/fileformat2.html#the_freelist
"""

from __future__ import annotations

import sqlite3

RESERVE = 262_144  # bytes of free pages, and of the journal, that stay for short notes
STEP = 262_144  # by which the file grows more than is needed, so that it grows rarely
# Rows are committed before they go: a page that was only ever free may be a hole. The update has the journal grow, too
PREPARE = (
    "DROP TABLE IF EXISTS reserve",  # of a process that was killed in between
    "CREATE TABLE reserve (bytes BLOB)",
    f"INSERT INTO reserve VALUES (zeroblob({RESERVE}))",
    f"UPDATE reserve SET bytes = randomblob({RESERVE})",
    "DROP TABLE reserve",
)


def prepare(connection: sqlite3.Connection) -> None:
    """Give a new file, and its journal, the room of RESERVE."""
    for statement in PREPARE:
        connection.execute(statement)


def provide(connection: sqlite3.Connection, size: int) -> None:
    """See that `size` bytes of rows can be written next, with RESERVE still free behind them."""
    connection.execute("DROP TABLE IF EXISTS reserve")
    needed = RESERVE + 2 * size  # a row that fills more than half a page has it alone
    if free_bytes(connection) >= needed:
        return
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE IF NOT EXISTS reserve (bytes BLOB)")
    connection.execute("INSERT INTO reserve VALUES (zeroblob(?))", (needed + STEP,))
    connection.execute("COMMIT")
    connection.execute("DROP TABLE IF EXISTS reserve")


def free_bytes(connection: sqlite3.Connection) -> int:
    """Return how much of the file is free."""
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * size)
