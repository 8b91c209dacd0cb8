"""Differences between the two databases of the demo's shops: errors, new ids, a few statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Deadlock, lock wait, changed since it was read: https://mariadb.com/kb/en/mariadb-error-code-reference/
COLLISIONS = frozenset({1213, 1205, 1020})


@dataclass(frozen=True)
class Words:
    """The words of one database. `insert` runs an INSERT with a cursor and returns the new row's id. `is_collision`:
    whether other sessions were in the way, or the row was refused, as happens in any shop. `utc` sets the session's
    clock."""

    driver_error: type[Exception]
    is_collision: Callable[[Exception], bool]
    insert: Callable[[Any, str, tuple[object, ...]], int]
    utc: str
    delete_oldest: str


def words_of(family: str) -> Words:
    return _of_postgresql() if family == "postgresql" else _of_mariadb()


def _of_mariadb() -> Words:
    import pymysql

    def is_collision(error: Exception) -> bool:
        return isinstance(error, pymysql.err.IntegrityError) or error.args[0] in COLLISIONS

    def insert(cursor: Any, sql: str, values: tuple[object, ...]) -> int:
        cursor.execute(sql, values)
        return int(cursor.lastrowid or 0)

    oldest = "DELETE FROM event_log ORDER BY happened LIMIT 20"
    return Words(pymysql.err.Error, is_collision, insert, "SET time_zone = '+00:00'", oldest)


def _of_postgresql() -> Words:
    import psycopg
    from psycopg import errors

    def is_collision(error: Exception) -> bool:
        return isinstance(error, psycopg.IntegrityError | errors.DeadlockDetected | errors.SerializationFailure)

    def insert(cursor: Any, sql: str, values: tuple[object, ...]) -> int:
        return int(cursor.execute(f"{sql} RETURNING id", values).fetchone()[0])

    oldest = "DELETE FROM event_log WHERE ctid IN (SELECT ctid FROM event_log ORDER BY happened LIMIT 20)"
    return Words(psycopg.Error, is_collision, insert, "SET timezone = 'UTC'", oldest)
