"""MySQL and MariaDB: tables cut into chunks, snapshots with their place in the log, rows in raw packets."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.source import watermark
from anabranch.connectors.mysql.source.positions import place_of
from anabranch.contracts import Bounds, SourceConnector, ValueRules
from anabranch.errors import SchemaError, SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database, connect
from anabranch.testing.features import takes
from anabranch.testing.servers import Server

pytestmark = pytest.mark.every_server
Make = Callable[[Server], Database]
RULES = ValueRules()


def endpoint(database: Database) -> Endpoint:
    server = database.server
    return Endpoint(server.name, server.host, server.port, server.user, server.password, database.name)


def source_of(database: Database) -> SourceConnector:
    return connectors.source(endpoint(database))


def definition(database: Database, name: str = "t") -> TableSchema:
    with closing(source_of(database).catalog()) as catalog:
        (table,) = catalog.tables(lambda t: (t.schema, t.name) == (database.name, name)).values()
        return table


def in_chunks(database: Database, rows: int, columns: Sequence[str] = ()) -> list[list[bytes]]:
    """The lines of every chunk of table t."""
    table = definition(database)
    with closing(source_of(database).snapshot()) as snapshot:
        pieces = snapshot.bounds(table, rows)
        assert pieces[0].lower is None and pieces[-1].upper is None
        wanted = columns or [column.name for column in table.columns]
        return [b"".join(snapshot.lines(table, wanted, piece, RULES)).splitlines() for piece in pieces]


def assert_cut(database: Database, total: int, rows: int, fewest: int = 2) -> list[list[bytes]]:
    """Every row is in exactly one chunk, and no chunk is much larger than asked for."""
    chunks = in_chunks(database, rows)
    everything = [line for chunk in chunks for line in chunk]
    assert len(everything) == total
    assert len(set(everything)) == total
    assert len(chunks) >= fewest
    assert max(map(len, chunks)) <= 3 * rows
    return chunks


def fill(database: Database, table: str, rows: Sequence[Sequence[object]]) -> None:
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)


KEYS: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "bigint": ("k bigint primary key", [(k * 7 - 3000,) for k in range(1000)]),
    "unsigned beyond 2^63": ("k bigint unsigned primary key", [(2**64 - 1 - k * k,) for k in range(1000)]),
    "negative tinyint": ("k tinyint primary key", [(k,) for k in range(-128, 128)]),
    "case-insensitive text": (
        "k varchar(20) character set utf8mb4 primary key",
        [(f"{'aAbB'[n % 4]}{'xÄß ~'[n % 5]}{n:04d}" + "é" * (n % 3),) for n in range(1000)],
    ),
    "latin1 text with quotes": (
        "k varchar(20) character set latin1 primary key",
        [(f"{chr(33 + n % 90)}'\\{n}ü",) for n in range(1000)],
    ),
    "binary": ("k varbinary(4) primary key", [(bytes([n % 256, 255 - n // 256, n % 7]),) for n in range(1000)]),
    "composite": (
        "a int, b varchar(5), c datetime(2), primary key (b, a, c)",
        [(n % 5, "abcde"[n // 400] * 2, f"2024-01-01 00:00:{n % 60:02d}.{n % 7}5") for n in range(2000)],
    ),
    "decimal": ("k decimal(20,5) primary key", [(f"{n - 500}.{n:05d}",) for n in range(1000)]),
    "float": ("k float primary key", [(n * 0.1,) for n in range(-500, 500)]),
    "date": (
        "k date primary key",
        [(f"20{n // 336:02d}-{1 + n // 28 % 12:02d}-{1 + n % 28:02d}",) for n in range(1000)],
    ),
    "zero dates": (
        "k datetime, n int, primary key (k, n)",
        [("0000-00-00 00:00:00" if n < 9 else "2024-01-01", n) for n in range(600)],
    ),
    "timestamp": ("k timestamp(3) primary key", [(f"2024-03-31 0{n % 9}:{n // 9 % 60:02d}:00.{n:03d}",) for n in range(1000)]),
    "time": ("k time(1) primary key", [(f"{'-' * (n % 2)}{n}:00:00.5",) for n in range(800)]),
    "bit": ("k bit(64) primary key", [(2**63 + n * n if n % 2 else n,) for n in range(1000)]),
    "year and enum and set": (
        "y year, e enum('z','a','m'), s set('p','q','r'), n int, primary key (e, y, s, n)",
        [(0 if n % 9 == 0 else 1990 + n % 5, "zam"[n % 3], ["", "p", "q,r"][n // 3 % 3], n) for n in range(1000)],
    ),
}  # fmt: skip


def test_pitfall_28_bounds_in_the_databases_own_order(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    for what, (columns, rows) in KEYS.items():
        if not takes(mysql_family, columns):
            continue
        distinct = list(dict.fromkeys(rows))
        database.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})")
        fill(database, "t", distinct)
        database.execute("ANALYZE TABLE t")
        if what == "zero dates":
            table = definition(database)
            with closing(source_of(database).snapshot()) as snapshot:
                pieces = snapshot.bounds(table, 100)
                lines = [
                    line for p in pieces for b in snapshot.lines(table, ["n"], p, RULES) for line in b.splitlines()
                ]
            assert sorted(map(int, lines)) == list(range(600))
            continue
        assert_cut(database, len(distinct), 100, fewest=3), what


def test_pitfall_28_skewed_and_sparse_integers(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (k bigint unsigned primary key)")
    fill(database, "t", [(n,) for n in range(5000)] + [(2**64 - 1,), (2**63,)])
    database.execute("ANALYZE TABLE t")
    chunks = assert_cut(database, 5002, 500, fewest=5)
    assert len(chunks) < 40


@pytest.mark.parametrize("rows", [0, 1])
def test_pitfall_28_empty_and_single_row(mysql_family: Server, source_database: Make, rows: int) -> None:
    database = source_database(mysql_family)
    for columns in ("k int primary key", "k varchar(9) primary key", "k int"):
        database.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})")
        if rows:
            fill(database, "t", [("5",)])
        assert [line for chunk in in_chunks(database, 10) for line in chunk] == [b"5"] * rows


def test_keyless_table_is_one_piece(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (1), (1), (NULL)")
    assert in_chunks(database, 1) == [[b"1", b"1", b"1", b"\\N"]]


def test_columns_are_given_in_the_asked_order(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (`a b` int primary key, `c``d` text, `e%s` date)", "INSERT INTO t VALUES (1, 'x', NULL)"
    )
    assert in_chunks(database, 5, ["e%s", "c`d", "a b"]) == [[b"\\N\tx\t1"]]


# --- raw packets ------------------------------------------------------------------------------------------------------


def test_values_longer_than_packets_and_max_allowed_packet(mysql_family: Server, source_database: Make) -> None:
    """A payload of 16 MB goes on in the next packet; a line may be longer than the server's string functions allow."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (id int primary key, a longblob, b longtext, c int, d mediumtext character set latin1)"
    )
    sizes = [0, 250, 251, 65_536, 16_777_215, 17_000_000]
    with closing(connect(mysql_family)) as root, closing(root.cursor()) as cursor:
        cursor.execute("SELECT @@GLOBAL.max_allowed_packet")
        (before,) = cursor.fetchone()
        cursor.execute("SET GLOBAL max_allowed_packet = 67108864")
        try:
            for n, size in enumerate(sizes):
                database.execute(
                    f"INSERT INTO t VALUES ({n}, REPEAT('\\\\', {size}), REPEAT('\\t', {size}), NULL, 'ü')"
                )
            table = definition(database)
            cursor.execute("SET GLOBAL max_allowed_packet = 16777216")
            with closing(source_of(database).snapshot()) as snapshot:
                columns = ["id", "a", "b", "c", "d"]
                lines = b"".join(snapshot.lines(table, columns, Bounds(), RULES)).splitlines()
        finally:
            cursor.execute(f"SET GLOBAL max_allowed_packet = {before}")
    assert len(lines) == len(sizes)
    for n, (line, size) in enumerate(zip(lines, sizes, strict=True)):
        assert line == b"%d\t\\\\x%s\t%s\t\\N\t\xc3\xbc" % (n, b"5c" * size, b"\\t" * size)


