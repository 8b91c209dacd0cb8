"""What users of other products reported publicly, on routes that exist here: each input, loaded and streamed, is equal.

The reports, by number; what is written here is ours. Unsigned integers as negative ones: debezium 7568,
osheroff/mysql-binlog-connector-java 29. TIME beyond a day: debezium DBZ-342. BIT with a NUL byte, and its default:
dimitri/pgloader 684, 943. The empty label of an ENUM: dimitri/pgloader 686. ADD PARTITION ends the replica:
the4thdoctor/pg_chameleon 188. A name with an accent: the4thdoctor/pg_chameleon 138. IS NOT NULL in a computed column:
Altinity/clickhouse-sink-connector 1111. CREATE TRIGGER IF NOT EXISTS ends the parser: debezium DBZ-7881. A key that begins
with a text of few values, compared without case: apache/flink-cdc 2676, 4413. NaN and infinity: PeerDB-io/peerdb 554,
readysettech/readyset 1152. Whole numbers in scientific notation: dimitri/pgcopydb 127. Large values that an update leaves:
2ndQuadrant/pglogical 8, bruin-data/ingestr 805, xtdb/xtdb 5542.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario
from rigs.scenario_postgresql import FromPostgres

Make = Callable[..., Scenario]
MOST = "18446744073709551615, 4294967295, 16777215, 65535, 255"
KEYED = "SELECT ELT(1 + n % 3, 'aaa', 'Bbb', 'ccc'), CONCAT(IF(n % 2, 'k', 'K'), n), n FROM ({numbers}) AS numbers"
NUMBERS = "SELECT a.n * 1024 + b.n * 32 + c.n AS n FROM digits a, digits b, digits c"
TABLES = (
    "CREATE TABLE whole (id INT PRIMARY KEY, b BIGINT UNSIGNED, i INT UNSIGNED, m MEDIUMINT UNSIGNED, s SMALLINT UNSIGNED,"
    " t TINYINT UNSIGNED)",
    "CREATE TABLE spans (id INT PRIMARY KEY, at TIME, fine TIME(6))",
    "CREATE TABLE flags (id INT PRIMARY KEY, one BIT(1), many BIT(16) NOT NULL DEFAULT b'0')",
    "CREATE TABLE label (id INT PRIMARY KEY, kind ENUM('new', 'old'))",
    "CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (100))",
    "CREATE TABLE `készlet` (id INT PRIMARY KEY, `típus` VARCHAR(9) COMMENT 'típus, ''egy'' (1)')",
    "CREATE TABLE sums (id INT PRIMARY KEY, price DECIMAL(10, 2) NOT NULL, quantity INT, known INT"
    " GENERATED ALWAYS AS (price * quantity IS NOT NULL) STORED, gone INT AS (IF(quantity IS NULL, 1, NULL)) VIRTUAL)",
    "CREATE TABLE keyed (a VARCHAR(9) COLLATE utf8mb4_general_ci, b VARCHAR(9) COLLATE utf8mb4_general_ci, v INT,"
    " PRIMARY KEY (a, b)) DEFAULT CHARSET utf8mb4",
    "CREATE TABLE digits (n INT PRIMARY KEY)",
    f"INSERT INTO digits VALUES {', '.join(f'({n})' for n in range(32))}",
    f"INSERT INTO keyed {KEYED.format(numbers=NUMBERS)}",
)


def rows(first: int) -> list[str]:
    return [
        f"INSERT INTO whole VALUES ({first}, {MOST}), ({first + 1}, 9223372036854775808, 2147483648, 8388608, 32768, 128)",
        f"INSERT INTO spans VALUES ({first}, '838:59:59', '838:59:58.999999'), ({first + 1}, '-838:59:59', '-00:00:00.000001')",
        f"INSERT INTO flags VALUES ({first}, b'0', b'0'), ({first + 1}, b'1', b'100000000')",
        f"INSERT INTO flags (id) VALUES ({first + 2})",
        f"INSERT IGNORE INTO label VALUES ({first}, 'neither'), ({first + 1}, ''), ({first + 2}, NULL), ({first + 3}, 'old')",
        f"INSERT INTO parts VALUES ({first}, 1)",
        f"INSERT INTO `készlet` VALUES ({first}, 'egyéb')",
        f"INSERT INTO sums (id, price, quantity) VALUES ({first}, 1.5, 2), ({first + 1}, 0, NULL)",
    ]


@pytest.mark.quick
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("server", ["mariadb", pytest.param("mysql", marks=pytest.mark.long)])
def test_what_was_reported_of_a_mysql_or_mariadb_source(
    server: str, request: pytest.FixtureRequest, scenario: Make
) -> None:
    made = scenario(request.getfixturevalue(server), *TABLES, *rows(1))
    made.run_until_caught_up()
    made.assert_identical()
    made.source.execute(*rows(11))
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute(
        "ALTER TABLE parts ADD PARTITION (PARTITION high VALUES LESS THAN (200))",
        "CREATE TRIGGER IF NOT EXISTS counted BEFORE INSERT ON parts FOR EACH ROW SET NEW.v = NEW.v + 1",
        "INSERT INTO parts VALUES (150, 1)",
        "UPDATE keyed SET b = UPPER(b), v = -v WHERE a = 'BBB' AND v % 7 = 0",
        "DELETE FROM keyed WHERE v % 11 = 0",
        *rows(21),
    )
    made.sync(running)
    running.stop()
    assert set(made.states().values()) == {"streaming"}
    made.assert_identical()


VALUES = (
    "CREATE TABLE odd (id int PRIMARY KEY, n numeric, m numeric(12, 2), d double precision, r real)",
    "CREATE TABLE category (category_id int PRIMARY KEY, big bigint, v numeric)",
    "CREATE TABLE held (id int PRIMARY KEY, many int[] NOT NULL, doc text, v int)",
    "CREATE TABLE whole_row (id int PRIMARY KEY, doc text, v int)",
    "ALTER TABLE whole_row REPLICA IDENTITY FULL",
    "ALTER TABLE held ALTER many SET STORAGE EXTERNAL, ALTER doc SET STORAGE EXTERNAL",
    "ALTER TABLE whole_row ALTER doc SET STORAGE EXTERNAL",
)
LARGE = "(SELECT array_agg(n) FROM generate_series(1, 4000) n)"


def values(first: int) -> list[str]:
    """In one transaction and apart: the row is new, and a part of it changes."""
    return [
        f"INSERT INTO odd VALUES ({first}, 'NaN', 'NaN', 'NaN', 'NaN'), ({first + 1}, 'Infinity', 1, '-Infinity', 'Infinity')",
        f"INSERT INTO category VALUES ({2_129_020 + first}, 2129020000000 + {first}, 2129020), ({first}, -1e15, 1e-20)",
        f"BEGIN; INSERT INTO held VALUES ({first}, {LARGE}, repeat('x', 20000), 1);"
        f" UPDATE held SET v = 2 WHERE id = {first}; COMMIT",
        f"INSERT INTO whole_row VALUES ({first}, repeat('y', 20000), 1)",
        f"UPDATE whole_row SET v = v + 1 WHERE id = {first}",
        f"UPDATE held SET v = v + 1 WHERE id = {first}",
    ]


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_what_was_reported_of_a_postgresql_source(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    made = scenario(logical_postgresql, *VALUES, *values(1))
    made.run_until_caught_up()
    made.source.execute(*values(11), "UPDATE held SET v = -v", "UPDATE whole_row SET id = id + 100")
    made.run_until_caught_up()
    assert set(made.states().values()) == {"streaming"}
    made.assert_identical()
