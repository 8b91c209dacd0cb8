"""What a load window must not lose: a restart while one table is loaded by itself, and keys that one parent takes over
from another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch.testing import faults
from anabranch.testing.servers import Server
from anabranch.trail import retention
from rigs.scenario import PARKS_ADDED, Scenario, repeating, wait_until

Make = Callable[..., Scenario]
DIGITS = (
    "CREATE TABLE digit (n INT PRIMARY KEY)",
    "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
)
NUMBERS = "(SELECT a.n + 10*b.n + 100*c.n + 1000*d.n AS n FROM digit a, digit b, digit c, digit d) AS numbers"
BIG = (
    *DIGITS,
    "CREATE TABLE big (id INT PRIMARY KEY, n INT NOT NULL)",
    f"INSERT INTO big SELECT n, 0 FROM {NUMBERS}",
)
FAMILY = (
    *DIGITS,
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "INSERT INTO parent VALUES (1), (2), (3), (4)",
    "CREATE TABLE child (id VARCHAR(10) PRIMARY KEY, parent INT, CONSTRAINT follows FOREIGN KEY (parent) REFERENCES parent (id)"
    " ON UPDATE CASCADE)",
    "INSERT INTO child SELECT numbers.n + 10000 * o.n, IF(numbers.n MOD 100 = 0, 1 + numbers.n DIV 100 MOD 3, 4)"
    f" FROM {NUMBERS},"
    " (SELECT n * 10 + m AS n FROM digit, (SELECT n AS m FROM digit) AS m WHERE n < 3) AS o",
)


@pytest.mark.long
def test_rule_15_apply_starts_again_while_a_table_is_loaded_by_itself(mariadb: Server, scenario: Make) -> None:
    """What was applied before the restart lies behind apply, and is replayed for the table that joins; the others do not
    wait for its load."""
    made = scenario(mariadb, *BIG)
    made.write_job(PARKS_ADDED)
    run = made.start("run")
    made.wait_streaming(run)
    made.source.execute("ALTER TABLE big ADD COLUMN more INT NULL")
    made.sync(run)
    assert made.states()["big"] == "parked"
    with closing(made.source.connect()) as connection, connection.cursor() as cursor:
        changes = iter(range(1, 1_000_000))

        def change() -> None:
            cursor.execute("UPDATE big SET n = %s WHERE id %% 10 = %s", [number := next(changes), number % 10])

        with repeating(change, 0.01):
            load = made.start("load", "--table", f"{made.source.name}.big", "--recreate")
            wait_until(lambda: made.states()["big"] == "loading", 60, "its load begins", load.tail, load)
            before = made.checkpoint()[2]
            with faults.frozen(load.pid):
                wait_until(lambda: made.checkpoint()[2] > before + 5, 30, "apply goes on", run.tail, run)
                run.kill()
                run = made.start("run")
                made.sync(run)
            assert load.wait(120).code in (0, 6)  # 6: the new `run` has gone on with it, and was quicker
            wait_until(lambda: made.states()["big"] == "streaming", 60, "it joins", run.tail, run)
    made.sync(run)
    made.assert_identical()
    assert not [name for name in retention.readers(made.trail) if retention.Names().is_table(name)]
    run.stop()


@pytest.mark.long
def test_rule_01_a_parent_takes_over_a_key_while_its_children_load(mysql: Server, scenario: Make) -> None:
    """Keys go round among three parents; the log shows nothing of the children that move with them."""
    made = scenario(mysql, *FAMILY)
    made.write_job("[load]\nparallel = 1\n")  # 300,000 rows by a key that is walked: two chunks, one after the other
    with closing(made.source.connect(autocommit=True)) as connection, connection.cursor() as cursor:

        def rotate() -> None:
            for old, new in ((1, 9), (2, 1), (3, 2), (9, 3)):
                cursor.execute(f"UPDATE parent SET id = {new} WHERE id = {old}")

        with repeating(rotate, 0.1):
            run = made.start("run")
            made.wait_streaming(run)
    made.sync(run)
    made.assert_identical()
    assert "rows_read_again" in run.stderr
    run.stop()
