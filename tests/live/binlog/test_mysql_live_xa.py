"""XA transactions (K6): capture keeps the rows of prepared ones until the log says what became of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from anabranch import connectors
from anabranch.capture import begin, older
from anabranch.connectors.mysql.source import endings
from anabranch.connectors.mysql.source.positions import BinlogOrder
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import SourceError, UnknownLogEvent
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.log_items import LogDecided, LogPrepared
from anabranch.testing.databases import Database
from anabranch.testing.in_time import NotInTime
from anabranch.testing.servers import Server
from anabranch.trail import requests
from anabranch.trail.reader import TrailReader
from anabranch.trail.staging import staged
from rigs.mysql_capture import Captured

pytestmark = pytest.mark.every_server("XA in the log")
Make = Callable[[Server], Database]


@contextmanager
def xa(database: Database, name: str, *statements: str, before: str = "DO 0") -> Iterator[Callable[[str], None]]:
    """A connection with an XA transaction that has done `statements`; `do("PREPARE")` and so on end it."""
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for statement in (before, f"XA START '{name}','b',7", *statements, f"XA END '{name}','b',7"):
            cursor.execute(statement)
        yield lambda verb: cursor.execute(f"XA {verb.split()[0]} '{name}','b',7 {' '.join(verb.split()[1:])}")


def prepare(database: Database, name: str, *statements: str) -> None:
    """And leave: it stays at the server."""
    with xa(database, name, *statements) as do:
        do("PREPARE")


def end(database: Database, name: str, verb: str, *before: str) -> None:
    """MySQL lets a connection end it only when the one that prepared it is gone."""
    for _ in range(1800):
        try:
            database.execute(*before, f"XA {verb} '{name}','b',7")
            return
        except pymysql.err.MySQLError as error:
            assert "XAER_NOTA" in str(error), error
            time.sleep(0.1)
    raise NotInTime(f"{name} did not end")


def xid(name: str) -> str:
    return f"X'{name.encode().hex()}',X'62',7"


def made(database: Database, directory: Path) -> Captured:
    for name in ("t", "other"):
        database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v longtext)")
    captured = Captured(database, directory)
    captured.run()
    return captured


def insert(*ids: int, table: str = "t") -> str:
    return f"INSERT INTO {table} VALUES " + ", ".join(f"({id}, 'x')" for id in ids)


def test_pitfall_20_rule_06_rows_of_prepared_transactions_wait_for_their_commit(
    mysql_family: Server, source_database: Make, tmp_path: Path
) -> None:
    """Committed in another order than prepared, rolled back, in one phase, of another table only; capture is started again
    in every state."""
    database = source_database(mysql_family)
    captured = made(database, tmp_path)
    prepare(database, "a", insert(1, 2), "UPDATE t SET v = 'y' WHERE id = 2")
    prepare(database, "b", insert(3))
    prepare(database, "gone", insert(4))
    prepare(database, "foreign", insert(1, table="other"))
    database.execute(insert(5))
    captured.run()
    assert captured.staged() == {xid(name) for name in ("a", "b", "gone", "foreign")}
    assert captured.transactions() == [[5]]
    end(database, "b", "COMMIT")
    captured.run()
    assert captured.transactions() == [[5], [3]]
    end(database, "gone", "ROLLBACK")
    end(database, "a", "COMMIT")
    end(database, "foreign", "COMMIT")
    with xa(database, "one", insert(6)) as do:
        do("COMMIT ONE PHASE")
    with xa(database, "never", insert(7)) as do:
        do("ROLLBACK")
    prepare(database, "a", insert(8))  # an xid may come back
    database.execute(insert(9))
    end(database, "a", "COMMIT")
    captured.run()
    assert captured.transactions() == [[5], [3], [1, 2, 2, 2], [6], [9], [8]] and captured.staged() == set()
    rows = [t for chunk in captured.chunks() for t in chunk.transactions.to_pylist()]
    assert [t["rows"] for t in rows if t["rows"]] == [1, 1, 4, 1, 1, 1] and all(t["gtid"] for t in rows)
    places = [int(t["native"].rpartition(":")[2]) for t in rows]
    assert places == sorted(set(places)), "their place is that of the commit"


def test_rule_06_a_large_prepared_transaction_waits_in_fragments_also_compressed(
    mysql_family: Server, source_database: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "FULL_IMAGES", 100)
    database = source_database(mysql_family)
    captured = made(database, tmp_path)
    compressed = "SET binlog_transaction_compression = ON" if mysql_family.name == "mysql" else "DO 0"
    for place, name in enumerate(("large", "gone", "one")):
        first = 1000 * (place + 1)
        pieces = [insert(*range(first + n, first + n + 60)) for n in range(0, 360, 60)]
        with xa(database, name, *pieces, before=compressed) as do:
            do("COMMIT ONE PHASE" if name == "one" else "PREPARE")
    database.execute(insert(1))
    captured.run()
    assert captured.staged() == {xid("large"), xid("gone")}
    assert captured.transactions() == [list(range(3000, 3360)), [1]]
    end(database, "large", "COMMIT")
    end(database, "gone", "ROLLBACK")
    captured.run()
    assert captured.transactions()[2:] == [list(range(1000, 1360))] and captured.staged() == set()
    parts = [chunk.part for chunk in captured.chunks()]
    assert parts.count(Part.LAST) == 2 and parts.count(Part.FRAGMENT) >= 4


def test_rule_06_a_trail_waits_for_older_prepared_transactions_before_it_begins(
    mysql_family: Server, source_database: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older, "ASK_SECONDS", 0.05)
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v longtext)")
    prepare(database, "old", insert(1))
    captured = Captured(database, tmp_path, patience=0.3)
    with pytest.raises(SourceError, match="older than the log") as refused:
        captured.run()
    assert xid("old") in refused.value.message and "XA RECOVER" in refused.value.hint
    assert captured.waited and xid("old") in captured.waited[0]
    captured.run(until=lambda: True)
    with TrailReader(tmp_path) as trail:
        assert not trail.end().resume, "a load waits for this"
    began = time.monotonic()
    captured.patience = 200.0
    slept = lambda seconds: end(database, "old", "COMMIT")  # noqa: E731 - in the place of a function
    monkeypatch.setattr(older, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept))
    captured.run()
    captured.run()
    assert time.monotonic() - began < 180 and captured.transactions() == [] and captured.staged() == set()
    monkeypatch.undo()
    prepare(database, "new", insert(2))
    end(database, "new", "COMMIT")
    captured.run()
    assert captured.transactions() == [[2]]


def test_rule_06_a_trail_begins_while_transactions_are_prepared_and_committed(
    mysql_family: Server, source_database: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One prepared long before the start, one just before it; both are committed before the waiting begins."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v longtext)")
    prepare(database, "long", insert(1))
    read = begin.read_definitions

    def disturbed(*arguments: Any) -> begin.SourceDefinitions:
        monkeypatch.undo()
        prepare(database, "just", insert(2))
        found = read(*arguments)
        end(database, "long", "COMMIT")
        end(database, "just", "COMMIT")
        prepare(database, "after", insert(3))
        end(database, "after", "COMMIT")
        return found

    monkeypatch.setattr(begin, "read_definitions", disturbed)
    captured = Captured(database, tmp_path)
    captured.run()
    captured.run()
    assert captured.transactions() == [[3]] and captured.staged() == set()


def test_rule_06_a_commit_without_rows_stops_the_job(
    mysql_family: Server, source_database: Make, tmp_path: Path
) -> None:
    database = source_database(mysql_family)
    captured = made(database, tmp_path)
    prepare(database, "a", insert(1))
    captured.run()
    for file in (tmp_path / "staging").iterdir():
        file.unlink()
    end(database, "a", "COMMIT")
    with pytest.raises(UnknownLogEvent, match="does not have its rows") as stopped:
        captured.run()
    assert xid("a") in stopped.value.message and stopped.value.position and "load again" in stopped.value.hint


def test_rule_06_19_tables_parked_and_brought_in_between_prepare_and_commit(
    mysql_family: Server, source_database: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a table was at the commit decides; one whose rows were left out joins when the transaction has ended."""
    database = source_database(mysql_family)
    captured = made(database, tmp_path)
    database.execute(
        "CREATE TABLE child (id int PRIMARY KEY, v longtext)", "CREATE TABLE later (id int PRIMARY KEY, v int)"
    )
    t, later = TableId(database.name, "t"), TableId(database.name, "later")
    captured.run()  # `child` and `later` came after the start: parked
    prepare(database, "both", insert(1), insert(1, table="child"), "INSERT INTO later VALUES (1, 1)")
    prepare(database, "same", insert(2))
    captured.run()
    assert {one.left_out for one in staged(tmp_path)} == {(f"{database.name}.child", str(later)), ()}
    for table in (later, t):  # t is brought in again, with what is prepared still open
        requests.request_table(tmp_path, table)
    captured.run(until=lambda: not requests.answer(tmp_path, t).is_pending)
    assert requests.answer(tmp_path, later).is_pending and requests.answer(tmp_path, t).sequence
    database.execute(insert(3), "INSERT INTO later VALUES (7, 7)")
    end(database, "both", "COMMIT")
    end(database, "same", "COMMIT")
    captured.run(until=lambda: not requests.answer(tmp_path, later).is_pending)
    assert requests.answer(tmp_path, later).sequence
    assert captured.transactions() == [[3], [1], [2]], "rows of `later` are for its load, which sees them"
    with TrailReader(tmp_path) as trail:
        assert trail.history.latest(t).version == 2
    versions = [rows.version for chunk in captured.chunks() for rows in chunk.tables]
    assert versions == [2, 2, 2]
    prepare(database, "later", "INSERT INTO later VALUES (8, 8)")
    prepare(database, "child", insert(2, table="child"))
    captured.patience = 0.3
    requests.request_table(tmp_path, TableId(database.name, "child"))
    captured.run(until=lambda: not requests.answer(tmp_path, TableId(database.name, "child")).is_pending)
    refused = requests.answer(tmp_path, TableId(database.name, "child"))
    assert xid("child") in refused.refusal
    end(database, "later", "COMMIT")
    end(database, "child", "ROLLBACK")
    captured.run()
    assert captured.transactions()[3:] == [[8]]


