"""Tables that are dropped while the source's tables are read: others are told of, and nobody stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from anabranch.connectors.postgresql.source.definitions import Definitions
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server

READS = 15
CHURN = (
    "CREATE TABLE gone (id int, v int DEFAULT 1 + 1, CHECK (v > 0), UNIQUE (id)) PARTITION BY RANGE (id)",
    "CREATE TABLE gone_0 PARTITION OF gone FOR VALUES FROM (0) TO (10)",
    "CREATE INDEX ON gone ((v + 1))",
    "DROP TABLE gone",
)
KEPT = TableId("public", "kept")


@pytest.fixture
def database(postgresql: Server) -> Iterator[Database]:
    made = create_database(postgresql, "dropped")
    made.execute("CREATE TABLE kept (id int PRIMARY KEY, v int CHECK (v > 0))", "CREATE INDEX ON kept ((v + 1))")
    yield made
    drop_database(made)


@contextmanager
def made_and_dropped_again(database: Database) -> Iterator[list[int]]:
    """How often, so far."""
    times, done = [0], threading.Event()

    def go_on() -> None:
        with closing(database.connect()) as connection:
            while not done.is_set():
                for statement in CHURN:
                    connection.execute(statement)
                times[0] += 1
                time.sleep(0.01)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield times
    finally:
        done.set()
        thread.join()


def test_tables_that_are_dropped_meanwhile_hide_no_others_and_stop_nobody(database: Database) -> None:
    with made_and_dropped_again(database) as times, closing(database.connect()) as connection:
        read = 0
        while read < READS or times[0] < READS:
            assert KEPT in Definitions(connection).names()
            (kept,) = (
                schema for table, schema in Definitions(connection).tables(lambda _: True).items() if table == KEPT
            )
            assert kept.primary_key == ("id",) and len(kept.indexes) == 1 and len(kept.checks) == 1
            read += 1
