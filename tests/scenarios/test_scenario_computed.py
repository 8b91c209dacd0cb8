"""Computed columns over keys that act (K1): what the log does not show, both ends real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.foreign_keys_postgresql import ordinary_user
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import job_at_mysql

Make = Callable[..., Scenario]
# Keys that change rows are followed where the source compares their texts exactly.
EXACT = {"mariadb": "utf8mb4_nopad_bin", "mysql": "utf8mb4_0900_bin"}
ACTS = "FOREIGN KEY (boss) REFERENCES boss (id) ON DELETE SET NULL ON UPDATE CASCADE"
TABLES = (
    "CREATE TABLE boss (id INT PRIMARY KEY)",
    "CREATE TABLE named (code VARCHAR(12) COLLATE {exact} PRIMARY KEY)",
    # the input
    f"CREATE TABLE plain (id INT PRIMARY KEY, boss INT, label VARCHAR(20) AS (CONCAT('b', boss)) VIRTUAL, {ACTS})",
    # over each other, out of order, in a unique key and an index, with functions that PostgreSQL has not
    "CREATE TABLE deep (id INT PRIMARY KEY, boss INT, n DECIMAL(8,3), word VARCHAR(30), at DATETIME(3), bits BIT(5),"
    " half DOUBLE, f FLOAT, raw BINARY(4), kind ENUM('a','ü'), `odd name,` VARCHAR(9),"
    " one VARCHAR(60) AS (CONCAT_WS('/', boss, n, word)) VIRTUAL, two VARCHAR(70) AS (CONCAT(one, ':', HEX(raw))) VIRTUAL,"
    " crc BIGINT AS (CRC32(CONCAT(IFNULL(boss, '-'), DAYOFYEAR(at), MICROSECOND(at), kind, bits + 0))) VIRTUAL,"
    " sum DOUBLE AS (half * 3 + f + IFNULL(boss, 0.1)) VIRTUAL, quoted VARCHAR(40) AS"
    " (CONCAT('it''s `boss` \\\\', IFNULL(boss, 'none'), `odd name,`)) VIRTUAL, short VARCHAR(3) AS"
    " (CONCAT('b', boss)) VIRTUAL, gone INT AS (IF(boss IS NULL, 1, NULL)) VIRTUAL, aside INT AS (id + 1) VIRTUAL,"
    f" UNIQUE (two), KEY (crc), {ACTS})",
    # without a key; through another table; over a key of two columns that take no part in the expression
    f"CREATE TABLE keyless (boss INT, word VARCHAR(9), label VARCHAR(40) AS (CONCAT(boss, '-', word)) VIRTUAL, {ACTS})",
    "CREATE TABLE middle (id INT PRIMARY KEY, code VARCHAR(12) COLLATE {exact} UNIQUE,"
    " label VARCHAR(40) AS (REVERSE(code)) VIRTUAL,"
    " FOREIGN KEY (code) REFERENCES named (code) ON DELETE SET NULL ON UPDATE CASCADE)",
    "CREATE TABLE lower_one (id INT PRIMARY KEY, code VARCHAR(12) COLLATE {exact},"
    " label VARCHAR(40) AS (SHA1(code)) VIRTUAL,"
    " FOREIGN KEY (code) REFERENCES middle (code) ON DELETE SET NULL ON UPDATE CASCADE)",
)
ROWS = (
    "INSERT INTO boss VALUES (1), (2), (3), (4), (5), (6)",
    "INSERT INTO named VALUES ('x'), ('ÿ'), ('ümlaut')",
    "INSERT INTO plain (id, boss) VALUES (1, 1), (2, 1), (3, 2), (4, 3), (5, 4)",
    "INSERT INTO deep (id, boss, n, word, at, bits, half, f, raw, kind, `odd name,`) VALUES"
    " (1, 1, 1.5, 'a\\'b\\\\', '2024-02-29 12:00:00.5', 5, 0.1, 0.3, x'00ff0000', 'ü', 'x'),"
    " (2, 1, NULL, 'é\t\n', '1999-12-31', 31, 1e300, 1e-9, x'5c780000', 'a', ''),"
    " (3, 2, 0, '', '2024-01-01', 0, -0.0, 16777215, x'00000001', 'a', NULL),"
    " (4, 3, 2.250, 'w', '2024-01-01', 0, NULL, 2, x'00000002', 'a', 'q')",
    "INSERT INTO keyless (boss, word) VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, NULL), (3, 'c'), (NULL, 'z')",
    "INSERT INTO middle (id, code) VALUES (1, 'x'), (2, 'ÿ'), (3, 'ümlaut')",
    "INSERT INTO lower_one (id, code) VALUES (1, 'x'), (2, 'ÿ'), (3, 'ümlaut'), (4, 'x')",
)
CHANGES = (
    "DELETE FROM boss WHERE id = 1",
    "UPDATE boss SET id = 20 WHERE id = 2",
    "UPDATE boss SET id = 12345 WHERE id = 3",
    "UPDATE named SET code = 'other' WHERE code = 'x'",
    "DELETE FROM named WHERE code = 'ÿ'",
)
BEHIND = (  # the source's rows are others by now than when the foreign keys acted
    "UPDATE boss SET id = 21 WHERE id = 20",
    "UPDATE plain SET boss = 5 WHERE id = 1",
    "UPDATE deep SET word = 'later', half = 7 WHERE id IN (1, 3)",
    "DELETE FROM deep WHERE id = 2",
    "DELETE FROM boss WHERE id = 21",
    "UPDATE keyless SET word = 'x' WHERE word = 'a'",
    "DELETE FROM keyless WHERE word = 'b'",
    "UPDATE named SET code = 'again' WHERE code = 'other'",
    "UPDATE middle SET code = NULL WHERE id = 3",
    "DELETE FROM boss WHERE id = 4",
)


@pytest.mark.quick
@pytest.mark.one_family
def test_rule_01_computed_columns_follow_keys_that_act(mysql_family: Server, scenario: Make) -> None:
    """MySQL and MariaDB let only virtual columns depend on such a key. While the job streams, and behind its back."""
    tables = (table.replace("{exact}", EXACT[mysql_family.name]) for table in TABLES)
    computed_columns_follow_keys_that_act(scenario(mysql_family, *tables, *ROWS))


@pytest.mark.quick
@pytest.mark.long
def test_rule_01_computed_columns_follow_keys_that_act_at_the_other_of_mysql_and_mariadb(
    mysql_family: Server, request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """Plain columns there, with what the source computes: it is asked in the target's texts, which print floats otherwise."""
    source = source_database(mysql_family)
    source.execute(*(table.replace("{exact}", EXACT[mysql_family.name]) for table in TABLES), *ROWS)
    target = request.getfixturevalue("mysql" if mysql_family.name == "mariadb" else "mariadb")
    is_quick = not request.config.getoption("--spark")
    with job_at_mysql(source, target, tmp_path / "job", is_quick=is_quick) as made:
        made.write_job('[target.options]\ncomputed = "values"\n')
        computed_columns_follow_keys_that_act(made)


