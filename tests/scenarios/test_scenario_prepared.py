"""Prepared transactions (XA) around everything that may happen to a job: its start, its load, kills, a restart."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import pymysql
import pytest

from anabranch.testing import faults
from anabranch.testing.databases import Database
from anabranch.testing.in_time import NotInTime
from anabranch.testing.servers import Server
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]
DIGITS = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6)"
ITEM = (
    "CREATE TABLE item (id INT PRIMARY KEY, words VARCHAR(100))",
    f"INSERT INTO item SELECT a.n + 7 * b.n + 49 * c.n, 'first' FROM {DIGITS} a, {DIGITS} b, {DIGITS} c",
)


def prepare(database: Database, name: str, *statements: str) -> None:
    """And leave."""
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for statement in (f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)


def end(database: Database, name: str, verb: str) -> None:
    for _ in range(1800):
        try:
            database.execute(f"XA {verb} '{name}'")
            return
        except pymysql.err.MySQLError as error:  # the session that prepared it is still on its way out
            assert "XAER_NOTA" in str(error), error
            time.sleep(0.1)
    raise NotInTime(f"{name} did not end")


@pytest.mark.long
@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_rule_06_pitfall_20_prepared_transactions_survive_start_load_kill_and_restart(
    name: str, request: pytest.FixtureRequest, scenario: Make
) -> None:
    server: Server = request.getfixturevalue(name)
    made = scenario(server, *ITEM)
    source = made.source
    prepare(source, "older", "UPDATE item SET words = 'older' WHERE id = 1")
    capture = made.start("capture")
    waits = "prepared transactions to end"
    wait_until(lambda: waits in capture.stderr, 30, "capture waits for what is older", capture.tail, capture)
    end(source, "older", "COMMIT")
    wait_until(lambda: "capture_follows" in capture.stderr, 30, "capture follows", capture.tail, capture)
    prepare(
        source, "load", "UPDATE item SET words = 'load' WHERE id BETWEEN 10 AND 60", "DELETE FROM item WHERE id = 2"
    )
    prepare(source, "gone", "UPDATE item SET words = 'gone' WHERE id BETWEEN 301 AND 310")
    made.captured(capture)
    capture.kill()
    run = made.start("run")
    made.wait_streaming(run)
    assert {one["xid"] for one in made.status()["prepared"]} == {"X'6c6f6164',X'',1", "X'676f6e65',X'',1"}
    prepare(source, "late", "INSERT INTO item VALUES (1000, 'late')", "UPDATE item SET id = 1001 WHERE id = 3")
    made.sync(run)
    assert made.target_rows("item", where="words <> 'first'") == [(1, "older")]
    faults.kill_tree(run.part("capture"))
    end(source, "load", "COMMIT")
    source.execute("INSERT INTO item VALUES (1002, 'after')")
    made.sync(run)
    made.assert_identical("item")
    run.kill()
    end(source, "gone", "ROLLBACK")
    end(source, "late", "COMMIT")
    made.run_until_caught_up()
    made.assert_identical("item")
    assert "prepared" not in made.status() and made.cli("trail", "check", "--json").json["problems"] == []
    prepare(source, "open", "UPDATE item SET words = 'open' WHERE id = 5")
    capture = made.capture()
    made.captured(capture)
    capture.stop()
    assert "with the rows of 1 prepared transactions" in made.cli("drop").stdout
    end(source, "open", "ROLLBACK")
