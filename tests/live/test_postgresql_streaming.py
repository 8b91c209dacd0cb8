"""Large transactions of a real PostgreSQL, read while they are open: the trail is the same as without that, whatever the
sessions do and whatever dies in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.capture.uncommitted import MemoryLimits
from anabranch.model.ids import TableId
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.uncommitted import LogChanges, LogEnded, LogTakenBack
from anabranch.testing.databases import Database, create_database, unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server, start_postgresql
from anabranch.trail import requests
from rigs.endpoints import endpoint_of
from rigs.postgresql_capture import (
    ALL_TO_DISK,
    FLUSH,
    IN_MEMORY,
    OTHER,
    Rig,
    Sessions,
    follow_all,
    small_memory,
    tables,
)

SOURCE_OPTIONS = ("--wal-level=logical", "--max-prepared-transactions=10")
BOTH = MemoryLimits(200_000, 1e9)  # some in memory, some on disk
Make = Callable[..., Rig]


@pytest.fixture
def make(source_database: Callable[[Server], Database], tmp_path: Path) -> Iterator[Make]:
    """`make(server)`: a database and its trail; `make(of=rig, streaming=False)`: another one of the same database."""
    made: list[Rig] = []

    def rig(server: Server | None = None, of: Rig | None = None, port: int = 0, **options: Any) -> Rig:
        if of is None:
            assert server is not None
            database = source_database(server)
            small_memory(database)
            database.execute(*tables())
        else:
            database = of.database
        endpoint = replace(endpoint_of(database), port=port or database.server.port)
        made.append(Rig(database, endpoint, tmp_path / f"trail{len(made)}", **options))
        return made[-1]

    yield rig
    for one in made:
        one.drop()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("seed", "limits", "server"),
    [
        (0, ALL_TO_DISK, "logical_postgresql"),
        (1, BOTH, "logical_postgresql"),
        pytest.param(2, IN_MEMORY, "logical_postgresql", marks=pytest.mark.long),
        pytest.param(3, BOTH, "logical_postgresql", marks=pytest.mark.long),
        pytest.param(4, BOTH, "postgresql15", marks=pytest.mark.servers),
    ],
    ids=["0", "1", "2", "3", "4 on 15"],
)
@pytest.mark.one_case("native-0", "python-1")
def test_rule_06_the_trail_is_the_same_as_without(
    seed: int, limits: MemoryLimits, server: str, request: pytest.FixtureRequest, make: Make
) -> None:
    one = make(request.getfixturevalue(server), limits=limits, binary=seed % 2 == 1)
    other = make(of=one, streaming=False)
    with closing(Sessions(one.database, seed)) as sessions:
        for number in range(100):
            sessions.step()
            if number % 25 == 24 and not sessions.locking:
                one.follow()
        sessions.end_all()
    one.follow()
    other.follow()
    assert one.found() == other.found()
    kinds = {kind for kind, _ in one.given}
    assert {LogChanges, LogEnded} <= kinds and not other.given
    assert one.kept() == []


FILL = "INSERT INTO {} SELECT n, 0, repeat('x', 200), '' FROM generate_series({}, {}) n"
TAKEN_BACK = (
    FILL.format("own0", 1, 900),
    "SAVEPOINT a",
    "TRUNCATE own0",
    FILL.format("own0", 1001, 1900),
    "SAVEPOINT b",
    "ALTER TABLE own0 ADD more int",
    FILL.format("own0", 2001, 2900),
    "ROLLBACK TO b",
    FILL.format("own0", 3001, 3900),
    "RELEASE a",
    "SAVEPOINT c",
    FILL.format("own1", 1, 900),
    "ROLLBACK TO c",
    "TRUNCATE own1",
    FILL.format("own1", 1001, 1900),
    "SAVEPOINT d",
    "SAVEPOINT e",
    FILL.format("own1", 2001, 2900),
    "RELEASE e",
    "TRUNCATE own1",
    "ALTER TABLE own1 REPLICA IDENTITY FULL",
    FILL.format("own1", 5001, 5900),
    "ROLLBACK TO d",
    FILL.format("own1", 3001, 3900),
    "UPDATE own1 SET v = 'u' WHERE id < 3500",
)
ALTERED = (
    FILL.format("own0", 4001, 4900),
    FILL.format("own1", 4001, 4900),
    "ALTER TABLE own0 ADD more int",
    FILL.format("own0", 5001, 5900),
    "ALTER TABLE own0 DROP more",
    FILL.format("own0", 6001, 6900),
    FILL.format("own1", 5001, 5900),
)
PUBLISHED = "SELECT FROM pg_publication_tables WHERE tablename = 'other'"
LOOK = "SELECT id FROM {} ORDER BY id"


def until_sent(database: Database) -> None:
    """Whoever reads the log has all of it."""
    [(end,)] = database.query("SELECT pg_current_wal_lsn()::text")
    sent = "SELECT count(*) > 0 AND bool_and(sent_lsn >= %s::pg_lsn) FROM pg_stat_replication"
    until(lambda: database.query(sent, [end]) == [(True,)])


def ids(rig: Rig, table: str) -> list[int]:
    """The rows that are there when the trail is carried out."""
    rows: set[int] = set()
    for _, _, _, changes in rig.found():
        for change in changes:
            if change == ("truncate", table):
                rows.clear()
            elif len(change) == 4 and change[0] == table:
                rows = rows | {change[3][0]} if change[1] in ("INSERT", "AFTER") else rows - {change[3][0]}
    return sorted(rows)


def same(one: Rig, other: Rig, *names: str) -> None:
    one.follow()
    other.follow()
    assert one.found() == other.found()
    for name in names:
        assert ids(one, name) == [row for (row,) in one.database.query(LOOK.format(name))], name


@pytest.mark.parametrize(
    ("limits", "server"),
    [
        (ALL_TO_DISK, "logical_postgresql"),
        (IN_MEMORY, "logical_postgresql"),
        pytest.param(ALL_TO_DISK, "postgresql15", marks=pytest.mark.servers),
    ],
    ids=["disk", "memory", "15"],
)
@pytest.mark.one_case("native-disk", "python-memory")
def test_savepoints_take_back_rows_truncates_and_altered_tables(
    limits: MemoryLimits, server: str, request: pytest.FixtureRequest, make: Make
) -> None:
    """In several nestings; what was altered and taken back does not park the table, what was altered and kept does, at the
    commit, and rows of others are read as they are."""
    one = make(request.getfixturevalue(server), limits=limits)
    other = make(of=one, streaming=False)
    with closing(one.database.connect(autocommit=False)) as large:

        def work(*statements: str) -> None:
            for statement in (*statements, "COMMIT"):
                large.execute(statement)
                one.database.execute("INSERT INTO shared SELECT coalesce(max(id), 0) + 1 FROM shared")
                time.sleep(0.1)

        follow_all([one, other], lambda: work(*TAKEN_BACK))
        same(one, other, "own0", "own1", "shared")
        assert LogTakenBack in {kind for kind, _ in one.given}
        follow_all([one, other], lambda: work(*ALTERED))
    one.database.execute("INSERT INTO shared VALUES (-1)")
    same(one, other, "own1", "shared")
    barriers = [change for *_, changes in one.found() for change in changes if change[0] == "park"]
    assert barriers == [("park", "own0")] and ids(one, "own0")[-1] == 4900


FAULTS = ("capture.kept=raise@{}", "capture.appended=raise@{}", "capture.read=raise@{}", "trail.frame.written=raise@{}")


@pytest.mark.one_decoder
def test_rule_06_a_death_at_any_place_loses_and_doubles_nothing(logical_postgresql: Server, make: Make) -> None:
    """While rows go beside the trail, behind that, and while they enter it at the commit."""
    one = make(logical_postgresql)
    other = make(of=one, streaming=False)
    with (
        closing(one.database.connect(autocommit=False)) as large,
        closing(one.database.connect(autocommit=False)) as second,
    ):
        for number in range(3):
            large.execute(FILL.format("own0", 1 + number * 1000, 900 + number * 1000))
            second.execute(FILL.format("own1", 1 + number * 1000, 900 + number * 1000))
            one.dies(f"capture.kept=raise@{1 + 2 * number}")
            large.execute("SAVEPOINT a")
            large.execute(FILL.format("own0", 10_000, 11_000))
            one.dies(f"capture.kept=raise@{4 + 2 * number}")
            assert one.kept()
            large.execute("ROLLBACK TO a")
        second.rollback()
        large.commit()
    for fault in FAULTS:
        for place in (1, 4):
            one.dies(fault.format(place))
    one.dies("trail.published=raise@1")
    assert one.kept()
    one.database.execute("INSERT INTO own0 VALUES (-1)")
    same(one, other, "own0", "own1")
    assert one.kept() == []


@pytest.mark.one_decoder
def test_a_stop_in_order_leaves_nothing_beside_the_trail(logical_postgresql: Server, make: Make) -> None:
    """What is open comes again."""
    one = make(logical_postgresql)
    with closing(one.database.connect(autocommit=False)) as large:
        large.execute(FILL.format("own0", 1, 2000))
        one.follow()
        assert (LogChanges, one.given[0][1]) == one.given[0] and one.kept() == []
        one.follow()
        large.execute(FILL.format("own0", 2001, 3000))
        one.follow(until=lambda: (LogEnded, one.given[0][1]) in one.given or large.commit())
    assert ids(one, "own0") == list(range(1, 3001)) and one.kept() == []


@pytest.mark.one_decoder
@pytest.mark.parametrize("release", ["", pytest.param("15", marks=pytest.mark.servers)], ids=["18", "15"])
def test_rule_06_a_server_that_crashes_ends_what_is_open(release: str, servers_directory: Path, tmp_path: Path) -> None:
    """Its log has no end of such a transaction, and the server does not give it again."""
    server = start_postgresql(servers_directory / unique_name("crash"), release=release, options=SOURCE_OPTIONS)
    try:
        database = create_database(server, "crash")
        small_memory(database)
        database.execute(*tables())
        one = Rig(database, endpoint_of(database), tmp_path / "trail")

        seen: list[list[str]] = []

        def work() -> None:
            with suppress(psycopg.OperationalError), database.connect(autocommit=False) as large:
                large.execute(FILL.format("own0", 1, 2000))
                database.execute(FLUSH)
                until(one.kept)
                seen.append(one.kept())
                large.execute(FILL.format("own0", 2001, 4000))  # behind the place where it is read again
                database.execute(FLUSH)
                server.stop(immediate=True)
            server.start()
            database.execute(FILL.format("own1", 1, 2000))
            until(lambda: ids(one, "own1"))
            until(lambda: one.kept() == [])  # a file is taken away behind the rows

        follow_all([one], work)
        ((lost,),) = seen
        assert (LogEnded, lost) not in one.given
        assert ids(one, "own0") == [] and ids(one, "own1") == list(range(1, 2001))
    finally:
        server.stop()


@pytest.mark.one_decoder
def test_a_line_that_is_cut(logical_postgresql: Server, make: Make) -> None:
    """What is open comes again, over the next one."""
    with Proxy(logical_postgresql.host, logical_postgresql.port) as proxy:
        one = make(logical_postgresql, port=proxy.port)

        def work() -> None:
            with closing(one.database.connect(autocommit=False)) as large:
                large.execute(FILL.format("own0", 1, 2000))
                one.database.execute(FLUSH)
                until(one.kept)
                proxy.cut()
                large.execute(FILL.format("own0", 2001, 3000))
                large.commit()

        follow_all([one], work)
    assert ids(one, "own0") == list(range(1, 3001)) and len(one.found()) == 1 and one.kept() == []


@pytest.mark.one_decoder
def test_a_table_joins_while_a_transaction_with_rows_of_it_is_open(logical_postgresql: Server, make: Make) -> None:
    """They come again, with that table's, when it has joined."""
    one, table = make(logical_postgresql), TableId("public", OTHER)
    wanted = one.wanted

    def work() -> None:
        one.wanted = lambda name: name == table or wanted(name)
        with closing(one.database.connect(autocommit=False)) as large:
            large.execute(FILL.format("own0", 1, 2000))
            one.database.execute(FLUSH)
            until(one.kept)
            with closing(one.database.connect(autocommit=False)) as first:
                first.execute("INSERT INTO other VALUES (-1)")
                requests.request_table(one.directory, table)
                until(lambda: one.database.query(PUBLISHED))
                time.sleep(1)
                large.commit()
                large.execute(FILL.format(OTHER, 1, 2000))
                large.execute(FILL.format("own0", 2001, 3000))
                one.database.execute(FLUSH)
                assert requests.pending(one.directory)
                first.commit()
            until(lambda: not requests.pending(one.directory))
            large.commit()

    follow_all([one], work)
    assert ids(one, "own0") == list(range(1, 3001)) and ids(one, OTHER) == list(range(1, 2001))
    assert one.given[-1][0] is LogEnded and {xid for kind, xid in one.given if kind is LogEnded} >= {one.given[-1][1]}


