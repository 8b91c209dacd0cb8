"""MySQL and MariaDB: tables cut into chunks, rows in raw packets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import pytest

from anabranch.contracts import Bounds
from anabranch.errors import SourceUnavailable
from anabranch.testing.databases import Database, connect
from anabranch.testing.features import takes
from anabranch.testing.servers import Server
from rigs.mysql_source import RULES, definition, fill, source_of

pytestmark = pytest.mark.every_server
Make = Callable[[Server], Database]


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


@pytest.mark.one_case("mariadb")
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