def test_rule_06_a_transaction_that_ended_without_the_log_does_not_hold_up_a_table(
    mysql_family: Server, source_database: Make, tmp_path: Path
) -> None:
    database = source_database(mysql_family)
    captured = made(database, tmp_path)
    database.execute("CREATE TABLE child (id int PRIMARY KEY, v longtext)")
    prepare(database, "child", insert(1, table="child"))
    captured.run()
    end(database, "child", "COMMIT", "SET SESSION sql_log_bin = 0")
    captured.patience = 0.3
    child = TableId(database.name, "child")
    requests.request_table(tmp_path, child)
    captured.run(until=lambda: not requests.answer(tmp_path, child).is_pending)
    assert requests.answer(tmp_path, child).sequence and captured.staged() == set()


def test_rule_06_the_log_says_prepared_and_decided(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    """What a reader gives, by itself: each once, with marks that a restart goes on from."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v longtext)")
    follower = follow(database)
    follower.begin()
    database.execute(insert(1))
    prepare(database, "a", insert(2))
    database.execute(insert(3))
    end(database, "a", "COMMIT")
    prepare(database, "b", "DELETE FROM t WHERE id = 1")
    end(database, "b", "ROLLBACK")
    items = follower.take()
    kinds = [type(item) for item in items if not isinstance(item, Chunk)]
    assert kinds == [LogPrepared, LogDecided, LogPrepared, LogDecided]
    first, committed, second, rolled_back = (item for item in items if not isinstance(item, Chunk))
    assert (first.xid, committed.xid, second.xid, rolled_back.xid) == (xid("a"), xid("a"), xid("b"), xid("b"))
    assert committed.is_committed and not rolled_back.is_committed and committed.gtid
    assert [follower.images("t", [item.chunk])[0]["id"] for item in (first, second)] == [2, 1]
    for place, item in enumerate(items):
        again = follow(database)
        again.tables = follower.tables
        again.begin(type(follower.end)("", item.resume) if isinstance(item, Chunk) else item.mark)
        rest = again.take()
        assert [getattr(one, "xid", None) for one in rest] == [getattr(one, "xid", None) for one in items[place + 1 :]]
        again.stop()


def test_rule_02_06_a_snapshot_has_every_xa_commit_before_its_place(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    """MariaDB's own word is past an XA COMMIT before the engine has committed it; one that stays undecided holds nothing up."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v longtext)")
    follower = follow(database)
    follower.begin()
    table, source = follower.schema("t"), connectors.source(follower.endpoint)
    seen: list[tuple] = []

    def look() -> None:
        with closing(source.snapshot()) as snapshot:
            low, _ = snapshot.open(table, "none")
            seen.append((low, set(map(int, b"".join(snapshot.lines(table, ["id"], Bounds(), ValueRules())).split()))))

    with writing(database):
        until = time.monotonic() + 2
        while time.monotonic() < until or len(seen) <= 5 or database.query("SELECT count(*) FROM t")[0][0] < 60:
            look()
    with xa(database, "undecided", insert(1)) as do:
        do("PREPARE")
        began = time.monotonic()
        look()
        assert time.monotonic() - began < 60
        do("ROLLBACK")
    ids, committed = {}, {}
    for item in follower.take():
        if isinstance(item, LogPrepared):
            ids[item.xid] = follower.images("t", [item.chunk])[0]["id"]
        elif isinstance(item, LogDecided) and item.is_committed:
            committed[ids[item.xid]] = (item.mark.native, item.gtid)
    includes = BinlogOrder().includes
    missing = [{id for id, place in committed.items() if includes(low, *place)} - there for low, there in seen]
    assert len(committed) > 50 and len(seen) > 5 and not any(missing)
    assert includes(seen[-1][0], *list(committed.values())[-1]), "low goes along"


@contextmanager
def writing(database: Database) -> Iterator[None]:
    """Four connections that prepare and commit one transaction after the other."""
    over = threading.Event()

    def write(number: int) -> None:
        with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
            while not over.is_set():
                name, number = f"'w{number}','b',7", number + 1
                for statement in (f"START {name}", "", f"END {name}", f"PREPARE {name}", f"COMMIT {name}"):
                    cursor.execute(f"XA {statement}" if statement else insert(number))

    writers = [threading.Thread(target=write, args=(1_000_000 * place,)) for place in range(1, 5)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        over.set()
        for writer in writers:
            writer.join()
