"""MySQL and MariaDB: snapshots with their place in the log, tables that change while they are read."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

import pytest
from pymysql import Connection
from pymysql.err import OperationalError

from anabranch import connectors
from anabranch.connectors.mysql.source import snapshot, watermark
from anabranch.connectors.mysql.source.positions import place_of
from anabranch.contracts import Bounds, KeepingReader, KeptReader, SourceConnector
from anabranch.errors import SchemaError, SourceError, SourceUnavailable, TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database, connect
from anabranch.testing.in_time import PATIENCE, in_time, until
from anabranch.testing.servers import Server
from rigs.mysql_source import RULES, definition, source_of

pytestmark = pytest.mark.every_server
Make = Callable[[Server], Database]


def test_rule_29_another_server_is_refused(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key)")
    table = definition(database)
    with closing(source_of(database).catalog()) as catalog:
        here = place_of(catalog.mark().resume).identity
    with closing(source_of(database).snapshot(here)) as snapshot:
        snapshot.open(table, "none")
    stranger = source_of(database).snapshot("another-server")
    with pytest.raises(SourceError, match="capture follows another-server"):
        stranger.open(table, "none")
    assert pickle.loads(pickle.dumps(stranger)).expected == "another-server"


def rows_by(
    mark: LogMark, high: LogMark, history: Sequence[tuple[int, str, str]], source: SourceConnector
) -> tuple[set[int], set[int]]:
    """Return ids of transactions (id, native, gtid): those that `mark` contains, and those that `high` contains."""
    inside = {i for i, native, gtid in history if source.order.includes(mark, native, gtid)}
    return inside, {i for i, native, gtid in history if source.order.includes(high, native, gtid)}


@contextmanager
def writers(database: Database, count: int) -> Iterator[None]:
    """Sessions that insert one row per transaction into t until the block ends."""
    stop = threading.Event()

    def write(first: int) -> None:
        with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
            n = first
            while not stop.is_set():
                cursor.execute("INSERT INTO t VALUES (%s)", (n,))
                n += count

    threads = [threading.Thread(target=write, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    while database.query("SELECT count(*) FROM t")[0][0] < 2 * count:
        time.sleep(0.01)
    try:
        while database.query("SELECT COUNT(*) FROM t")[0][0] < 20:
            time.sleep(0.01)
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def committed(database: Database, after: LogMark) -> list[tuple[int, str, str]]:
    """(id, end position, GTID) of every one-row transaction of table t that the log has after a mark."""
    from anabranch.contracts import LogOptions
    from anabranch.rows.chunk import META, Chunk

    source, table, found = source_of(database), definition(database), []
    with closing(source.log(LogOptions(4712, 0.02))) as reader:
        end = reader.end()
        reader.start(after, lambda t: table if t == table.id else None)
        while True:
            item = reader.read(0.5)
            if isinstance(item, Chunk):
                transactions = item.transactions.to_pylist()
                for part in item.tables:
                    ids, places = part.batch.column(META).to_pylist(), part.batch.column(1).to_pylist()
                    found += [
                        (i, transactions[p]["native"], transactions[p]["gtid"])
                        for i, p in zip(ids, places, strict=True)
                    ]
            mark = source.order.mark(item.resume) if isinstance(item, Chunk) else item.mark if item else None
            if mark is not None and source.order.includes(mark, end.native, None):
                return found


def check_snapshots(
    database: Database,
    lock: str,
    tries: int = 12,
    meanwhile: AbstractContextManager[None] | None = None,
    meets_commits: bool = False,
) -> set[bool]:
    """K2 under writers: everything in `low` is in the snapshot, nothing beyond `high` is. Says which were exact.
    `meets_commits`: it goes on until a writer has committed while a snapshot was opened."""
    database.execute("CREATE TABLE t (id int primary key)")
    table, source = definition(database), source_of(database)
    with closing(source.catalog()) as catalog:
        start = catalog.mark()
    seen = []
    with writers(database, 4), meanwhile or nullcontext():
        late = time.monotonic() + PATIENCE
        while len(seen) < tries or (meets_commits and all(low == high for low, high, _ in seen)):
            in_time(late, "nobody has committed while a snapshot was opened")
            with closing(source.snapshot()) as snapshot:
                low, high = snapshot.open(table, lock)
                lines = b"".join(snapshot.lines(table, ["id"], Bounds(), RULES))
                seen.append((low, high, set(map(int, lines.split()))))
    history = committed(database, start)
    assert len(history) > tries
    for low, high, rows in seen:
        at_least, at_most = rows_by(low, high, history, source)
        assert at_least <= rows <= at_most
        if low == high:
            assert rows == at_least
    return {low == high for low, high, _ in seen}


def test_rule_02_mariadb_says_the_exact_place(mariadb: Server, source_database: Make) -> None:
    assert check_snapshots(source_database(mariadb), "none") == {True}


def test_rule_02_mysql_gtids_executed_before_the_snapshot(mysql: Server, source_database: Make) -> None:
    assert False in check_snapshots(source_database(mysql), "none", meets_commits=True)


@pytest.mark.servers
@pytest.mark.parametrize("name", ["mysql55", "mysql56", "mysql9"])
def test_rule_02_on_every_release(name: str, request: pytest.FixtureRequest, source_database: Make) -> None:
    """5.5 has no GTIDs; in 5.6 a transaction enters gtid_executed before its engine has committed it."""
    server = request.getfixturevalue(name)
    assert False in check_snapshots(source_database(server), "none", tries=40, meets_commits=True)
    assert check_snapshots(source_database(server), "table", tries=5) == {True}
    left = source_of(source_database(server)).remains("", remove=True)
    assert left == ([] if name == "mysql9" else ["table anabranch.watermark"])


@pytest.mark.parametrize("lock", ["table", "global"])
def test_rule_02_mysql_under_a_lock(mysql: Server, source_database: Make, lock: str) -> None:
    assert check_snapshots(source_database(mysql), lock, tries=5) == {True}


def test_rule_02_mysql_a_table_that_gets_the_name_behind_the_snapshot_is_in_the_log_before_high(
    mysql: Server, source_database: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read as it was when the snapshot began, which lacks rows. From `high` on the name stays with its table."""
    database = source_database(mysql)
    database.execute("CREATE TABLE t (id int primary key)", "CREATE TABLE _t_gho LIKE t", "INSERT INTO t VALUES (1)")
    table, source, held, ends = definition(database), source_of(database), snapshot.hold, []

    def swap(connection: Connection, of: TableSchema) -> None:
        database.execute("INSERT INTO _t_gho SELECT * FROM t", "RENAME TABLE t TO _t_del, _t_gho TO t")
        with closing(source.catalog()) as catalog:
            ends.append(catalog.mark())
        held(connection, of)

    monkeypatch.setattr(snapshot, "hold", swap)
    with closing(source.snapshot()) as reader:
        low, high = reader.open(table, "none")
        assert b"".join(reader.lines(table, ["id"], Bounds(), RULES)) == b"", (
            "the rows of the name of now, as of before"
        )
        assert source.order.includes(high, ends[0].native, None) and not source.order.includes(
            low, ends[0].native, None
        )
        with pytest.raises(OperationalError, match="Lock wait timeout"):
            database.execute("SET lock_wait_timeout = 1", "RENAME TABLE t TO _t_gho, _t_del TO t")
    database.execute("RENAME TABLE t TO _t_gho, _t_del TO t")


