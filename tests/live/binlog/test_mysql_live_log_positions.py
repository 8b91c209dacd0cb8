"""Where the log may be entered again, and where that is refused: purged, reset, restored, another server (K18)."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pymysql
import pytest

from anabranch.connectors.mysql.connection import connect
from anabranch.connectors.mysql.source import capture, endings
from anabranch.connectors.mysql.source.assemble import Assembler
from anabranch.connectors.mysql.source.binlog import XID
from anabranch.connectors.mysql.source.capture import BinlogReader
from anabranch.connectors.mysql.source.dump import Dump
from anabranch.connectors.mysql.source.positions import BinlogOrder, place_of
from anabranch.contracts import LogOptions
from anabranch.errors import LogLost, SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Part
from anabranch.rows.log_items import LogAbandoned
from anabranch.testing.databases import Database, create_database, unique_name
from anabranch.testing.in_time import in_time, until
from anabranch.testing.servers import Server, start_mariadb, start_mysql

START = {"mariadb": start_mariadb, "mysql": start_mysql, "mysql56": partial(start_mysql, release="5.6")}
RESET = "RESET MASTER"


@pytest.fixture(scope="module", params=["mariadb", "mysql", pytest.param("mysql56", marks=pytest.mark.servers)])
def own_server(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[Server]:
    """A server of this file alone: its log is purged and reset."""
    server = START[request.param](servers_directory / unique_name(f"own-{request.param}"))
    yield server
    server.stop(immediate=True)


def prepared(server: Server) -> Database:
    database = create_database(server, "log")
    database.execute("CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, v varchar(20))")
    return database


def insert(database: Database, count: int = 1) -> None:
    database.execute(*["INSERT INTO t (v) VALUES ('x')"] * count)


def ids(follower) -> list[int]:
    return [image["id"] for image in follower.images("t")]


def test_pitfall_26_a_purged_log_is_refused(own_server: Server, follow: Callable) -> None:
    database = prepared(own_server)
    follower = follow(database)
    mark = follower.begin()
    follower.stop()
    insert(database)
    database.execute("FLUSH BINARY LOGS")
    newest = database.query("SHOW BINARY LOGS")[-1][0]
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:

        def is_purged() -> bool:  # the server lets go of a file some moments after its reader
            cursor.execute(f"PURGE BINARY LOGS TO '{newest}'")
            return len(database.query("SHOW BINARY LOGS")) == 1

        until(is_purged, "all files but the newest are purged")
    with pytest.raises(LogLost) as lost:
        follower.begin(mark)
    assert mark.native in str(lost.value) and newest in str(lost.value)


def test_pitfall_26_a_reset_log_is_refused(own_server: Server, follow: Callable) -> None:
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database, 3)
    follower.take()
    mark = follower.mark
    follower.stop()
    database.execute(RESET)
    with pytest.raises(LogLost):
        follower.begin(mark)


def test_pitfall_26_a_log_that_was_reset_and_grew_again_is_refused(own_server: Server, follow: Callable) -> None:
    database = prepared(own_server)
    database.execute(RESET)
    follower = follow(database)
    follower.begin()
    insert(database, 3)
    follower.take()
    mark = follower.mark
    follower.stop()
    time.sleep(1.1)  # a file's birth is told in seconds
    database.execute(RESET)
    insert(database, 50)
    with pytest.raises(LogLost) as lost:
        follower.begin(mark)
        follower.take()
    assert "reset" in str(lost.value) or "restored" in str(lost.value)


@pytest.mark.parametrize("grown", [0, 50])
@pytest.mark.one_case("mariadb-0", "mysql-50")
def test_pitfall_26_a_log_that_is_reset_under_its_reader_is_refused(
    own_server: Server, follow: Callable, monkeypatch: pytest.MonkeyPatch, grown: int
) -> None:
    """The server sends heartbeats from the end of the file that it has removed; the new one is shorter, or longer."""
    monkeypatch.setattr(capture, "STILL", 0.4)
    database = prepared(own_server)
    database.execute(RESET)
    follower = follow(database)
    follower.begin()
    insert(database, 3)
    follower.take()
    time.sleep(1.1)
    database.execute(RESET)
    insert(database, grown)
    with pytest.raises(LogLost) as lost:
        try:
            for _ in range(900):
                follower.reader.read(0.2)
        except SourceUnavailable:  # MariaDB ends the stream of a file whose successor of the same name is longer
            follower.begin(follower.mark)
            follower.take()
    assert lost.value.position


def test_mysql_live_a_quiet_log_is_not_opened_again(
    own_server: Server, follow: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "STILL", 0.1)
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database)
    follower.take()
    dump = follower.reader._dump
    for _ in range(10):
        follower.reader.read(0.2)
    assert follower.reader._dump is dump
    insert(database)
    follower.take()
    assert ids(follower) == [1, 2]


def test_pitfall_26_a_log_that_ends_before_the_trail_is_refused(own_server: Server, follow: Callable) -> None:
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database)
    follower.take()
    place = place_of(follower.mark.resume)
    with pytest.raises(LogLost, match="restored or has lost its tail"):
        follower.begin(replace(place, offset=place.offset + 100_000).mark())


def test_rule_18_another_server_without_our_transactions_is_refused(own_server: Server, follow: Callable) -> None:
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database)
    follower.take()
    place = place_of(follower.mark.resume)
    foreign = "9-9-99" if place.family == "mariadb" else "00000000-0000-0000-0000-00000000abcd:1-7"
    with pytest.raises(LogLost) as lost:
        follower.begin(replace(place, identity="the-old-server", gtid=f"{place.gtid},{foreign}").mark())
    assert "the-old-server" in str(lost.value) and follower.reader.identity() in str(lost.value)
    assert foreign in str(lost.value)
    with pytest.raises(LogLost, match="no GTIDs"):
        follower.begin(replace(place, identity="the-old-server", gtid="").mark())


def test_rule_18_a_server_that_contains_everything_is_continued_by_gtid(own_server: Server, follow: Callable) -> None:
    """The log itself as it would be on a promoted replica: entered by the set, nothing twice, nothing left out."""
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database, 5)
    follower.take()
    place = place_of(follower.mark.resume)
    insert(database, 2)
    database.execute("FLUSH BINARY LOGS")
    insert(database, 2)
    seen = ids(follower)
    follower.begin(replace(place, identity="the-old-server", file="binlog.000001", offset=4).mark())
    follower.take()
    assert ids(follower) == [*seen, 6, 7, 8, 9]
    here = place_of(follower.mark.resume)
    assert here.identity == follower.reader.identity() and not here.by_gtid
    follower.begin(follower.mark)
    insert(database)
    follower.take()
    assert ids(follower)[-2:] == [9, 10]


def test_rule_18_before_its_first_transaction_a_switched_log_goes_on_again(
    own_server: Server, follow: Callable
) -> None:
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database, 5)
    follower.take()
    place = place_of(follower.mark.resume)
    end = place_of(follower.reader.end().resume)
    reader = follower.begin(replace(place, identity="the-old-server", file="binlog.000099").mark()) and follower.reader
    deadline = time.monotonic() + 2
    mark = None
    while time.monotonic() < deadline or (mark is None and time.monotonic() < deadline + 180):
        mark = getattr(reader.read(0.2), "mark", mark)
    assert mark is not None
    here = place_of(mark.resume)
    assert here.by_gtid or (here.file, here.offset) == (end.file, end.offset)
    follower.begin(mark)
    insert(database)
    assert follower.take() and ids(follower)[-1] == 6 and ids(follower).count(5) == 1


def test_mysql_live_a_restart_of_the_source_is_survived(own_server: Server, follow: Callable) -> None:
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database)
    follower.take()
    own_server.kill()
    with pytest.raises((SourceUnavailable, SourceError)) as lost:
        for _ in range(1800):
            follower.reader.read(0.1)
    assert isinstance(lost.value, SourceUnavailable)
    with pytest.raises(SourceUnavailable):
        follower.reader.end()
    with pytest.raises(SourceUnavailable):
        follower.begin(follower.mark)
    own_server.start()
    insert(database)
    follower.begin(follower.mark)
    follower.take()
    assert ids(follower) == [1, 2]


def events(log: bytes) -> Iterator[tuple[int, int]]:
    """Offset and type of every event of a log file."""
    at = 4
    while at < len(log):
        yield at, log[at + 4]
        at += int.from_bytes(log[at + 9 : at + 13], "little")


def end_dumps(database: Database) -> None:
    """End what still sends the log to readers that are gone: a MySQL that stops waits ten seconds for it, at full speed."""
    sends = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    for (session,) in database.query(sends):
        with suppress(pymysql.err.OperationalError):  # it has ended by itself
            database.execute(f"KILL {session}")
    until(lambda: not database.query(sends), "the log is sent to nobody")


@pytest.mark.parametrize("full", [2, 1000])
@pytest.mark.one_case("mysql-2", "mariadb-1000")
def test_pitfall_18_a_transaction_that_the_server_died_in_is_taken_back(
    own_server: Server, follow: Callable, monkeypatch: pytest.MonkeyPatch, full: int
) -> None:
    """Its log has no end of it, and the next file begins: also for a reader that has given fragments already. The file is
    cut here where a crash leaves it."""
    monkeypatch.setattr(endings, "FULL_IMAGES", full)
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database)
    follower.take()
    mark, (file, *_) = follower.mark, database.query("SHOW BINARY LOGS")[-1]
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        for _ in range(5):
            cursor.execute("INSERT INTO t (v) VALUES ('never'), ('never')")
        connection.commit()
    follower.stop()
    end_dumps(database)
    own_server.stop()
    path = own_server.datadir / file
    log = path.read_bytes()
    end = max(at for at, kind in events(log) if kind == XID)
    path.write_bytes(log[:end])
    own_server.start()
    database.execute("INSERT INTO t (id, v) VALUES (77, 'after')")
    follower.begin(mark)
    items = follower.take()
    abandoned = [place for place, item in enumerate(items) if isinstance(item, LogAbandoned)]
    assert len(abandoned) == (1 if full == 2 else 0)
    fragments = items[: abandoned[0]] if abandoned else []
    whole = items[len(fragments) + len(abandoned) :]
    assert [image["id"] for image in follower.images("t", whole)] == [77]
    assert all(item.part is Part.FRAGMENT for item in fragments)
    for place in abandoned:
        follower.begin(items[place].mark)
        assert [image["id"] for image in follower.images("t", follower.take())] == [77]


@pytest.mark.long
def test_pitfall_25_26_files_beyond_999999_and_a_server_restored_from_a_copy_of_its_files(
    own_server: Server, follow: Callable, tmp_path: Path
) -> None:
    """Names of files have no order as text. The restored server begins a file of the same name and grows beyond the place
    that was read; its GTIDs, too, are used a second time."""
    database = prepared(own_server)
    database.execute(RESET)
    insert(database)
    follower = follow(database)
    follower.begin()
    follower.stop()
    place = place_of(follower.mark.resume)
    own_server.stop()
    data = own_server.datadir
    index = next(data.glob("*bin*.index"))
    (data / place.file).rename(data / "binlog.999999")
    index.write_text(index.read_text().replace(place.file, "binlog.999999"))
    subprocess.run(["cp", "-a", data, tmp_path / "copy"], check=True)
    own_server.start()
    insert(database, 3)
    follower.begin(replace(place, file="binlog.999999").mark())
    follower.take()
    mark = follower.mark
    assert ids(follower) == [2, 3, 4] and place_of(mark.resume).file == "binlog.1000000"
    insert(database)
    follower.begin(mark)
    assert BinlogOrder().includes(follower.mark, "binlog.999999:4000", None)
    follower.take()
    assert ids(follower) == [2, 3, 4, 5]
    follower.stop()
    own_server.stop(immediate=True)
    shutil.rmtree(data)
    subprocess.run(["cp", "-a", tmp_path / "copy", data], check=True)
    time.sleep(1.1)  # a file tells the second in which it was begun
    own_server.start()
    with pytest.raises(LogLost):
        follower.begin(follower.mark)
        follower.take()
    insert(database, 60)
    assert place_of(follower.reader.end().resume).file == "binlog.1000000"
    for lost_place in (mark, follower.mark):
        with pytest.raises(LogLost) as lost:
            follower.begin(lost_place)
            follower.take()
        assert lost.value.position and "load again" in lost.value.hint


@pytest.mark.every_server("replicas of one id")
def test_mysql_live_the_same_server_id_comes_back_at_once(own_server: Server, follow: Callable) -> None:
    """A reader whose machine is gone leaves a connection behind: the next one takes its place, and it is told why."""
    database = prepared(own_server)
    first, second = follow(database), follow(database)
    second.server_id = first.server_id
    mark = first.begin()
    insert(database)
    second.begin(mark)
    second.take()
    assert ids(second) == [1]
    with pytest.raises(SourceError, match="server_id") as told:
        for _ in range(2400):
            first.reader.read(0.1)
    assert "[source.options] server_id" in told.value.hint


def test_mysql_live_a_log_without_checksums(own_server: Server, follow: Callable) -> None:
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database)
    database.execute("SET GLOBAL binlog_checksum = 'NONE'")
    try:
        insert(database)
        follower.take()
        follower.begin(follower.mark)
        insert(database)
        follower.take()
    finally:
        database.execute("SET GLOBAL binlog_checksum = 'CRC32'")
    insert(database)
    follower.take()
    follower.begin(follower.mark)
    insert(database)
    follower.take()
    assert ids(follower) == [1, 2, 3, 4, 5]


def test_mysql_live_files_that_are_farther_than_32_bits(own_server: Server, follow: Callable) -> None:
    """The offset is skipped to from the file's beginning; here with an ordinary one."""
    database = prepared(own_server)
    follower = follow(database)
    follower.begin()
    insert(database, 3)
    follower.take()
    place = place_of(follower.mark.resume)
    insert(database, 2)
    database.execute("FLUSH BINARY LOGS")
    insert(database, 2)
    end = follower.reader.end()
    follower.stop()
    dump = Dump(follower.endpoint, 77099, replace(place, offset=4))
    assembler = Assembler(place, follower.tables.get, follower.rules, skip_to=place.offset)
    deadline = time.monotonic() + 180
    while not BinlogOrder().includes(assembler.mark(), end.native, None):
        in_time(deadline, "the reader did not come to the log's end")
        assert BinlogOrder().includes(assembler.mark(), str(place), None), "marks never go back"
        block = dump.receive(0.2)
        if block:
            assembler.feed(block)
            assembler.advance()
    dump.close()
    assembler.flush()
    assert [image["id"] for image in follower.images("t", list(assembler.ready))] == [4, 5, 6, 7]


