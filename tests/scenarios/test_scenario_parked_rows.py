"""A target that refuses rows of one table: it is parked and says so, the others go on, and it comes back where it stood, or
by a load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE alone (id INT PRIMARY KEY, v INT)",
    "INSERT INTO parent VALUES (1, 1), (2, 2)",
    "INSERT INTO child VALUES (10, 1), (20, 2)",
)
CHECK = "ALTER TABLE public.parent ADD CONSTRAINT small CHECK (v < 100) NOT VALID"
NO_CHECK = "ALTER TABLE public.parent DROP CONSTRAINT small"


@pytest.mark.quick
def test_a_table_whose_rows_are_refused(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    made.write_job('[apply]\non_error = "park"\n')
    made.run_until_caught_up()
    assert made.cli("parked", "ls").stdout == "no table is parked\n"
    rule_26_its_table_parks_and_the_others_go_on(made)
    it_says_why_and_what_waits(made)
    what_is_not_mended_stays_parked(made)
    rule_15_mended_it_goes_on_where_it_stood(made)
    what_is_given_up_is_loaded_again(made)


def refuse(made: Scenario, number: int) -> None:
    made.target.execute(CHECK)
    made.source.execute(
        f"INSERT INTO parent VALUES ({number}, 500)",
        f"INSERT INTO child VALUES ({number}, {number})",
        f"INSERT INTO alone VALUES ({number}, 1)",
        "DELETE FROM parent WHERE id = 1",
    )


def rule_26_its_table_parks_and_the_others_go_on(made: Scenario) -> None:
    refuse(made, 3)
    assert "parked" in made.run_until_caught_up(code=8).stderr
    assert made.states() == {"parent": "parked", "child": "parked", "alone": "streaming", "scenario_mark": "streaming"}
    made.assert_identical("alone")
    assert made.target_rows("parent") == [(1, 1), (2, 2)] and made.target_rows("child") == [(10, 1), (20, 2)]


def it_says_why_and_what_waits(made: Scenario) -> None:
    parent, child = (f"{made.source.name}.{name}" for name in ("parent", "child"))
    found = {one["source"]: one for one in made.cli("parked", "ls", "--json").json["parked"]}
    assert set(found) == {parent, child} and found[parent]["waiting"] == 2 and found[child]["waiting"] == 1
    assert found[parent]["held_bytes"] > 0 and found[parent]["resumes_after"] == found[child]["resumes_after"]
    shown = made.cli("parked", "show", parent).stdout
    assert "small" in shown and "row id = 3" in shown and f"anabranch parked resume JOB {parent}" in shown
    looked = made.cli("trail", "show", "--from", str(found[parent]["resumes_after"] + 1), "--table", parent)
    assert "500" in looked.stdout
    assert "small" in made.cli("status").stdout
    assert "is streaming, not parked" in made.cli("parked", "show", f"{made.source.name}.alone", code=2).stderr
    assert "no table x.y" in made.cli("parked", "resume", "x.y", code=2).stderr


def what_is_not_mended_stays_parked(made: Scenario) -> None:
    assert made.cli("parked", "resume").stdout.count("goes on where it stood") == 2
    made.run_until_caught_up(code=8)
    assert made.reason("parent").startswith("still refused: ") and made.states()["child"] == "parked"


def rule_15_mended_it_goes_on_where_it_stood(made: Scenario) -> None:
    made.target.execute(NO_CHECK)
    made.source.execute("INSERT INTO child VALUES (21, 2)", "UPDATE parent SET v = 4 WHERE id = 2")
    made.cli("parked", "resume", f"{made.source.name}.child")
    made.run_until_caught_up()
    made.assert_identical()
    assert made.cli("parked", "ls").stdout == "no table is parked\n"


def what_is_given_up_is_loaded_again(made: Scenario) -> None:
    parent, child = (f"{made.source.name}.{name}" for name in ("parent", "child"))
    refuse(made, 5)
    run = made.start("run")
    made.sync(run)
    assert made.states()["parent"] == made.states()["child"] == "parked"
    assert "bytes of the trail are held" in made.cli("parked", "drop", parent).stdout
    assert f"anabranch load JOB --table {parent} --table {child}" in made.cli("parked", "resume", child, code=2).stderr
    made.target.execute(NO_CHECK)
    made.cli("parked", "reload", parent)
    made.wait_streaming(run)
    made.cli("parked", "reload", child)
    made.wait_streaming(run)
    made.source.execute("INSERT INTO child VALUES (22, 5)", "DELETE FROM parent WHERE id = 2")
    made.sync(run)
    made.assert_identical()
    assert set(made.states().values()) == {"streaming"}
    run.stop()
    made.run_until_caught_up()