@contextmanager
def without_gtids(server: Server) -> Iterator[None]:
    """https://dev.mysql.com/doc/refman/8.0/en/replication-mode-change-online-concepts.html"""
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        try:
            for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"):
                cursor.execute(f"SET GLOBAL gtid_mode = {mode}")
            yield
        finally:
            for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"):
                cursor.execute(f"SET GLOBAL gtid_mode = {mode}")


def test_rule_02_mysql_watermark_without_gtids(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    source = source_of(database)
    with without_gtids(mysql):
        assert source.remains("", remove=True) in ([], ["table anabranch.watermark"])
        assert False in check_snapshots(database, "none", meets_commits=True)
        assert source.remains("", remove=False) == source.remains("", remove=True) == ["table anabranch.watermark"]
        assert source.remains("", remove=True) == []


def test_rule_02_mysql_a_watermark_that_another_job_drops_is_made_again(mysql: Server, source_database: Make) -> None:
    """Jobs of one source share it, and `drop` of one does not know of the others."""
    source, dropped, stop = source_of(source_database(mysql)), [0], threading.Event()

    def drop() -> None:
        while not stop.is_set():
            dropped[0] += len(source.remains("", remove=True))

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        with closing(connect(mysql)) as connection:
            written = 0
            while written < 60 or dropped[0] <= 10:
                watermark.write(connection)
                written += 1
                assert thread.is_alive()
    finally:
        stop.set()
        thread.join()
        source.remains("", remove=True)


@contextmanager
def changing_gtid_mode(server: Server) -> Iterator[None]:
    """Transactions with GTIDs and without alternate; at the end both may be read."""
    stop = threading.Event()

    def change() -> None:
        with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
            while not stop.wait(0.01):
                for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"):
                    cursor.execute(f"SET GLOBAL gtid_mode = {mode}")
            cursor.execute("SET GLOBAL gtid_mode = ON_PERMISSIVE")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_rule_02_mysql_gtid_mode_is_changed_meanwhile(mysql: Server, source_database: Make) -> None:
    """Compare a mark that is a set of GTIDs with the snapshot, where transactions without GTIDs are in the trail, too."""
    database = source_database(mysql)
    try:
        check_snapshots(database, "none", meanwhile=changing_gtid_mode(mysql))
    finally:
        database.execute("SET GLOBAL gtid_mode = ON")
        source_of(database).remains("", remove=True)


def test_rule_02_mysql_without_the_right_to_a_watermark(mysql: Server, source_database: Make) -> None:
    database = source_database(mysql)
    user = database.name[-16:]
    database.execute(
        "CREATE TABLE t (id int primary key)",
        f"CREATE USER {user}@'%' IDENTIFIED BY 'pw'",
        f"GRANT SELECT ON {database.name}.* TO {user}@'%'",
        f"GRANT REPLICATION CLIENT ON *.* TO {user}@'%'",
    )
    reduced = Endpoint("mysql", mysql.host, mysql.port, user, "pw", database.name)
    try:
        table, snapshot = definition(database), connectors.source(reduced).snapshot()
        with (
            without_gtids(mysql),
            closing(snapshot),
            pytest.raises(SourceError, match="no consistent start") as refused,
        ):
            snapshot.open(table, "none")
        grant = f"GRANT CREATE, SELECT, INSERT, DELETE ON anabranch.* TO '{user}'@'%'; or gtid_mode"
        assert refused.value.hint.startswith(grant)
        assert '[load] lock = "table"' in refused.value.hint
    finally:
        database.execute(f"DROP USER {user}@'%'")


# --- snapshots that are kept ------------------------------------------------------------------------------------------


@pytest.mark.every_server("GTIDs of what is committed")
def test_rule_25_what_is_kept_is_at_its_place(mysql_family: Server, source_database: Make) -> None:
    """Under writers: what the place includes, and nothing else."""
    database, seen = source_database(mysql_family), list[tuple[LogMark, set[int]]]()
    database.execute("CREATE TABLE t (id int primary key)")
    table, source = definition(database), source_of(database)
    with closing(source.catalog()) as catalog:
        start = catalog.mark()
    with writers(database, 1), closing(source.snapshot()) as snapshot:
        assert isinstance(snapshot, KeepingReader)

        def is_enough() -> bool:
            if not isinstance(place := snapshot.keep("none", 1.0), str):
                seen.append((place, set(map(int, b"".join(snapshot.lines(table, ["id"], Bounds(), RULES)).split()))))
            return len(seen) >= 3

        until(is_enough, "snapshots had a place")
    history = committed(database, start)
    for place, rows in seen:
        assert rows == rows_by(place, place, history, source)[0]


def test_rule_25_without_the_right_nothing_is_kept_at_a_mariadb(mariadb: Server, source_database: Make) -> None:
    """It would lock definitions for as long as it is open."""
    user = source_database(mariadb).name[-16:]
    with closing(connect(mariadb)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"CREATE USER {user}@'%' IDENTIFIED BY 'pw'")
        try:
            reduced = Endpoint("mariadb", mariadb.host, mariadb.port, user, "pw")
            source, target = connectors.source(reduced), connectors.target(reduced)
            with closing(source.snapshot()) as snapshot, closing(target.reader(RULES)) as reader:
                assert isinstance(snapshot, KeepingReader) and isinstance(reader, KeptReader)
                with pytest.raises(SourceError, match=f"GRANT BINLOG ADMIN ON .* TO '{user}'"):
                    snapshot.keep("none", 1.0)
                with pytest.raises(TargetError, match=f"GRANT BINLOG ADMIN ON .* TO '{user}'"):
                    reader.keep("job")
        finally:
            cursor.execute(f"DROP USER {user}@'%'")


# --- tables that change while they are read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("TRUNCATE TABLE t", marks=pytest.mark.every_server("TRUNCATE under a snapshot")),
        pytest.param("ALTER TABLE t ADD COLUMN more int, ALGORITHM=COPY", marks=pytest.mark.every_server("row images")),
    ],
)
def test_a_table_that_was_changed_under_a_snapshot_is_read_again(
    mysql_family: Server, source_database: Make, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    table = definition(database)
    with closing(source_of(database).snapshot()) as reader, monkeypatch.context() as before_it_is_held:
        before_it_is_held.setattr(snapshot, "hold", lambda *_: None)
        reader.open(table, "none")
        database.execute(statement)
        with pytest.raises(SourceUnavailable, match="1412") as changed:
            list(reader.lines(table, ["id"], Bounds(), RULES))
        assert changed.value.table == str(table.id) and "read again" in changed.value.hint
    with closing(source_of(database).snapshot()) as reader:
        reader.open(table, "none")
        lines = b"".join(reader.lines(table, ["id"], Bounds(), RULES))
    assert lines == (b"" if "TRUNCATE" in statement else b"1\n2\n")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE t",
        "ALTER TABLE t CHANGE id other int NOT NULL",
        "ALTER TABLE t DROP PRIMARY KEY",
    ],
)
def test_a_table_that_is_another_one_by_now_is_named(
    mysql_family: Server, source_database: Make, statement: str
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    table = definition(database)
    database.execute(statement)
    with closing(source_of(database).snapshot()) as snapshot:
        for ask in (
            lambda: snapshot.bounds(table, 1),
            lambda: list(snapshot.lines(table, ["id"], Bounds(upper=("1",)), RULES)),
        ):
            with pytest.raises(SchemaError) as gone:
                snapshot.open(table, "none")  # says so by itself where it holds the table
                ask()
            assert gone.value.table == str(table.id) and "dropped, renamed or altered" in gone.value.hint