def test_an_end_that_was_read_ahead_of_a_new_selection_is_read_again(logical_postgresql: Server, make: Make) -> None:
    """With all that came before it: what was given does not count then."""
    one = make(logical_postgresql)
    with closing(one.connector.catalog()) as catalog:
        selected = catalog.tables(one.wanted)
    options = replace(one.options, flush_interval=30.0)  # what is whole waits for more
    with closing(one.connector.log(options)) as reader, closing(one.database.connect(autocommit=False)) as large:
        reader.start(reader.end(), selected.get)
        large.execute(FILL.format("own0", 1, 2000))
        large.execute(FILL.format(OTHER, 1, 2000))  # then all of the others was sent
        one.database.execute(FLUSH)
        given = 0
        while given < 2000:
            item = reader.read(1)
            given += item.chunk.row_count if isinstance(item, LogChanges) else 0
        one.database.execute("INSERT INTO shared VALUES (1)")
        large.commit()
        until_sent(one.database)
        while not isinstance(item, Chunk):
            item = reader.read(1)
        assert {type(waits) for waits in reader._assembler.ready} >= {LogEnded}  # type: ignore[attr-defined]  # of this reader
        reader.reselect()
        is_over = False
        while not is_over:
            item = reader.read(1)
            if isinstance(item, LogChanges):
                given += item.chunk.row_count
            elif isinstance(item, Chunk):
                given += item.row_count
                is_over = item.part is not Part.FRAGMENT
            elif isinstance(item, LogEnded):
                given, is_over = given if item.is_committed else 0, item.is_committed
    assert given == 2000