def computed_columns_follow_keys_that_act(made: Scenario) -> None:
    made.run_until_caught_up()
    made.assert_identical()
    made.source.execute(*CHANGES)
    made.run_until_caught_up()
    made.assert_identical()
    made.source.execute(*BEHIND)
    made.run_until_caught_up()
    made.assert_identical()
    assert set(made.states().values()) == {"streaming"}


@pytest.mark.quick
@pytest.mark.one_family
def test_rule_01_without_the_right_to_temporary_tables_the_source_rows_tell(
    mysql_family: Server, scenario: Make
) -> None:
    """As long as they are as they were; then the job stops, names the row, and goes on once it has the right."""
    user, password = unique_name("reader")[:30], "s3cret"
    made = scenario(mysql_family, *TABLES[:1], TABLES[2], ROWS[0], ROWS[2], user=(user, password))
    rights = ("SELECT, REFERENCES ON `{}`.*", "REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
    grants = (f"GRANT {right.format(made.schema)} TO {user}" for right in rights)
    made.source.execute(f"CREATE USER {user} IDENTIFIED BY '{password}'", *grants)
    result = made.run_until_caught_up()
    assert "GRANT CREATE TEMPORARY TABLES ON" in result.stderr
    made.source.execute(*CHANGES[:2])
    made.run_until_caught_up()
    made.assert_identical()
    made.write_job('[apply]\nmode = "transaction"\n')
    made.source.execute("UPDATE boss SET id = 30 WHERE id = 3", "UPDATE plain SET boss = 20 WHERE boss = 30")
    stopped = made.run_until_caught_up(code=6)
    assert "plain" in stopped.stderr and "id=4" in stopped.stderr
    made.source.execute(f"GRANT CREATE TEMPORARY TABLES ON `{made.schema}`.* TO {user}")
    made.run_until_caught_up()
    made.assert_identical()


def test_rule_01_what_cannot_be_computed_again_is_refused(mysql_family: Server, scenario: Make) -> None:
    made = scenario(
        mysql_family,
        TABLES[0],
        "CREATE TABLE plain (id INT PRIMARY KEY, boss INT, word VARCHAR(9), doc JSON,"
        " label VARCHAR(40) AS (CONCAT(word, boss)) VIRTUAL,"
        f" found VARCHAR(40) AS (CONCAT(boss, JSON_EXTRACT(doc, '$.a'))) VIRTUAL, {ACTS})",
    )
    entry = '[[tables]]\nname = "{}.plain"\ncolumns = {{ drop = [{}] }}\n'
    made.write_job(entry.format(made.schema, '"word"'))
    said = made.cli("preflight", code=3).stdout
    assert "label is computed from word, which the job leaves out" in said
    assert "found is computed from doc, and the target holds that in another form" in said
    made.write_job(entry.format(made.schema, '"found"') + '[types]\nnul = "strip"\n')
    assert 'label is computed from word, of which [types] nul = "strip"' in made.cli("preflight", code=3).stdout
    made.write_job(entry.format(made.schema, '"word", "label", "found"'))
    made.cli("preflight")


def test_rule_01_periods_of_a_versioned_child_are_refused(mariadb: Server, scenario: Make) -> None:
    """A key that acts sets them, and the log has no value of them. Without columns of its own for them a table is followed."""
    made = scenario(
        mariadb,
        TABLES[0],
        "CREATE TABLE told (id INT PRIMARY KEY, boss INT, f TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " t TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (f, t),"
        f" {ACTS}) WITH SYSTEM VERSIONING",
        f"CREATE TABLE untold (id INT PRIMARY KEY, boss INT, label INT AS (boss + 1) VIRTUAL, {ACTS}) WITH SYSTEM VERSIONING",
    )
    said = made.cli("preflight", code=3).stdout
    assert "the source itself then changes f, whose value nobody else knows" in said
    assert "untold" not in "".join(line for line in said.splitlines() if "failed" in line)


FOLLOWS = "(id INT PRIMARY KEY, boss INT, label VARCHAR(20) AS (CONCAT('b', boss)) VIRTUAL, {})"


@pytest.mark.quick
@pytest.mark.parametrize("server", ["mysql", pytest.param("mariadb", marks=pytest.mark.long)])
def test_rule_01_a_child_that_the_source_has_altered_or_dropped_since_is_parked(
    server: str, request: pytest.FixtureRequest, scenario: Make
) -> None:
    """Before apply comes to what its parent's key does. Also where the job stops at what it cannot apply."""
    tables = [f"CREATE TABLE {name} {FOLLOWS.format(ACTS)}" for name in ("altered", "dropped")]
    made = scenario(request.getfixturevalue(server), "CREATE TABLE boss (id INT PRIMARY KEY)", *tables)
    made.source.execute(
        "INSERT INTO boss VALUES (1), (2), (3)",
        *(f"INSERT INTO {name} (id, boss) VALUES (1, 1), (2, 1), (3, 2)" for name in ("altered", "dropped")),
    )
    made.run_until_caught_up()
    made.source.execute("DELETE FROM boss WHERE id = 1", "ALTER TABLE altered DROP COLUMN label", "DROP TABLE dropped")
    made.run_until_caught_up(code=8)
    assert made.states() == {"boss": "parked", "altered": "parked", "dropped": "parked", "scenario_mark": "streaming"}
    assert "label" in made.reason("altered") + made.reason("dropped")


@pytest.mark.quick
def test_rule_01_07_where_keys_of_the_target_act_computed_columns_follow_too(
    mariadb: Server, scenario: Make, target_database: Database
) -> None:
    """The target's own key has moved or cleared the child before anybody else could."""
    with ordinary_user(target_database) as user:
        target_database.execute(f"GRANT CREATE ON SCHEMA public TO {user}")
        tables = (table.replace("{exact}", EXACT["mariadb"]) for table in TABLES)
        made = scenario(mariadb, *tables, *ROWS, target_user=(user, "p"))
        made.run_until_caught_up()
        made.source.execute(*CHANGES)
        made.run_until_caught_up()
        made.assert_identical()
        made.source.execute(*BEHIND)
        made.run_until_caught_up()
        made.assert_identical()
        made.close()
