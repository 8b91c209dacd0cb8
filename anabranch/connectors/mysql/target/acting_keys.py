"""Foreign keys that change rows themselves, as they come and go at the target: so that a job which reads this server's log may
go on behind the statement.

What such a key does is not in the log (K1). A reader of the log therefore takes what stands in front of the statement for done
without the key, and what stands behind it for done with it. That is so only where no transaction is open, while the key comes
or goes, that has written to one of its two tables: then the statement ends with the job's comment, and without it otherwise.
Seen with a transaction that had deleted, changed or inserted a parent, or a child: MySQL 8.0 makes ALTER TABLE wait for it
always; MariaDB 10.11 makes DROP FOREIGN KEY wait, and ADD FOREIGN KEY only with `foreign_key_checks = 1`, which would ask every
row. There, and at older releases of MySQL, both tables are locked, which takes the right LOCK TABLES: who does not have it
adds the key all the same. In a cluster the comment is never written: writers at another node wait for no lock of this one.
https://dev.mysql.com/doc/refman/8.0/en/metadata-locking.html
What does not live here: which keys these are (`building.py`, `taken_off.py`), the reader (`source/built_clauses.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pymysql

from anabranch.connectors.mysql.connection import family, version
from anabranch.connectors.mysql.target.attempts import attempt
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.preflight_cluster import kind
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, run, table_name
from anabranch.connectors.mysql.target.structures import ExistingForeignKey
from anabranch.model.ids import TableId
from anabranch.model.markers import comment

ACTING = re.compile(r" ON (?:DELETE|UPDATE) (?:CASCADE|SET )")
PARENT = re.compile(r" REFERENCES ((?:`(?:[^`]|``)*`\.)?`(?:[^`]|``)*`) \(")
WAITS_FOR_WRITERS = (8, 0, 3)  # of a MySQL: https://dev.mysql.com/doc/relnotes/mysql/8.0/en/news-8-0-3.html
CLUSTER = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'group_replication_group_name')"
DENIED = frozenset({1044, 1142, 1227})  # for this database, for this table, for anything


def add_key(
    connection: Connection, job: str, statement: str, child: TableId, what: str, done: str = "built"
) -> list[str]:
    """Add a foreign key by a statement of ALTER TABLE. Returns and raises as `attempt`."""
    parent = PARENT.search(statement)
    if not job or not parent or not ACTING.search(statement) or _is_clustered(connection):
        return attempt(connection, statement, what, done)
    is_mysql = family(connection) == "mysql"
    names = () if is_mysql and version(connection) >= WAITS_FOR_WRITERS else (table_name(child), parent[1])
    return _carried_out(connection, job, statement, names, what, done)


def drop_key(connection: Connection, job: str, key: ExistingForeignKey) -> list[str]:
    """Drop a foreign key. Returns and raises as `attempt`."""
    statement = f"ALTER TABLE {table_name(key.child)} DROP FOREIGN KEY {quoted(key.name)}"
    what, done = f"key {key.name}", "taken off"
    if not ACTING.search(f" ON DELETE {key.on_delete} ON UPDATE {key.on_update}") or _is_clustered(connection):
        return attempt(connection, statement, what, done)
    is_older = family(connection) == "mysql" and version(connection) < WAITS_FOR_WRITERS
    names = (table_name(key.child), table_name(key.parent)) if is_older else ()
    return _carried_out(connection, job, statement, names, what, done)


def _carried_out(
    connection: Connection, job: str, statement: str, names: Sequence[str], what: str, done: str
) -> list[str]:
    try:
        held = partial(_locked, connection, names)
        return attempt(connection, statement, what, done, behind=comment(job), beside=held)
    except _MayNotLock:
        return attempt(connection, statement, what, done)


def _is_clustered(connection: Connection) -> bool:
    with translated("ask whether the server is a node of a cluster"):
        return bool(kind({str(name): str(value) for name, value in ask(connection, CLUSTER)}))


class _MayNotLock(Exception):
    """The exception for a user without the right to lock a table."""


@contextmanager
def _locked(connection: Connection, names: Sequence[str]) -> Iterator[None]:
    """Hold tables so that nobody writes to them, and nobody has in a transaction that is open. Driver errors pass."""
    if not names:
        yield
        return
    try:
        run(connection, f"LOCK TABLES {', '.join(f'{name} WRITE' for name in dict.fromkeys(names))}")
    except pymysql.err.Error as error:
        if error.args[0] in DENIED:
            raise _MayNotLock from None
        raise
    try:
        yield
    finally:
        if connection.open:
            run(connection, "UNLOCK TABLES")