def test_blocks_are_whole_lines_of_about_a_megabyte(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key, s varchar(200))")
    fill(database, "t", [(n, "x" * 190) for n in range(20_000)])
    with closing(source_of(database).snapshot()) as snapshot:
        blocks = list(snapshot.lines(definition(database), ["id", "s"], Bounds(), RULES))
    assert all(block.endswith(b"\n") and len(block) < 1_500_000 for block in blocks)
    assert len(blocks) >= 3
    assert sum(block.count(b"\n") for block in blocks) == 20_000


def test_error_in_the_middle_of_a_result(mysql_family: Server, source_database: Make) -> None:
    """The server kills the statement while its rows are on the way."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key, s varchar(1000))")
    fill(database, "t", [(n, "y" * 1000) for n in range(20_000)])
    with closing(source_of(database).snapshot()) as snapshot:
        blocks = snapshot.lines(definition(database), ["id", "s"], Bounds(), RULES)
        next(blocks)
        ((session,),) = database.query(
            "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT %%`s`%% FROM %%`t`%%' AND info NOT LIKE"
            " '%%processlist%%'"
        )
        database.execute(f"KILL {session}")
        with pytest.raises(SourceUnavailable):
            list(blocks)


def test_a_result_left_half_read_does_not_reach_the_next(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key, s varchar(1000))")
    fill(database, "t", [(n, "y" * 1000) for n in range(5000)])
    table = definition(database)
    with closing(source_of(database).snapshot()) as snapshot:
        blocks = snapshot.lines(table, ["id", "s"], Bounds(), RULES)
        next(blocks)
        blocks.close()
        assert b"".join(snapshot.lines(table, ["id"], Bounds(upper=("2",)), RULES)) == b"0\n1\n2\n"


def test_rows_by_key(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (e enum('x','y'), b binary(2), f float, v int, primary key (e, b, f))")
    fill(database, "t", [("x", b"a", 0.1, 1), ("y", b"a", 0.1, 2), ("y", b"b", 3, 3)])
    keys = [{"e": "y", "b": "\\x6100", "f": "0.1"}, {"e": "y", "b": "\\x6200", "f": "4"}]
    with closing(source_of(database).snapshot()) as snapshot:
        assert b"".join(snapshot.lines_of(definition(database), ["v", "e"], keys, RULES)) == b"2\ty\n"
        assert list(snapshot.lines_of(definition(database), ["v"], [], RULES)) == []


# --- snapshots --------------------------------------------------------------------------------------------------------


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
    """Of the writer's transactions (id, native, gtid): those `mark` contains, those `high` contains."""
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
    database: Database, lock: str, tries: int = 12, meanwhile: AbstractContextManager[None] | None = None
) -> set[bool]:
    """K2 under writers: everything in `low` is in the snapshot, nothing beyond `high` is. Says which were exact."""
    database.execute("CREATE TABLE t (id int primary key)")
    table, source = definition(database), source_of(database)
    with closing(source.catalog()) as catalog:
        start = catalog.mark()
    seen = []
    with writers(database, 4), meanwhile or nullcontext():
        for _ in range(tries):
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
    assert False in check_snapshots(source_database(mysql), "none")