@pytest.mark.one_decoder
def test_reading_that_begins_again_twice_in_a_row_gives_nothing_twice(logical_postgresql: Server, make: Make) -> None:
    """Of what is open each is told to be over, also where only the first was when it began again."""
    one = make(logical_postgresql)
    with (
        closing(one.database.connect(autocommit=False)) as first,
        closing(one.database.connect(autocommit=False)) as second,
        closing(one.connector.catalog()) as catalog,
        closing(one.connector.log(one.options)) as reader,
    ):
        definitions = catalog.tables(one.wanted)
        reader.start(reader.end(), definitions.get)
        first.execute(FILL.format("own0", 1, 2000))
        second.execute(FILL.format("own1", 1, 2000))
        one.database.execute(FLUSH)
        rows: dict[str, int] = {}
        committed: set[str] = set()

        def read() -> type | None:
            item = reader.read(0.2)
            if isinstance(item, LogChanges):
                rows[item.xid] = rows.get(item.xid, 0) + item.chunk.row_count
            elif isinstance(item, LogEnded) and item.is_committed:
                committed.add(item.xid)
            elif isinstance(item, LogEnded):
                del rows[item.xid]
            return type(item)

        until(lambda: read() and len(rows) == 2)
        reader.reselect()
        assert read() is LogEnded
        reader.reselect()
        first.commit()
        second.commit()
        until(lambda: read() is LogEnded and len(committed) == 2)
    assert list(rows.values()) == [2000, 2000]


def test_a_savepoint_that_the_server_does_not_tell_of_is_taken_back(logical_postgresql: Server, make: Make) -> None:
    """Rows from before a start come out of the server's files; it says nothing where they are taken back."""
    one = make(logical_postgresql)
    with closing(one.database.connect(autocommit=False)) as large:
        large.execute(FILL.format("own0", 1, 900))
        large.execute("SAVEPOINT a")
        large.execute("SAVEPOINT b")
        large.execute(FILL.format("own0", 1001, 10_900))
        large.execute("RELEASE b")
        one.database.execute("INSERT INTO shared VALUES (1)")
        one.follow()

        def work() -> None:
            large.execute(FILL.format("own1", 4001, 6900))
            one.database.execute(FLUSH)
            until(one.kept)
            large.execute("ROLLBACK TO a")
            large.execute(FILL.format("own1", 1, 900))
            large.commit()

        follow_all([one], work)
    for name, count in (("own0", 900), ("own1", 900), ("shared", 1)):
        assert ids(one, name) == list(range(1, count + 1)), name
    assert one.kept() == []
