"""The whole way from and to other releases of MySQL: loaded while somebody writes, followed, compared (make test-servers)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.features import spelled, takes
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql

Make = Callable[..., Scenario]
# A column of each kind whose bytes in the log, or whose text, are another matter in old releases.
COLUMNS = {
    "small": ("tinyint unsigned", "200"),
    "big": ("bigint unsigned", "18446744073709551615"),
    "exact": ("decimal(20,5) unsigned", "12345678901234.56789"),
    "f": ("float", "16777215"),
    "d": ("double", "-0.1e-200"),
    "day": ("date", "'2012-02-29'"),
    "at_": ("datetime", "'1999-12-31 23:59:59'"),
    "at6": ("datetime(6)", "'1999-12-31 23:59:59.000001'"),
    "moment": ("timestamp NULL", "'2012-10-28 01:30:00'"),
    "moment3": ("timestamp(3) NULL", "'2012-10-28 01:30:00.125'"),
    "span": ("time", "'-838:59:59'"),
    "span2": ("time(2)", "'-00:00:00.01'"),
    "y": ("year", "2012"),
    "bits": ("bit(64)", "18446744073709551614"),
    "old": ("varchar(30) CHARACTER SET latin1", "'naïve €'"),
    "three": ("varchar(30) CHARACTER SET utf8mb3", "'drei €'"),
    "four": ("text CHARACTER SET utf8mb4", "'vier 😀'"),
    "e": ("enum('a','b')", "'b'"),
    "s": ("set('p','q','r')", "'p,r'"),
    "raw": ("varbinary(20)", "x'00ff'"),
    "doc": ("json", "'{\"a\": [1, null]}'"),
}


@pytest.mark.servers
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["mysql55", "mysql56", "mysql9"])
def test_load_and_follow(name: str, request: pytest.FixtureRequest, scenario: Make) -> None:
    server: Server = request.getfixturevalue(name)
    made = scenario(server, *(spelled(server, statement) for statement in (*SCHEMA, *kinds(server), *fill(1))))
    assert f"source.version: MySQL {server.version}" in made.cli("preflight").stdout
    with Writer(made.source, seed=5, rate=30, spelled=partial(spelled, server)) as writer:
        running = made.start("run")
        made.wait_streaming(running, seconds=200)
        made.source.execute("INSERT INTO kinds SELECT id + 10, " + ", ".join(chosen(server)) + " FROM kinds")
        made.sync(running)
        running.stop()
    assert writer.committed > 30
    children_go_with_their_parent(made.source)
    made.run_until_caught_up()
    made.assert_identical()
    assert set(made.states().values()) == {"streaming"}
    assert made.cli("verify", "--json", seconds=200).json["identical"] is True
    without_a_log_of_what_was_altered_nothing_is_read_wrongly(made)
    made.cli("drop", "--execute")


@pytest.mark.servers
@pytest.mark.quick
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["mysql56", "mysql9"])
def test_load_and_follow_to_a_target(
    name: str,
    request: pytest.FixtureRequest,
    mysql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> None:
    """From MySQL 8: a kill in the middle, a TRUNCATE, both ends compared by SQL and by `verify`."""
    server: Server = request.getfixturevalue(name)
    database, there = source_database(mysql), create_database(server, "there")
    database.execute(*(spelled(server, statement) for statement in (*SCHEMA, *kinds(server), *fill(1))))
    made = MysqlToMysql(database, there, tmp_path / "job", name=unique_name("job"), is_quick=True)
    try:
        assert f"target.version: MySQL {server.version}" in made.cli("preflight").stdout
        running = made.start("run")
        made.wait_streaming(running, seconds=200)
        with Writer(database, seed=5, rate=30, spelled=partial(spelled, server)):
            database.execute("INSERT INTO kinds SELECT id + 10, " + ", ".join(chosen(server)) + " FROM kinds")
            made.sync(running)
            running.kill()
            running = made.start("run")
            made.sync(running)
        children_go_with_their_parent(database)
        database.execute("TRUNCATE TABLE visit", "INSERT INTO visit VALUES ('after', 1, NULL)")
        made.sync(running)
        running.stop()
        made.assert_identical()
        assert set(made.states().values()) == {"streaming"}
        assert made.cli("verify", "--json", seconds=200).json["identical"] is True
        made.cli("drop", "--execute")
    finally:
        made.close()
        drop_database(there)


def chosen(server: Server) -> list[str]:
    return [name for name, (type, _) in COLUMNS.items() if takes(server, type)]


def kinds(server: Server) -> list[str]:
    names = chosen(server)
    columns = ", ".join(f"{name} {COLUMNS[name][0]}" for name in names)
    values = ", ".join(COLUMNS[name][1] for name in names)
    return [
        f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})",
        f"INSERT INTO kinds VALUES (1, {values}), (2{', NULL' * len(names)})",
    ]


def children_go_with_their_parent(database: Database) -> None:
    """K1: MySQL 9 logs what a foreign key does, the others do not."""
    database.execute(
        "INSERT INTO account (id, name, balance) VALUES (77000001, 'parent', 1)",
        "INSERT INTO entry (id, account_id, amount, booked) VALUES (77000001, 77000001, 1, '2024-01-01')",
        "INSERT INTO remark VALUES (77000001, 77000001, 'of a child')",
        "DELETE FROM account WHERE id = 77000001",
    )


def without_a_log_of_what_was_altered_nothing_is_read_wrongly(made: Scenario) -> None:
    """A table that comes back with its columns in another order, while nobody looked: it parks, the others go on."""
    made.source.execute(
        "DROP TABLE cell",
        "CREATE TABLE cell (y VARCHAR(10), x INT, value DOUBLE NULL, data VARBINARY(20) NULL, PRIMARY KEY (x, y))",
        "INSERT INTO cell VALUES ('after', 7, 1, NULL)",
        "UPDATE account SET note = 'after' WHERE id = 1",
    )
    made.run_until_caught_up(code=8)
    assert made.states()["cell"] == "parked" and "drop" in made.reason("cell")
    made.assert_identical(without=["cell"])
