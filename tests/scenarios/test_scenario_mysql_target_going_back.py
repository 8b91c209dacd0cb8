"""A MariaDB target that refuses rows, loses some, and is put back: tables park and are resumed, rows are set aside and
released, a transaction is left out, a table is loaded again, the target goes back and comes on. Source and target speak
MySQL's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.scenario import Running, wait_until
from rigs.scenario_busy import busy
from rigs.scenario_mysql_target import AtMysql, job_at_mysql

SOON = 240.0  # seconds
TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE goods (id INT PRIMARY KEY, name VARCHAR(40), price INT, UNIQUE KEY (name))",
    "CREATE TABLE alone (id INT PRIMARY KEY, v INT)",
    "INSERT INTO parent VALUES (1, 1), (2, 2)",
    "INSERT INTO child VALUES (10, 1), (20, 2)",
    "INSERT INTO goods VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)",
    "INSERT INTO alone VALUES (1, 1), (2, 2)",
)


@pytest.fixture
def made(
    request: pytest.FixtureRequest,
    mysql: Server,
    mariadb: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[AtMysql]:
    source = source_database(mysql)
    source.execute(*TABLES)
    is_quick = not request.config.getoption("--spark")
    with job_at_mysql(source, mariadb, tmp_path / "job", is_quick=is_quick) as made:
        yield made


@pytest.mark.quick
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_rows_that_a_mariadb_refuses_and_a_target_that_goes_back(
    made: AtMysql, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made.write_job('[apply]\non_error = "park"\n')
    made.run_until_caught_up()
    began = made.checkpoint()[2]
    rule_26_a_table_that_is_refused_parks_with_its_children(made)
    rule_15_it_is_resumed_where_it_stood(made)
    made.write_job('[apply]\non_error = "set_aside"\n')
    with monkeypatch.context() as armed:
        armed.setenv(failpoints.VARIABLE, "apply.set.aside=exit@2")
        armed.setenv(failpoints.LOG_VARIABLE, str(tmp_path / "reached"))
        rule_26_refused_rows_are_set_aside(made)
    assert "apply.set.aside=exit@2" in (tmp_path / "reached").read_text()
    rule_26_they_come_back_once_they_fit(made)
    made.write_job()
    a_transaction_is_left_out(made)
    a_table_is_loaded_again_while_somebody_writes(made)
    the_target_goes_back_and_comes_on(made, began)
    made.cli("verify", seconds=SOON)


def name(made: AtMysql, table: str) -> str:
    return f"{made.schema}.{table}"


def check(made: AtMysql, table: str, condition: str) -> None:
    made.target.execute(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK ({condition})")


def no_check(made: AtMysql, table: str) -> None:
    made.target.execute(f"ALTER TABLE {table} DROP CONSTRAINT small")


def rule_26_a_table_that_is_refused_parks_with_its_children(made: AtMysql) -> None:
    check(made, "parent", "v < 100")
    made.source.execute(
        "INSERT INTO parent VALUES (3, 500)",
        "INSERT INTO child VALUES (30, 3)",
        "INSERT INTO alone VALUES (3, 3)",
        "DELETE FROM parent WHERE id = 1",
    )
    assert "parked" in made.run_until_caught_up(code=8).stderr
    states = made.states()
    assert {table for table, state in states.items() if state == "parked"} == {"parent", "child"}
    made.assert_identical("alone", "goods")
    shown = made.cli("parked", "show", name(made, "parent")).stdout
    assert "small" in shown and "row id = 3" in shown and "DROP CONSTRAINT" in shown
    assert f"anabranch parked resume JOB {name(made, 'parent')}" in shown
    assert "CONSTRAINT `small` failed" in made.cli("status").stdout


def rule_15_it_is_resumed_where_it_stood(made: AtMysql) -> None:
    no_check(made, "parent")
    made.source.execute("INSERT INTO child VALUES (21, 2)", "UPDATE parent SET v = 4 WHERE id = 2")
    made.cli("parked", "resume")
    made.run_until_caught_up()
    made.assert_identical()
    assert made.cli("parked", "ls").stdout == "no table is parked\n"


def aside(made: AtMysql) -> list[tuple[str, str]]:
    query = (
        "SELECT operation, JSON_VALUE(`key`, '$.id') FROM anabranch.set_aside"
        " WHERE job = %s AND discarded_at IS NULL ORDER BY number"
    )
    return [(str(operation), str(key)) for operation, key in made.target.query(query, [made.name])]


def rule_26_refused_rows_are_set_aside(made: AtMysql) -> None:
    check(made, "goods", "price < 100")
    made.source.execute(
        "UPDATE goods SET price = price + 98",  # 99, 100, 101, in one transaction
        "INSERT INTO goods VALUES (4, 'four', 4)",
        "UPDATE goods SET price = 500 WHERE id = 2",
        "INSERT INTO child VALUES (31, 3)",
    )
    goods = name(made, "goods")
    assert f"row changes are set aside: 3 of {goods}" in made.run_until_caught_up(code=8).stderr
    assert made.target_rows("goods") == [(1, "one", 99), (2, "two", 2), (3, "three", 3), (4, "four", 4)]
    assert aside(made) == [("update", "2"), ("update", "3"), ("update", "2")]
    made.assert_identical("parent", "child", "alone")
    assert f"3 row changes set aside: anabranch parked show JOB {goods}" in made.cli("status").stdout
    shown = made.cli("parked", "show", goods).stdout
    assert "row id = 2" in shown and "price   2       100" in shown


def rule_26_they_come_back_once_they_fit(made: AtMysql) -> None:
    goods = name(made, "goods")
    no_check(made, "goods")
    made.cli("parked", "release", goods, "--all")
    made.run_until_caught_up()
    assert aside(made) == []
    made.assert_identical()


def a_transaction_is_left_out(made: AtMysql) -> None:
    """It changes a row that somebody has removed at the target."""
    made.target.execute("DELETE FROM alone WHERE id = 2")
    made.source.execute("UPDATE alone SET v = 22 WHERE id = 2", "UPDATE alone SET v = 11 WHERE id = 1")
    stopped = made.cli("run", "--until-caught-up", code=6, seconds=SOON).stderr
    assert "the row is not there (row id = 2)" in stopped and "on_conflict" in stopped
    position = re.findall(r"position (\d+@[^:]+:\d+): .*the row is not there", stopped)[-1]
    assert f"1 changes of {name(made, 'alone')}" in made.cli("skip", "add", position).stdout
    made.cli("skip", "add", position, "--execute")
    assert position in made.cli("skip", "ls").stdout
    assert "transaction_skipped" in made.run_until_caught_up().stderr
    assert made.target.query("SELECT id, v FROM alone ORDER BY id") == [(1, 11), (3, 3)]
    made.target.execute("INSERT INTO alone VALUES (2, 22)")
    made.assert_identical()


def changes(n: int) -> list[str]:
    return [
        f"INSERT INTO parent VALUES ({n}, {n})",
        f"INSERT INTO child VALUES ({n}, {n})",
        f"DELETE FROM parent WHERE id = {n - 2}",
        f"INSERT INTO goods VALUES ({n}, '{n}', {n})",
        f"UPDATE goods SET name = CONCAT('-', name) WHERE id = {n - 3}",
        f"UPDATE alone SET v = {n} WHERE id = 1",
    ]


def a_table_is_loaded_again_while_somebody_writes(made: AtMysql) -> None:
    run = made.start("run")
    made.sync(run)
    assert made.status()["detail"] == ""  # the target's foreign keys are off, and it has no trigger
    with busy(made, changes):
        made.target.execute("DELETE FROM goods WHERE id < 3")  # nobody has noticed yet
        generation = made.target.query(GENERATION, [made.name, name(made, "goods")])
        made.cli("load", "--table", name(made, "goods"), seconds=SOON)
        assert made.target.query(GENERATION, [made.name, name(made, "goods")]) > generation
        made.wait_streaming(run)
        refused = made.cli("load", "--table", name(made, "parent"), code=2)
        assert f"change rows of {name(made, 'child')}" in refused.stderr and "--with-children" in refused.stderr
        load = made.start("load", "--table", name(made, "parent"), "--with-children")
        wait_until(
            lambda: made.states()["child"] != "streaming" or not load.is_alive, SOON, "it is taken out", load.tail
        )
        load.kill()
        made.cli("load", "--table", name(made, "parent"), "--with-children", seconds=SOON)
        made.wait_streaming(run)
    settled(made, run)


GENERATION = "SELECT generation FROM anabranch.table_state WHERE job = %s AND source_table = %s"


def settled(made: AtMysql, run: Running) -> None:
    made.sync(run)
    made.assert_identical()
    run.stop()


def the_target_goes_back_and_comes_on(made: AtMysql, began: int) -> None:
    """To a place before the others: what came since is applied once more, over what is there."""
    now = made.checkpoint()[2]
    assert "the trail reaches back to" in made.cli("rewind", "--to", str(now), code=2).stderr
    shown = made.cli("rewind", "--to", str(now - 20), "--json").json
    assert (shown["executed"], shown["transactions"]) == (False, 20)
    assert made.checkpoint()[2] == now
    with pytest.MonkeyPatch.context() as armed:
        armed.setenv(failpoints.VARIABLE, "rewind.commit=exit")
        made.cli("rewind", "--to", str(now - 20), "--execute", code=failpoints.EXIT_CODE)
    assert made.checkpoint()[2] == now
    text = made.cli("rewind", "--to", str(now - 20), "--execute").stdout
    assert "the target is back there" in text and "postgres" not in text.lower()
    assert made.checkpoint()[2] == now - 20
    made.source.execute("INSERT INTO goods VALUES (9000, 'last', 1)", "UPDATE alone SET v = 9000 WHERE id = 3")
    made.run_until_caught_up()
    made.assert_identical()
    assert set(made.states().values()) == {"streaming"}
    assert now > began
