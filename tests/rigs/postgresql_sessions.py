"""Sessions of a PostgreSQL that hold something of the whole server: a replication origin, a slot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from anabranch.testing.databases import Database
from anabranch.testing.in_time import until


@contextmanager
def session_from(database: Database, origin: str) -> Iterator[psycopg.Connection[Any]]:
    """A session that writes what came from `origin`, as a subscription's worker does; the origin is made if there is none."""
    if not database.query("SELECT FROM pg_replication_origin WHERE roname = %s", [origin]):
        database.query("SELECT pg_replication_origin_create(%s)", [origin])
    with closing(database.connect(autocommit=False)) as connection:
        connection.execute("SELECT pg_replication_origin_session_setup(%s)", [origin])
        connection.commit()
        yield connection


def drop_origins(database: Database, pattern: str) -> None:
    """Drop the origins whose names are LIKE `pattern`, as soon as no session writes as one of them."""
    when_free(
        database, "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin WHERE roname LIKE %s", pattern
    )


def drop_slots(database: Database, pattern: str = "%") -> None:
    """Drop the slots of this database whose names are LIKE `pattern`, as soon as their readers, told to go, are gone."""
    ours = (
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s AND slot_name LIKE %s"
    )
    when_free(database, ours, database.name, pattern)


def when_free(database: Database, statement: str, *parameters: object) -> None:
    """Run it as soon as no session holds what it is about: a session that was closed lets go only when its server sees that."""

    def is_done() -> bool:
        try:
            database.query(statement, parameters)
        except psycopg.errors.ObjectInUse:
            return False
        return True

    until(is_done, f"somebody still holds it: {statement}")
