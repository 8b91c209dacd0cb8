"""Every value that the log gives is what a SELECT says: all types, all row images, all amounts of metadata."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch.contracts import ValueRules
from anabranch.errors import ValueRefused
from anabranch.testing.databases import Database
from anabranch.testing.features import knows, spelled, takes
from anabranch.testing.servers import Server

# column, type, values (SQL); every list has its edges first, then ordinary ones
COLUMNS: list[tuple[str, str, list[str]]] = [
    ("t1", "tinyint", ["-128", "127", "0", "-1"]),
    ("t1u", "tinyint unsigned", ["0", "255", "128"]),
    ("flag", "tinyint(1)", ["0", "1", "2", "127", "-5"]),
    ("t2", "smallint", ["-32768", "32767", "-1"]),
    ("t2u", "smallint unsigned", ["65535", "32768", "0"]),
    ("y1", "year", ["1901", "2155", "0", "2024"]),
    ("t3", "mediumint", ["-8388608", "8388607", "-1", "1"]),
    ("t3u", "mediumint unsigned", ["16777215", "8388608", "0"]),
    ("t4", "int", ["-2147483648", "2147483647", "-1"]),
    ("t4u", "int unsigned", ["4294967295", "2147483648", "0"]),
    ("t8", "bigint", ["-9223372036854775808", "9223372036854775807", "-1"]),
    ("t8u", "bigint unsigned", ["18446744073709551615", "9223372036854775808", "0"]),
    ("d1", "decimal(12,2)", ["-9999999999.99", "9999999999.99", "0", "-0.01", "0.01", "123456.78"]),
    ("d2", "decimal(65,30)", ["-1.000000000000000000000000000001", f"{'9' * 35}.{'9' * 30}", "0"]),
    ("d3", "decimal(9,9)", ["-0.999999999", "0.000000001", "0"]),
    ("d4", "decimal(38,0)", ["9" * 38, "-" + "9" * 38, "0", "12345678901234567890"]),
    ("d5", "decimal(19,10)", ["-999999999.9999999999", "1.0000000001", "100000000.5"]),
    ("d6", "decimal(65,0)", ["9" * 65, "-" + "9" * 65, "1"]),
    ("f4", "float", ["1.5", "-3.4e38", "1e-38", "16777215", "0.1", "-0e0"]),
    ("f8", "double", ["-2.25e100", "0.1", "1e-300", "-0e0", "12345678901234567"]),
    ("c1", "char(10)", ["'abc'", "''", "'é€😀'", "' a '"]),
    ("c2", "char(200)", ["'x'", "repeat('é', 200)", "''"]),
    ("c3", "char(7) character set latin1", ["'é€'", "_latin1 0x818D8F909D", "''", "'plain'"]),
    ("v1", "varchar(20) character set latin1", ["'naïve €'", "_latin1 0x80A0FF", "''"]),
    ("v2", "varchar(300)", ["''", "repeat('ü', 300)", "'tab\\tnew\\nline\\\\ \\r'", "'\U0001d518nicode'"]),
    ("v3", "varchar(30) character set ascii", ["'ascii'", "''"]),
    ("v4", "varchar(63) character set utf8mb3", ["'drei €'", "''"]),
    ("x1", "tinytext", ["'tiny'", "''"]),
    ("x2", "text", ["repeat('ab', 5000)", "''"]),
    ("x3", "mediumtext character set latin1", ["repeat('é', 1000)", "'x'"]),
    ("x4", "longtext", ["repeat('long ', 20000)", "''"]),
    ("b1", "binary(8)", ["x'6162'", "x''", "x'0000000000000001'", "x'2020'"]),
    ("b2", "varbinary(300)", ["x'00'", "x''", "repeat(x'ff', 300)", "x'6100'"]),
    ("b3", "tinyblob", ["x'00ff'", "x''"]),
    ("b4", "blob", ["repeat(x'80', 3000)", "x''"]),
    ("b5", "longblob", ["repeat(x'0d0a', 50000)", "x'5c'"]),
    ("bits1", "bit(1)", ["b'0'", "b'1'"]),
    ("bits33", "bit(33)", ["b'100000000000000000000000000000001'", "0", "1"]),
    ("bits64", "bit(64)", ["18446744073709551615", "9223372036854775808", "0"]),
    ("da", "date", ["'0001-01-01'", "'9999-12-31'", "'2024-02-29'", "'1970-01-01'", "'1969-12-31'"]),
    ("ts0", "datetime", ["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'1970-01-01 00:00:00'"]),
    ("ts3", "datetime(3)", ["'1969-12-31 23:59:59.999'", "'2024-02-29 12:00:00.001'"]),
    ("ts6", "datetime(6)", ["'1970-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00'"]),
    ("in0", "timestamp null", ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"]),
    ("in5", "timestamp(5) null", ["'2024-03-31 01:30:00.12345'", "'2000-01-01 00:00:00'"]),
    ("in6", "timestamp(6) null", ["'2038-01-19 03:14:07.999999'", "'2024-10-27 00:30:00.000001'"]),
    ("du0", "time", ["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'"]),
    ("du1", "time(1)", ["'-00:00:00.1'", "'12:34:56.7'", "'-12:00:00'"]),
    ("du3", "time(3)", ["'-00:00:00.001'", "'838:59:58.999'", "'-838:59:58.999'"]),
    ("du6", "time(6)", ["'-00:00:00.000001'", "'23:59:59.999999'", "'-838:59:58.999999'"]),
    ("en", "enum('a','it''s','zé','')", ["'a'", "'it''s'", "'zé'", "''"]),
    ("se", "set('r','w','é','last')", ["'r'", "''", "'r,w,é,last'", "'é'"]),
    ("se2", "set(" + ",".join(f"'m{i}'" for i in range(64)) + ")", ["'m0,m63'", "'m31,m32'", "''"]),
    ("en2", "enum(" + ",".join(f"'e{i}'" for i in range(300)) + ")", ["'e299'", "'e0'", "'e255'", "'e256'"]),
    ("js", "json", ['\'{"a": [1, 2.5, null, true, "x"]}\'', "'[]'", "'\"text\"'", "'null'"]),
]
pytestmark = pytest.mark.every_server
IMAGES = ["FULL", "MINIMAL", "NOBLOB"]


def columns_of(server: Server) -> list[tuple[str, str, list[str]]]:
    return [(name, spelled(server, type), values) for name, type, values in COLUMNS if takes(server, type)]


def define(database: Database) -> None:
    columns = ", ".join(f"{name} {type}" for name, type, _ in columns_of(database.server))
    database.execute(f"CREATE TABLE wide (id int PRIMARY KEY AUTO_INCREMENT, {columns}) ROW_FORMAT=DYNAMIC")


def workload(server: Server, seed: int, rows: int) -> list[str]:
    """Edges one by one, then mixtures: inserts with gaps, updates of some columns, deletes, moved keys."""
    draw, columns = random.Random(seed), columns_of(server)
    statements = []
    longest = max(len(values) for _, _, values in columns)
    for place in range(longest):
        values = ", ".join(values[place % len(values)] for _, _, values in columns)
        statements.append(f"INSERT INTO wide VALUES ({place + 1}, {values})")
    statements.append("INSERT INTO wide (id) VALUES (100), (101)")
    for number in range(200, 200 + rows):
        chosen = [c for c in columns if draw.random() < 0.6]
        values = ", ".join("NULL" if draw.random() < 0.2 else draw.choice(v) for _, _, v in chosen)
        statements.append(f"INSERT INTO wide (id, {', '.join(n for n, _, _ in chosen)}) VALUES ({number}, {values})")
    for _ in range(rows):
        some = draw.sample(columns, draw.randint(1, 4))
        assigned = ", ".join(f"{n} = {draw.choice([*v, 'NULL'])}" for n, _, v in some)
        low = draw.randint(1, 200 + rows)
        statements.append(f"UPDATE wide SET {assigned} WHERE id BETWEEN {low} AND {low + 5}")
    statements.append(f"UPDATE wide SET id = id + 10000 WHERE id > {200 + rows // 2}")
    statements.append("DELETE FROM wide WHERE id % 7 = 3")
    return statements


NEEDS_IMAGES = pytest.mark.every_server("row images")


@pytest.mark.parametrize("image", ["FULL", *(pytest.param(image, marks=NEEDS_IMAGES) for image in IMAGES[1:])])
@pytest.mark.one_case(
    "native-mysql-FULL",
    "python-mariadb-FULL",
    "native-mariadb-NOBLOB",
    "python-mysql-NOBLOB",
    "native-mysql-MINIMAL",
    "python-mariadb-MINIMAL",
)
def test_mysql_live_values_equal_select(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable, image: str
) -> None:
    database = source_database(mysql_family)
    define(database)
    follower = follow(database)
    follower.begin()
    follower.run(
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'",
        *([f"SET binlog_row_image = '{image}'"] if knows(mysql_family, "row images") else []),
        *workload(mysql_family, 7, 40),
    )
    assert follower.told("wide") == follower.read("wide")


@pytest.mark.every_server("row metadata")
def test_rule_19_any_amount_of_row_metadata(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    """Switched in the middle of one log. MySQL knows no NO_LOG; before 8.0 it logs less than that."""
    database = source_database(mysql_family)
    define(database)
    follower = follow(database)
    statements = workload(mysql_family, 8, 5)
    amounts = ["MINIMAL", "FULL", "MINIMAL", *(["NO_LOG", "FULL"] if mysql_family.name == "mariadb" else [])]
    share = -(-len(statements) // len(amounts))
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        try:
            follower.begin()
            for place, amount in enumerate(amounts):
                cursor.execute(f"SET GLOBAL binlog_row_metadata = '{amount}'")
                some = statements[place * share : (place + 1) * share]
                database.execute("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'", *some)
            follower.take()
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    assert follower.told("wide") == follower.read("wide")


@pytest.mark.one_case("native-mysql", "python-mariadb")
def test_mysql_live_columns_of_every_count(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    """Null bitmaps of every width, a column count that does not fit one byte."""
    database = source_database(mysql_family)
    for count in (1, 7, 8, 9, 16, 17, 25, 64, 250, 251, 260):
        columns = ", ".join(f"c{i} tinyint" for i in range(count - 1))
        database.execute(f"CREATE TABLE n{count} (id int PRIMARY KEY{', ' * (count > 1)}{columns})")
    follower = follow(database)
    follower.begin()
    for table in follower.tables:
        columns = len(follower.tables[table].columns)
        rows = (["7", *("NULL" if i % 3 else str(i % 100) for i in range(columns - 1))], ["8", *["1"] * (columns - 1)])
        database.execute(*(f"INSERT INTO {table.name} VALUES ({', '.join(row)})" for row in rows))
    follower.take()
    for table in follower.tables:
        assert follower.told(table.name) == follower.read(table.name)


@pytest.mark.every_server("generated columns", "invisible columns")
def test_mysql_live_generated_and_invisible_columns(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE g (id int PRIMARY KEY, a int, v int AS (a * 2) VIRTUAL, s int AS (a * 3) STORED,"
        " h int INVISIBLE DEFAULT 5, t varchar(20), u varchar(30) AS (concat(t, '!')) VIRTUAL, last int)"
    )
    for image in IMAGES:
        database.execute("TRUNCATE TABLE g")
        follower = follow(database)
        follower.begin()
        follower.run(
            f"SET binlog_row_image = '{image}'",
            "INSERT INTO g (id, a, t, last) VALUES (1, 10, 'x', 1), (2, NULL, NULL, 2)",
            "UPDATE g SET a = 11 WHERE id = 1",
            "DELETE FROM g WHERE id = 2",
        )
        parked = [barrier.reason for chunk in follower.chunks() for barrier in chunk.barriers]
        if mysql_family.name == "mariadb" and image == "MINIMAL":
            assert len(parked) == 1 and "which the source computes" in parked[0]
        else:
            assert not parked
            assert follower.told("g") == follower.read("g")


@pytest.mark.every_server("fractions")
def test_pitfall_32_zero_dates_stop_or_become_null(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE z (k varchar(5), id int, d date, dt datetime(2), ts timestamp NULL, PRIMARY KEY (k, id))"
    )
    bad = ["'0000-00-00', NULL, NULL", "'2024-00-15', NULL, NULL", "NULL, '0000-00-00', NULL", "NULL, NULL, 0",
           "NULL, '2024-05-00 10:00:00', NULL", "'2023-02-31', NULL, NULL"]  # fmt: skip
    rows = ", ".join(f"('b', {number}, {values})" for number, values in enumerate(bad))
    statements = ["SET sql_mode = 'ALLOW_INVALID_DATES'", "INSERT INTO z VALUES ('a', 1, '2024-01-01', NULL, NULL)"]
    tolerant, strict = follow(database, ValueRules(zero_date="null")), follow(database)
    tolerant.begin()
    strict.begin()
    database.execute(*statements, f"INSERT INTO z VALUES ('a', 2, '2024-01-01', NULL, NULL), {rows}")
    with pytest.raises(ValueRefused) as refused:
        strict.take()
    message = str(refused.value)
    assert "column d" in message and "k=b, id=0" in message and 'zero_date = "null"' in message
    assert refused.value.position and refused.value.table == f"{database.name}.z"
    strict.stop()
    tolerant.take()
    images = tolerant.images("z")
    assert len(images) == 2 + len(bad)
    assert all((i["d"], i["dt"], i["ts"]) == (None, None, None) for i in images if i["k"] == "b")


@pytest.mark.every_server("fractions")
def test_pitfall_32_zero_dates_become_a_date(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    """The log and the load make the same of them, whatever time of day they have, and of a column that has its own choice. The
    dates of the calendar stay as they are."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE z (id int PRIMARY KEY, d date NOT NULL, dt datetime NOT NULL, f datetime(3) NOT NULL,"
        " ts timestamp(2) NULL, own date NULL, t varchar(9) CHARACTER SET gbk)",
        "CREATE TABLE k (d date, n int, at datetime, PRIMARY KEY (d, n, at))",
    )
    zeros = ((f"{database.name}.z", "own", "null"), (f"{database.name}.z", "f", "infinity"))
    finite, infinite = "0001-01-01", "-infinity"
    followers = {day: follow(database, ValueRules(zero_date=day, zero_dates=zeros)) for day in (finite, infinite)}
    for follower in followers.values():
        follower.begin()
    database.execute(
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        "INSERT INTO z VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00', 0, '0000-00-00', 'a'),"
        " (2, '2024-00-15', '2024-05-00 10:11:12', '2023-02-31 10:11:12.345', '2024-01-01', '2024-00-01', 'b'),"
        " (3, '2024-02-29', '1999-12-31 23:59:59', '2023-02-28 10:11:12.345', '1970-01-02', '2024-01-01', 'c')",
        "UPDATE z SET d = '0000-00-00', ts = 0 WHERE id = 3",
    )
    moment = {finite: f"{finite} 00:00:00.000000", infinite: infinite}
    zone = {finite: "+00", infinite: ""}
    for day, follower in followers.items():
        follower.take()
        at = moment[day]
        rows = [
            ["1", day, at, "infinity", at + zone[day], "\\N", "a"],
            ["2", day, at, "infinity", "2024-01-01 00:00:00.000000+00", "\\N", "b"],
            ["3", day, "1999-12-31 23:59:59.000000", "2023-02-28 10:11:12.345000", at + zone[day], "2024-01-01", "c"],
        ]
        expected = [("\t".join(row) + "\n").encode() for row in rows]
        assert follower.read("z") == expected
        assert follower.told("z") == expected
    database.execute("SET sql_mode = 'ALLOW_INVALID_DATES'", "INSERT INTO k VALUES ('0000-00-00', 1, '0000-00-00')")
    followers[infinite].take()
    expected = [b"-infinity\t1\t-infinity\n"]
    assert followers[infinite].told("k") == followers[infinite].read("k") == expected
    for follower, values in ((followers[finite], None), (followers[infinite], "('2024-00-15', 2, '2024-01-01')")):
        if values:  # another row's key must not become the same
            database.execute("SET sql_mode = 'ALLOW_INVALID_DATES'", f"INSERT INTO k VALUES {values}")
        for read in (follower.take, lambda follower=follower: follower.read("k")):
            with pytest.raises(ValueRefused, match="column d of the row with") as refused:
                read()
            assert "columns.zero_date" in refused.value.hint
        follower.stop()


@pytest.mark.every_server("fractions")
def test_pitfall_32_the_value_that_is_refused_is_named_beside_others(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    """A zero date that became something else is not the one."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE z (id int PRIMARY KEY, d date, t varchar(9) CHARACTER SET gbk, e date)")
    for zero_date, bad, column in (("null", "_gbk x'61a161', NULL", "t"), ("0001-01-01", "'fine', '0000-00-00'", "e")):
        rules = ValueRules(zero_date=zero_date, zero_dates=((f"{database.name}.z", "e", "stop"),))
        database.execute("DELETE FROM z")
        follower = follow(database, rules)
        follower.begin()
        database.execute("SET sql_mode = ''", f"INSERT INTO z VALUES (7, '0000-00-00', {bad})")
        for read in (follower.take, lambda follower=follower: follower.read("z")):
            with pytest.raises(ValueRefused, match=f"column {column} of the row with id=7 holds"):
                read()
        follower.stop()
