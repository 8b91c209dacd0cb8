"""The lock of those that begin loads on a server, one session at a time; the emptying of a table, which commits by itself.

What does not live here: the order in which a load begins (`beginning.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pymysql

from anabranch.connectors.mysql.target.session import Connection, one, run, table_name, transaction
from anabranch.errors import TargetBusy
from anabranch.model.ids import TableId
from anabranch.model.markers import comment

LOCK = "anabranch begins loads"
PATIENCE = 30  # seconds for that lock
# TRUNCATE needs the right to DROP, and does not go with a table whose history the server keeps.
# https://dev.mysql.com/doc/refman/8.0/en/truncate-table.html · https://mariadb.com/kb/en/system-versioned-tables/
NO_TRUNCATE = (1142, 1227, 4137)
ROWS_AT_ONCE = 10_000  # of one DELETE
TOUCH_MARK = """
UPDATE anabranch.load_chunk SET `rows` = COALESCE(`rows`, 0) + 1 WHERE job = %s AND source_table = %s AND number < 0
"""


@contextmanager
def one_begins(connection: Connection) -> Iterator[None]:
    """Let no other session of ours begin a load on this server until the block ends. Raises TargetBusy where one goes on for
    long."""
    if one(connection, "SELECT GET_LOCK(%s, %s)", LOCK, PATIENCE) != 1:
        raise TargetBusy("another load begins at the target", hint="it is tried again")
    try:
        yield
    finally:
        with suppress(pymysql.err.Error, OSError):  # it went with the session
            if connection.open:
                one(connection, "SELECT RELEASE_LOCK(%s)", LOCK)


def empty_table(connection: Connection, table: TableId, job: str, source: TableId) -> None:
    """Remove all rows of a table, which commits. The target's log says that the job did it (K21): by a comment, or by the
    load's mark in the ledger, which is there and changes with each transaction."""
    try:
        run(connection, f"TRUNCATE TABLE {table_name(table)} {comment(job)}")
    except pymysql.err.Error as error:
        if error.args[0] not in NO_TRUNCATE:
            raise
        removed = 1
        while removed:
            with transaction(connection):
                run(connection, TOUCH_MARK, job, str(source))
                removed = run(connection, f"DELETE FROM {table_name(table)} LIMIT {ROWS_AT_ONCE}")
