"""Known traps of MySQL and MariaDB as targets, each a table or two that go the whole way: loaded, followed, and compared with
the source after both; some rows change by single statements, many by a staging table. One job has them all.

What one part alone can show stands with the part (test_mysql_target_apply.py, _load, _tables, _values, _preflight).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from anabranch.model.ids import TableId
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql

PAIRS = (
    ("mysql", "mariadb"),
    ("mariadb", "mysql"),
    *(pytest.param(pair, marks=pytest.mark.long) for pair in (("mysql", "mysql"), ("mariadb", "mariadb"))),
)
MANY = 150  # more rows than go without a staging table
ODD = 'o`r.der %s "x" \'\\ü'
QUOTED, LONG = '`o``r.der %s "x" \'\\ü`', "ü" * 64
# Character set -> letters, of which some have 0x5C as their second byte: LOAD DATA takes that for a backslash.
WIDE = {
    "sjis": "ソ表\\~",
    "cp932": "ソ表①\\",
    "gbk": "誠縗\\",
    "big5": "功許蓋\\",
    "latin1": "€‰\\\x81ÿ",
    "euckr": "가\\",
    "ujis": "ソ表\\",
}
MEMBERS = ",".join(f"'m{number}'" for number in range(64))
LAX = "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'"


@dataclass(frozen=True)
class Trap:
    """Tables of the source with rows, and what changes them behind the load. `source`: the one that has such tables."""

    made: tuple[str, ...]
    changed: tuple[str, ...]
    source: str = ""


def rows(columns: str, first: int = 1000) -> str:
    """Many rows, of what the columns say of `{n}`."""
    return "VALUES " + ", ".join(f"({columns.replace('{n}', f'{n:04}')})" for n in range(first, first + MANY))


def wide() -> Trap:
    """A table whose key has a column of each."""
    said = {charset: text.replace("\\", "\\\\") for charset, text in WIDE.items()}
    columns = ", ".join(f"{one} VARCHAR(20) CHARACTER SET {one}, {one}_text TEXT CHARACTER SET {one}" for one in WIDE)

    def row(key: Callable[[str], str]) -> str:
        return "(" + ", ".join(f"'{key(text)}', '{text}\\n\\t{text}\\N'" for text in said.values()) + ")"

    many = ", ".join(row(lambda text, n=number: f"{text[0]}{n}") for number in range(MANY))  # type: ignore[misc]  # the default of a lambda has no type
    return Trap(
        (
            f"CREATE TABLE wide ({columns}, PRIMARY KEY ({', '.join(WIDE)}))",
            f"INSERT INTO wide VALUES {row(lambda text: text)}, {row(lambda text: text[0])}, {many}",
        ),
        (
            f"UPDATE wide SET {', '.join(f'{one}_text = CONCAT({one}, {one})' for one in WIDE)}",
            f"UPDATE wide SET {', '.join(f'{one} = {one}_text' for one in WIDE)} WHERE sjis = '{said['sjis']}'",
            f"DELETE FROM wide WHERE gbk = '{said['gbk'][0]}'",
        ),
    )


def collated(source: str, loose: str, less: str) -> Trap:
    """Of collations that the other server does not have."""
    return Trap(
        (
            f"CREATE TABLE emoji (k VARCHAR(20) COLLATE {loose} PRIMARY KEY, u VARCHAR(20) COLLATE {less} UNIQUE)",
            "INSERT INTO emoji VALUES ('😀', '🍣'), ('😁', '🍺'), ('a', 'a'), ('a ', 'á'), ('ß', 'x'), ('', NULL)",
        ),
        (
            "DELETE FROM emoji WHERE k = '😀'",
            "UPDATE emoji SET u = '🍣' WHERE k = '😁'",
            "DELETE FROM emoji WHERE k = 'a '",
            "UPDATE emoji SET k = 'A' WHERE k = 'a'",
        ),
        source,
    )


MOVED = Trap(
    (
        "CREATE TABLE moved (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE moved_child (id INT PRIMARY KEY, at INT, FOREIGN KEY (at) REFERENCES moved (id) ON UPDATE CASCADE)",
        "INSERT INTO moved VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
        "INSERT INTO moved " + rows("{n}, 0"),
        "INSERT INTO moved_child SELECT id, id FROM moved",
    ),
    (
        "UPDATE moved SET id = id + 1 WHERE id < 10 ORDER BY id DESC",
        "UPDATE moved SET id = id + 1 WHERE id >= 1000 ORDER BY id DESC",
        "START TRANSACTION",
        "UPDATE moved SET id = 99 WHERE id = 2",
        "UPDATE moved SET id = 2 WHERE id = 3",
        "UPDATE moved SET id = 3 WHERE id = 99",
        "COMMIT",
    ),
)
TURNED = Trap(
    (
        "CREATE TABLE turned (id INT PRIMARY KEY, u VARCHAR(20) UNIQUE)",
        "INSERT INTO turned VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
        "INSERT INTO turned " + rows("{n}, 'w{n}'"),
    ),
    (
        "START TRANSACTION",
        "UPDATE turned SET u = NULL WHERE id = 1",
        "UPDATE turned SET u = 'a' WHERE id = 2",
        "UPDATE turned SET u = 'b' WHERE id = 3",
        "UPDATE turned SET u = 'c' WHERE id = 1",
        "DELETE FROM turned WHERE id = 4",
        "INSERT INTO turned VALUES (5, 'd'), (6, 'f')",
        "UPDATE turned SET u = 'g' WHERE id = 6",
        "DELETE FROM turned WHERE id = 6",
        "INSERT INTO turned VALUES (6, 'g '), (7, 'h')",
        "DELETE FROM turned WHERE id = 7",
        "UPDATE turned SET u = CONCAT(u, '.') WHERE id >= 1000",
        "UPDATE turned SET u = CONCAT('w', id + 1) WHERE id >= 1000",
        "COMMIT",
    ),
)
NAMED = Trap(
    (
        f"CREATE TABLE {QUOTED} (`select` INT, `a``b` VARCHAR(9), `%s` INT, `a.b` INT, `c\"'\\` TEXT, `@x, ?` INT,"
        f" `{LONG}` INT, PRIMARY KEY (`select`, `a``b`))",
        f"INSERT INTO {QUOTED} VALUES (1, 'x', 1, 1, '%s', 1, 1), (2, '`', 1, 1, NULL, 1, 1)",
        f"INSERT INTO {QUOTED} " + rows("{n}, '%s', 1, 1, '`', 1, 1"),
    ),
    (
        f"UPDATE {QUOTED} SET `%s` = 5, `a.b` = `a.b` + 1, `{LONG}` = 7, `@x, ?` = NULL",
        f"UPDATE {QUOTED} SET `c\"'\\` = `a``b`, `select` = 0 WHERE `select` = 1",
        f"DELETE FROM {QUOTED} WHERE `select` = 2",
    ),
)
PADDED = Trap(  # the log has them without the zero bytes at their end
    (
        "CREATE TABLE padded (id BINARY(4) PRIMARY KEY, v INT)",
        "INSERT INTO padded VALUES (x'01000000', 1), (x'00000000', 1), (x'00000100', 1), (x'5c0a0900', 1)",
        "INSERT INTO padded " + rows("x'{n}0000', 1"),
        "CREATE TABLE padded_apart (id VARBINARY(4) PRIMARY KEY, v INT)",
        "INSERT INTO padded_apart VALUES (x'', 1), (x'00', 1), (x'01', 1), (x'0100', 1), (x'010000', 1)",
    ),
    (
        "UPDATE padded SET v = 2",
        "DELETE FROM padded WHERE id IN (x'00000000', x'5c0a0900')",
        "UPDATE padded SET id = x'02000000' WHERE id = x'01000000'",
        "UPDATE padded_apart SET v = LENGTH(id) + 10",
        "DELETE FROM padded_apart WHERE id IN (x'00', x'0100')",
    ),
)
PADDED_UUID = Trap(
    (
        "CREATE TABLE padded_uuid (id UUID, six INET6, v INT, PRIMARY KEY (id, six))",
        "INSERT INTO padded_uuid VALUES ('123e4567-e89b-12d3-a456-426655440000', '2001:db8::', 1),"
        " ('00000000-0000-0000-0000-000000000000', '::', 1), ('11111111-1111-1111-1100-000000000000', '::1:0', 1)",
    ),
    ("UPDATE padded_uuid SET v = 2", "DELETE FROM padded_uuid WHERE six = '::'"),
    "mariadb",
)
CLOCKS = Trap(
    (
        "CREATE TABLE clocks (at TIMESTAMP(6) NOT NULL DEFAULT '2001-01-01', wall DATETIME(6), day DATE, clock TIME(6), v INT,"
        " PRIMARY KEY (at))",
        "INSERT INTO clocks VALUES (FROM_UNIXTIME(1), '2024-03-31 02:30:00', '2024-03-31', '23:59:59.999999', 1),"
        " (FROM_UNIXTIME(2147483647.499999), '9999-12-31 23:59:59.999999', '1000-01-01', '00:00:00', 1),"
        " ('2024-03-31 02:30:00', '2024-03-31 02:30:00', '2024-10-27', '02:30:00', 1),"
        " ('2024-10-27 02:30:00.5', '2024-10-27 02:30:00.5', NULL, NULL, 1)",
        "INSERT INTO clocks " + rows("FROM_UNIXTIME({n}), '2024-03-31 02:30:00', '2024-03-31', '02:30:00', 1"),
    ),
    (
        "INSERT INTO clocks VALUES ('2024-03-31 03:30:00', '2024-03-31 03:30:00', '2024-03-31', '03:30:00', 1)",
        "UPDATE clocks SET v = 2, wall = wall + INTERVAL 1 SECOND WHERE wall < '9000-01-01'",
        "DELETE FROM clocks WHERE day = '1000-01-01' OR at = '2024-10-27 02:30:00.5'",
        "UPDATE clocks SET at = at + INTERVAL 5 HOUR WHERE at = '2024-03-31 02:30:00'",
    ),
)
ZEROS = Trap(
    (
        "CREATE TABLE zeros (d DATE, id INT, wall DATETIME(3), at TIMESTAMP NULL, y YEAR, clock TIME(6), t CHAR(4), v INT,"
        " PRIMARY KEY (d, id))",
        "INSERT INTO zeros VALUES ('0000-00-00', 1, '0000-00-00 00:00:00', '0000-00-00 00:00:00', 0, '-838:59:59', '0', 1),"
        " ('2024-02-29', 2, '0001-01-01 00:00:00', NULL, '0', '838:59:59', '', 1),"
        " ('1000-01-01', 3, NULL, NULL, 1901, '-00:00:00.000001', NULL, 1),"
        " ('0000-00-00', 4, NULL, NULL, 2155, '24:00:00', '00', 1)",
        "INSERT INTO zeros " + rows("'0000-00-00', {n}, '0000-00-00', '0000-00-00', 0, '-00:00:01', '0', 1"),
    ),
    (
        "UPDATE zeros SET v = 2",
        "INSERT INTO zeros VALUES ('0000-00-00', 5, '0000-00-00 00:00:00', '0000-00-00 00:00:00', 0, '-100:00:00.5', '0', 1)",
        "DELETE FROM zeros WHERE id = 1",
        "UPDATE zeros SET d = '2024-01-01', wall = '0000-00-00 00:00:00' WHERE id = 4",
    ),
)
DOCUMENTS = Trap(
    (
        "CREATE TABLE documents (id INT PRIMARY KEY, doc JSON)",
        "CREATE TABLE documents_bag (doc JSON, n INT)",
        "INSERT INTO documents VALUES (1, JSON_OBJECT('d', CAST(1.50 AS DECIMAL(9,2)), 'one', CAST(1 AS DECIMAL(3,1)),"
        " 'f', 1e0,"
        " 'at', CAST('2024-02-29 12:00:00.5' AS DATETIME(6)), 'day', CAST('2024-02-29' AS DATE),"
        " 'clock', CAST('-25:00' AS TIME),"
        " 'raw', x'00ff5c', 'big', 18446744073709551615, 'low', -9223372036854775808, 's', 'a\\\\b\\t\"', 'none', NULL)),"
        " (2, 'null'), (3, NULL), (4, '\"\"'), (5, '{}'), (6, '[1, 1.0, 10000000000000000000, true]')",
        "INSERT INTO documents_bag SELECT doc, id FROM documents",
    ),
    (
        "UPDATE documents SET doc = JSON_SET(doc, '$.clock', CAST('10:00' AS TIME), '$.d', CAST(2 AS DECIMAL(9,2)))"
        " WHERE id = 1",
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "UPDATE documents SET doc = JSON_REPLACE(doc, '$.s', 'changed', '$.one', 2.5) WHERE id = 1",
        "UPDATE documents SET doc = JSON_REMOVE(doc, '$[1]') WHERE id = 6",
        "SET SESSION binlog_row_value_options = ''",
        "DELETE FROM documents_bag WHERE n IN (2, 3, 6)",
        "UPDATE documents_bag SET n = 10 WHERE n = 1",
    ),
    "mysql",
)
DOCUMENTS_AS_TEXT = Trap(
    (
        "CREATE TABLE documents_bag (doc JSON, n INT)",
        'INSERT INTO documents_bag VALUES (\'{"b": 1.50, "a": [1.0, 18446744073709551615, "\\\\\\\\ \\\\u20ac"]}\', 1),'
        " ('null', 2),"
        " (NULL, 3), ('[]', 4)",
    ),
    ("DELETE FROM documents_bag WHERE n IN (2, 3)", "UPDATE documents_bag SET n = 10 WHERE n = 1"),
    "mariadb",
)
FOLDED = Trap(
    (
        "CREATE TABLE folded (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "INSERT INTO folded VALUES ('cafe', 1), ('a', 1), ('b', 1), ('c', 1), ('d', 1)",
        "INSERT INTO folded " + rows("'e{n}', 1"),
    ),
    (
        "UPDATE folded SET k = 'café' WHERE k = 'cafe'",
        "UPDATE folded SET k = 'A' WHERE k = 'a'",
        "UPDATE folded SET k = 'b ' WHERE k = 'b'",
        "START TRANSACTION",
        "DELETE FROM folded WHERE k = 'c'",
        "INSERT INTO folded VALUES ('C ', 2)",
        "DELETE FROM folded WHERE k = 'd'",
        "INSERT INTO folded VALUES ('D', 2)",
        "DELETE FROM folded WHERE k = 'd'",
        "COMMIT",
        "UPDATE folded SET k = REPLACE(k, 'e', 'É') WHERE k LIKE 'e%'",
    ),
)
ALIKE = Trap(
    (
        "CREATE TABLE alike (w VARCHAR(20) COLLATE utf8mb4_general_ci, n INT)",
        "INSERT INTO alike VALUES ('😀', 1), ('😁', 1), ('a', 1), ('A', 1), ('a ', 1), ('á', 1), ('a', 1), ('', 1), (NULL, 1)",
    ),
    (
        "DELETE FROM alike WHERE BINARY w = '😀'",
        "DELETE FROM alike WHERE BINARY w = 'A'",
        "UPDATE alike SET n = 2 WHERE BINARY w = 'á'",
        "UPDATE alike SET n = 3 WHERE BINARY w = 'a ' OR w IS NULL",
        "DELETE FROM alike WHERE BINARY w = 'a' LIMIT 1",
    ),
)
NUMBERS = Trap(
    (
        f"CREATE TABLE numbers (big BIGINT UNSIGNED, b BIT(64), f FLOAT, d DOUBLE, exact DECIMAL(65,30), flag TINYINT(1),"
        " one BIT(1),"
        f" word CHAR(9), void VARCHAR(9), some SET({MEMBERS}), v INT, PRIMARY KEY (big, b))",
        "INSERT INTO numbers VALUES"
        " (18446744073709551615, 1, 16777215, -0e0, REPEAT('9', 35), 127, 1, '', '', 'm0,m63', 1),"
        f" (9223372036854775808, {2**64 - 1}, 0.1, 5e-324, '-0.{'0' * 29}1', 2, 0, 'x ', ' ', '', 1),"
        " (0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1)",
    ),
    (
        "UPDATE numbers SET v = 2, f = f / 3, d = d / 3, flag = -128",
        "UPDATE numbers SET void = NULL, word = ' ' WHERE big = 18446744073709551615",
        "DELETE FROM numbers WHERE big = 9223372036854775808",
        f"INSERT INTO numbers VALUES (1, {2**63}, 3.4028234e38, -1.7976931348623157e308, 1.10, 2, 1, NULL, '', 'm1', 1)",
    ),
)
IMAGES = Trap(  # the log has of an update what has changed
    (
        "CREATE TABLE images (id INT PRIMARY KEY, a TEXT, b BLOB, c INT DEFAULT 7)",
        "INSERT INTO images " + rows("{n}, 'a{n}', x'00', 1", 0),
    ),
    (
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE images SET c = NULL WHERE id = 1",
        "UPDATE images SET a = 'other' WHERE id > 1",
        "START TRANSACTION",
        "UPDATE images SET b = x'01' WHERE id = 2",
        "UPDATE images SET c = 5 WHERE id = 2",
        "DELETE FROM images WHERE id = 3",
        "COMMIT",
        "SET SESSION binlog_row_image = 'NOBLOB'",
        "UPDATE images SET c = c + 1 WHERE id BETWEEN 4 AND 6",
        "SET SESSION binlog_row_image = 'FULL'",
    ),
)
TRAPS: tuple[Trap, ...] = (
    MOVED, TURNED, NAMED, PADDED, PADDED_UUID, CLOCKS, ZEROS, DOCUMENTS, DOCUMENTS_AS_TEXT, FOLDED, ALIKE, NUMBERS, IMAGES,
    wide(),
    collated("mysql", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci"),
    collated("mariadb", "uca1400_nopad_ai_ci", "uca1400_nopad_as_ci"),
)  # fmt: skip


@dataclass
class Arrived:
    """Keep the differences that were found between both ends, after the load and after the changes; none where they agree."""

    here: JobHere
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def compare(self, when: str) -> None:
        for table in self.here.made.source_tables():
            try:
                self.here.made.assert_identical(table)
            except AssertionError as error:
                self._note(table, f"{when}: {error}")
        for result in self.here.verify().tables:
            if not result.identical:
                self._note(result.source.name, f"verify behind the {when}: {result}")

    def _note(self, table: str, what: str) -> None:
        self.wrong.setdefault(table, []).append(what)

    def well(self, *tables: str) -> None:
        """Assert it of tables, and that they are followed."""
        states = self.here.made.states()
        named = {str(TableId("s", table)).removeprefix("s.") for table in tables}
        assert {table: states.get(table) for table in named} == dict.fromkeys(named, "streaming")
        assert [one for table in tables for one in self.wrong.get(table, ())] == []


@pytest.fixture(scope="module", params=PAIRS, ids=" to ".join)
def arrived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arrived]:
    """The job, from a server at +05:00 to one at -03:00. What it keeps here beside its trail is lost on the way."""
    source, target = (request.getfixturevalue(name) for name in request.param)
    database, there = create_database(source, "traps"), create_database(target, "traps")
    traps = [trap for trap in TRAPS if trap.source in ("", request.param[0])]
    with in_zone(target, "-03:00"), in_zone(source, "+05:00"):
        database.execute(LAX, *(one for trap in traps for one in trap.made))
        made = MysqlToMysql(database, there, tmp_path_factory.mktemp("traps"), name=unique_name("job"))
        made.write_job('[types]\nzero_date = "-infinity"\n')
        found = Arrived(JobHere(made))
        found.here.load()
        found.here.stream()
        found.compare("load")
        for kept in made.home.iterdir():
            if kept.name != "trail":
                shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
        database.execute(LAX, *(one for trap in traps for one in trap.changed))
        found.here.stream()
        found.compare("changes")
    yield found
    found.here.job.drop(execute=True)
    drop_database(there)
    drop_database(database)


@contextmanager
def in_zone(server: Server, zone: str) -> Iterator[None]:
    """What sessions of a server begin with that do not say otherwise."""
    place = create_database(server, "zone")
    ((before,),) = place.query("SELECT @@GLOBAL.time_zone")
    place.execute(f"SET GLOBAL time_zone = '{zone}'")
    try:
        yield
    finally:
        place.execute(f"SET GLOBAL time_zone = '{before}'")
        drop_database(place)


def test_pitfall_09_10_keys_that_move_and_take_children_along(arrived: Arrived) -> None:
    arrived.well("moved", "moved_child")


def test_pitfall_11_12_13_unique_values_go_round_and_keys_come_back(arrived: Arrived) -> None:
    arrived.well("turned")


def test_rule_20_pitfall_07_columns_that_the_log_leaves_out(arrived: Arrived) -> None:
    arrived.well("images")


def test_pitfall_33_34_35_37_53_numbers_bits_and_empty_texts(arrived: Arrived) -> None:
    arrived.well("numbers")


def test_pitfall_39_names_that_have_to_be_quoted(arrived: Arrived) -> None:
    arrived.well(ODD)


def test_pitfall_52_zero_bytes_at_the_end_of_a_key(arrived: Arrived) -> None:
    arrived.well("padded", "padded_apart", *["padded_uuid"] * (arrived.here.made.source.server.name == "mariadb"))


def test_pitfall_31_54_servers_in_other_time_zones(arrived: Arrived) -> None:
    arrived.well("clocks")


def test_pitfall_55_zero_dates_and_times_beyond_a_day(arrived: Arrived) -> None:
    arrived.well("zeros")


def test_pitfall_38_56_types_inside_of_documents(arrived: Arrived) -> None:
    arrived.well("documents_bag", *["documents"] * (arrived.here.made.source.server.name == "mysql"))


def test_pitfall_57_letters_that_end_in_a_backslash(arrived: Arrived) -> None:
    arrived.well("wide")
    there = arrived.here.made.target.query(
        "SELECT COLUMN_NAME, CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND"
        " TABLE_NAME = 'wide'",
        [arrived.here.made.there],
    )
    assert {name.removesuffix("_text") for name, charset in there if charset == name.removesuffix("_text")} == {*WIDE}


def test_pitfall_58_a_collation_that_the_target_does_not_have(arrived: Arrived) -> None:
    arrived.well("emoji")


def test_pitfall_59_keys_that_change_by_case_accent_or_a_blank(arrived: Arrived) -> None:
    arrived.well("folded")


def test_pitfall_60_rows_without_a_key_that_a_collation_takes_for_equal(arrived: Arrived) -> None:
    arrived.well("alike")


def test_rule_31_34_what_is_kept_here_is_not_needed_and_load_and_log_agree(arrived: Arrived) -> None:
    assert arrived.wrong == {}