def test_mysql_live_log_over_tls(
    mysql: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v longtext)")
    follower = follow(database)
    follower.tables = follower.definitions()
    endpoint = Endpoint("mysql", mysql.host, mysql.port, mysql.user, mysql.password, "", (("ssl_mode", "required"),))
    with closing(connect(endpoint)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        assert cursor.fetchone()[1]
    follower.reader = BinlogReader(endpoint, LogOptions(77098, 1.0))
    follower.mark = follower.reader.end()
    follower.reader.start(follower.mark, follower.tables.get)
    follower.run(*(f"INSERT INTO t VALUES ({n}, repeat('y', {n * 10000}))" for n in range(100)))
    assert ids(follower) == list(range(100))
    assert [len(image["v"]) for image in follower.images("t")] == [n * 10000 for n in range(100)]


def test_rule_18_without_gtids_file_and_offset_decide(mysql_without_gtids: Server, follow: Callable) -> None:
    database = prepared(mysql_without_gtids)
    database.execute(RESET)
    follower = follow(database)
    follower.begin()
    insert(database, 2)
    follower.take()
    transactions = [t for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]
    assert [t["gtid"] for t in transactions] == [None, None]
    assert place_of(follower.mark.resume).gtid == ""
    mark = follower.mark
    insert(database)
    follower.begin(mark)
    follower.take()
    assert ids(follower) == [1, 2, 3]
    place = place_of(mark.resume)
    with pytest.raises(LogLost, match="no GTIDs"):
        follower.begin(replace(place, identity="other").mark())
    follower.stop()
    time.sleep(1.1)
    database.execute(RESET)
    insert(database, 30)
    with pytest.raises(LogLost, match="reset"):
        follower.begin(LogMark(mark.native, mark.resume))
        follower.take()


def test_rule_18_a_switched_log_in_another_order_gives_nothing_twice(
    mysql: Server, source_database: Callable, follow: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new server has committed 3 before 2, which the trail has: wherever it is entered again, 2 does not come."""
    database, given = source_database(mysql), str(uuid4())
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    follower = follow(database)
    place = place_of(follower.begin().resume)
    for number in (1, 3, 4, 2):
        database.execute(f"SET GTID_NEXT = '{given}:{number}'", f"INSERT INTO t VALUES ({number})")
    place = replace(place, identity="the-old-server", file="binlog.000001", offset=4, gtid=f"{place.gtid},{given}:1-2")
    monkeypatch.setattr(endings, "FULL_IMAGES", 1)  # a chunk each
    follower.begin(place.mark())
    follower.take()
    assert ids(follower) == [3, 4]
    marks = [LogMark("", chunk.resume) for chunk in follower.chunks() if chunk.part is not Part.FRAGMENT]
    for mark, rest in zip([place.mark(), *marks, follower.mark], ([3, 4], [4], [], []), strict=True):
        again = follow(database)
        again.tables = follower.tables
        again.begin(mark)
        again.take()
        assert ids(again) == rest
    assert not place_of(follower.mark.resume).by_gtid
