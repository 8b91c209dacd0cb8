"""Differences between the two databases of the demo's shops: errors, new ids, a few statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

# Deadlock, lock wait, changed since it was read: https://mariadb.com/kb/en/mariadb-error-code-reference/
COLLISIONS = frozenset({1213, 1205, 1020})
READ_ONLY = frozenset({1290, 1836})  # --read-only, running in read-only mode
INTERESTS = ("garden", "kitchen", "sport", "books", "music")


@dataclass(frozen=True)
class Words:
    """The words of one database. `insert` runs an INSERT with a cursor and returns the new row's id. `is_collision`:
    whether other sessions were in the way, or the row was refused, as happens in any shop. `utc` sets the session's
    clock. `is_fenced`: whether the database takes no writes, because its job is being cut over."""

    driver_error: type[Exception]
    is_collision: Callable[[Exception], bool]
    is_fenced: Callable[[Exception], bool]
    insert: Callable[[Any, str, tuple[object, ...]], int]
    utc: str
    delete_oldest: str
    interests: Callable[[int], object] = lambda number: number  # of a customer, as the column takes them
    flags: Callable[[int], object] = lambda number: number
    other_newsletter: str = "NOT is_newsletter"


def words_of(family: str) -> Words:
    return _of_postgresql() if family == "postgresql" else _of_mariadb()


def words_at_target(family: str) -> Words:
    """Return the words for the tables that a job has made of a MariaDB's: a PostgreSQL has other types there than in a shop of
    its own."""
    if family != "postgresql":
        return words_of(family)

    def interests(number: int) -> str:
        return ",".join(name for place, name in enumerate(INTERESTS) if number >> place & 1)

    def flags(number: int) -> str:
        return f"{number:08b}"

    return replace(_of_postgresql(), interests=interests, flags=flags, other_newsletter="1 - is_newsletter")


def _of_mariadb() -> Words:
    import pymysql

    def is_collision(error: Exception) -> bool:
        return isinstance(error, pymysql.err.IntegrityError) or error.args[0] in COLLISIONS

    def insert(cursor: Any, sql: str, values: tuple[object, ...]) -> int:
        cursor.execute(sql, values)
        return int(cursor.lastrowid or 0)

    def is_fenced(error: Exception) -> bool:
        return error.args[0] in READ_ONLY

    oldest = "DELETE FROM event_log ORDER BY happened LIMIT 20"
    return Words(pymysql.err.Error, is_collision, is_fenced, insert, "SET time_zone = '+00:00'", oldest)


def _of_postgresql() -> Words:
    import psycopg
    from psycopg import errors

    def is_collision(error: Exception) -> bool:
        return isinstance(error, psycopg.IntegrityError | errors.DeadlockDetected | errors.SerializationFailure)

    def insert(cursor: Any, sql: str, values: tuple[object, ...]) -> int:
        return int(cursor.execute(f"{sql} RETURNING id", values).fetchone()[0])

    def is_fenced(error: Exception) -> bool:
        return isinstance(error, errors.ReadOnlySqlTransaction)

    oldest = "DELETE FROM event_log WHERE ctid IN (SELECT ctid FROM event_log ORDER BY happened LIMIT 20)"
    return Words(psycopg.Error, is_collision, is_fenced, insert, "SET timezone = 'UTC'", oldest)