@pytest.mark.servers
@pytest.mark.parametrize("name", ["mysql55", "mysql56", "mysql9"])
def test_rule_02_on_every_release(name: str, request: pytest.FixtureRequest, source_database: Make) -> None:
    """5.5 has no GTIDs; in 5.6 a transaction enters gtid_executed before its engine has committed it."""
    server = request.getfixturevalue(name)
    assert False in check_snapshots(source_database(server), "none", tries=40)
    assert check_snapshots(source_database(server), "table", tries=5) == {True}
    left = source_of(source_database(server)).remains("", remove=True)
    assert left == ([] if name == "mysql9" else ["table anabranch.watermark"])


@pytest.mark.parametrize("lock", ["table", "global"])
def test_rule_02_mysql_under_a_lock(mysql: Server, source_database: Make, lock: str) -> None:
    assert check_snapshots(source_database(mysql), lock, tries=5) == {True}


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
        assert False in check_snapshots(database, "none")
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
    """Also where transactions without GTIDs are in the trail, a mark that is a set names what is in the snapshot."""
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


# --- tables that change while they are read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("TRUNCATE TABLE t", marks=pytest.mark.every_server("TRUNCATE under a snapshot")),
        pytest.param("ALTER TABLE t ADD COLUMN more int, ALGORITHM=COPY", marks=pytest.mark.every_server("row images")),
    ],
)
def test_a_table_that_was_changed_under_a_snapshot_is_read_again(
    mysql_family: Server, source_database: Make, statement: str
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    table = definition(database)
    with closing(source_of(database).snapshot()) as snapshot:
        snapshot.open(table, "none")
        database.execute(statement)
        with pytest.raises(SourceUnavailable, match="1412") as changed:
            list(snapshot.lines(table, ["id"], Bounds(), RULES))
        assert changed.value.table == str(table.id) and "read again" in changed.value.hint
    with closing(source_of(database).snapshot()) as snapshot:
        snapshot.open(table, "none")
        lines = b"".join(snapshot.lines(table, ["id"], Bounds(), RULES))
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
        snapshot.open(table, "none")
        for ask in (
            lambda: snapshot.bounds(table, 1),
            lambda: list(snapshot.lines(table, ["id"], Bounds(upper=("1",)), RULES)),
        ):
            with pytest.raises(SchemaError) as gone:
                ask()
            assert gone.value.table == str(table.id) and "dropped, renamed or altered" in gone.value.hint
