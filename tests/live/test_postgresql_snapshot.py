"""Snapshots of a PostgreSQL that is the source: which of the log's transactions they have."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.catalog import STILL
from anabranch.connectors.postgresql.source.pgoutput import Begin, Commit
from anabranch.contracts import Bounds, ValueRules
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_slot import Slot

RULES = ValueRules()
ITEM = TableId("public", "item")


@pytest.fixture
def database(postgresql_source: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    made = create_database(postgresql_source, request.node.name[:40])
    yield made
    drop_database(made)


def ids(reader: Any, schema: Any) -> set[int]:
    blocks = b"".join(reader.lines(schema, ["id"], Bounds(), RULES))
    return set(map(int, blocks.split()))


def test_rule_14_a_snapshot_says_of_every_transaction_whether_it_has_it(slot: Callable[..., Slot]) -> None:
    """Under sessions that write all the time, with savepoints and rollbacks."""
    log = slot()
    database = log.database
    database.execute("CREATE TABLE item (id int PRIMARY KEY)")
    connector = source(endpoint_of(database))
    with closing(connector.catalog()) as catalog:
        schema = catalog.tables(lambda table: True)[ITEM]
    stop = threading.Event()
    writers = [threading.Thread(target=_write, args=(database, number, stop)) for number in range(4)]
    for writer in writers:
        writer.start()
    found = []
    while len(found) < 25 or database.query("SELECT count(*) FROM item")[0][0] < 500:
        with closing(connector.snapshot()) as reader:
            low, high = reader.open(schema, "none")
            assert low == high
            found.append((low, ids(reader, schema)))
    stop.set()
    for writer in writers:
        writer.join(180)
    by_transaction: dict[tuple[str, str], set[int]] = {}
    messages = log.take()
    xid, rows = 0, set[int]()
    for message in messages:
        if message[0] == ord("I"):
            rows.add(int(message[13:].decode()))
            continue
        item = next(log.items([message]))[0]
        if isinstance(item, Begin):
            xid, rows = item.xid, set()
        elif isinstance(item, Commit):
            by_transaction[f"{item.end >> 32:X}/{item.end & 0xFFFFFFFF:X}", str(xid)] = rows
    assert len(by_transaction) > 100
    for mark, seen in found:
        told = [rows for (native, gtid), rows in by_transaction.items() if connector.order.includes(mark, native, gtid)]
        assert set().union(*told) == seen


def _write(database: Database, session: int, stop: threading.Event) -> None:
    with closing(database.connect(autocommit=False)) as connection:
        number = session * 1_000_000
        while not stop.is_set():
            for _ in range(3):
                number += 1
                connection.execute("SAVEPOINT s")
                connection.execute(f"INSERT INTO item VALUES ({number})")
                if number % 5 == 0:
                    connection.execute("ROLLBACK TO SAVEPOINT s")
            connection.rollback() if number % 7 == 0 else connection.commit()


def test_bounds_are_in_the_order_of_the_key(database: Database) -> None:
    """Not in that of its text."""
    database.execute(
        "CREATE TABLE item (n int, nn text, PRIMARY KEY (n, nn))",
        "INSERT INTO item SELECT g, 'n' FROM generate_series(-50, 1200, 7) g",
    )
    connector = source(endpoint_of(database))
    with closing(connector.catalog()) as catalog:
        schema = catalog.tables(lambda table: True)[ITEM]
    with closing(connector.snapshot()) as reader:
        bounds = reader.bounds(schema, 10)
        uppers = [int(one.upper[0]) for one in bounds if one.upper]
        assert uppers == sorted(uppers) and len(bounds) == 18
        reader.open(schema, "none")
        found = [line for one in bounds for line in b"".join(reader.lines(schema, ["n"], one, RULES)).split()]
    assert sorted(map(int, found)) == list(range(-50, 1200, 7))


@pytest.mark.parametrize(("rows", "pieces"), [(0, 1), (9, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_no_piece_is_empty(database: Database, rows: int, pieces: int) -> None:
    database.execute(
        'CREATE TABLE item (id varchar(9) COLLATE "C" PRIMARY KEY)',
        f"INSERT INTO item SELECT g FROM generate_series(1, {rows}) g",
    )
    connector = source(endpoint_of(database))
    with closing(connector.catalog()) as catalog:
        schema = catalog.tables(lambda table: True)[ITEM]
    with closing(connector.snapshot()) as reader:
        bounds = reader.bounds(schema, 10)
        reader.open(schema, "none")
        found = [b"".join(reader.lines(schema, ["id"], one, RULES)).count(b"\n") for one in bounds]
    assert found == [10] * (pieces - 1) + [rows - 10 * (pieces - 1)]


def test_rule_14_several_read_in_one_snapshot(database: Database) -> None:
    """Not where it is gone, or cannot show the table as it was."""
    database.execute("CREATE TABLE item (id int)", "INSERT INTO item SELECT generate_series(1, 100)")
    database.execute("CREATE TABLE other (id int)")
    connector = source(endpoint_of(database))
    with closing(connector.catalog()) as catalog:
        tables = catalog.tables(lambda table: True)
    schema, other = tables[ITEM], tables[TableId("public", "other")]
    with closing(connector.snapshot()) as sharer:
        shared = sharer.share([schema])
        database.execute("DELETE FROM item WHERE id > 50", "INSERT INTO item VALUES (1000)")
        marks = []
        for _ in range(2):
            with closing(connector.snapshot()) as reader:
                marks.append(reader.open_shared(schema, shared))
                assert ids(reader, schema) == set(range(1, 101))
        assert marks[0] == marks[1] and connector.order.is_set(marks[0])
        with closing(connector.snapshot()) as reader:
            assert reader.open_shared(other, shared) is None
            database.execute("SET lock_timeout = '120s'", "TRUNCATE item")  # nobody keeps a lock
            assert reader.open_shared(schema, shared) is None
            reader.open(schema, "none")
            assert ids(reader, schema) == set()
    database.execute("INSERT INTO item VALUES (1)")
    with closing(connector.snapshot()) as reader:
        assert reader.open_shared(schema, shared) is None
        reader.open(schema, "none")
        assert ids(reader, schema) == {1}


def test_rule_14_a_truncate_waits_for_a_snapshot_that_is_open(database: Database) -> None:
    """A snapshot that is older than a TRUNCATE would find the table empty."""
    database.execute("CREATE TABLE item (id int)", "INSERT INTO item SELECT generate_series(1, 100)")
    connector = source(endpoint_of(database))
    with closing(connector.catalog()) as catalog:
        schema = catalog.tables(lambda table: True)[ITEM]
    with closing(connector.snapshot()) as reader:
        reader.open(schema, "none")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            database.execute("SET lock_timeout = '200ms'", "TRUNCATE item")
        assert len(ids(reader, schema)) == 100
    database.execute("TRUNCATE item")


def test_rule_14_a_commit_that_waits_for_a_standby_is_waited_for(database: Database) -> None:
    """It is logged and not seen: a trail that began behind it would not have it, nor would a snapshot."""
    database.execute("CREATE TABLE item (id int)")
    connector = source(endpoint_of(database))
    waiting = database.connect()
    waiting.execute("SET synchronous_commit = on")
    database.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        enough = threading.Event()
        thread = threading.Thread(target=lambda: _insert_until(enough, waiting))
        with closing(connector.catalog()) as catalog:
            thread.start()
            _until(lambda: database.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
            enough.set()
            mark = catalog.mark()
            first = catalog.unseen(mark)
            assert len(first) == 1
            time.sleep(STILL + 0.5)  # longer than a commit takes without a standby
            assert catalog.unseen(mark) == first
            database.execute("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
            thread.join(180)
            _until(lambda: not catalog.unseen(mark))
    finally:
        database.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        waiting.close()


def _insert_until(enough: threading.Event, connection: Any) -> None:
    """Commits until one waits: the server asks for its standby some time after it was told to read its settings."""
    while not enough.is_set():
        connection.execute("INSERT INTO item VALUES (1)")
        enough.wait(0.01)


def _until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 180
    while not condition():
        in_time(until)
        time.sleep(0.05)
