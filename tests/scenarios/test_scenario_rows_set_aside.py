"""A target that refuses single rows: they are set aside and say so, the rest goes on, what comes to depend on them parks, and
all of it comes back, or is given up (K26)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE goods (id INT PRIMARY KEY, name VARCHAR(40), price INT, UNIQUE KEY (name))",
    "INSERT INTO parent VALUES (1, 1)",
    "INSERT INTO child VALUES (10, 1)",
    "INSERT INTO goods VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)",
)
CHECKS = (
    "ALTER TABLE public.parent ADD CONSTRAINT small CHECK (v < 100) NOT VALID",
    "ALTER TABLE public.goods ADD CONSTRAINT cheap CHECK (price < 100) NOT VALID",
)


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_rows_that_are_refused_are_set_aside(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = scenario(mariadb, *TABLES)
    made.write_job('[apply]\non_error = "set_aside"\n')
    made.run_until_caught_up()
    assert made.cli("parked", "ls", "--json").json == {"version": 1, "parked": [], "set_aside": []}
    made.target.execute(*CHECKS)
    with monkeypatch.context() as armed:
        armed.setenv(failpoints.VARIABLE, "apply.set.aside=exit@2")  # as SIGKILL, with one of three rows set aside
        armed.setenv(failpoints.LOG_VARIABLE, str(tmp_path / "reached"))
        rule_26_refused_rows_are_set_aside_and_the_rest_goes_on(made)
    assert "apply.set.aside=exit@2" in (tmp_path / "reached").read_text()
    they_say_so(made)
    what_is_asked_for_wrongly_is_refused(made)
    run = made.start("run")
    rule_26_what_depends_on_them_parks(made, run)
    rule_26_they_come_back_once_they_fit(made, run)
    rule_26_or_are_given_up(made, run)


def name(made: Scenario, table: str) -> str:
    return f"{made.source.name}.{table}"


def aside(made: Scenario) -> list[tuple[str, str, str]]:
    """Table, change and key of what waits, as the target has it."""
    query = "SELECT source_table, operation, key FROM anabranch.set_aside WHERE discarded_at IS NULL ORDER BY number"
    return [(table.split(".")[1], operation, key["id"]) for table, operation, key in made.target.query(query)]


def reasons(made: Scenario) -> str:
    return str(made.target.query("SELECT string_agg(reason, ' ') FROM anabranch.set_aside"))


def rule_26_refused_rows_are_set_aside_and_the_rest_goes_on(made: Scenario) -> None:
    made.source.execute(
        "UPDATE goods SET price = price + 98",  # 99, 100, 101, in one transaction
        "INSERT INTO goods VALUES (4, 'four', 4)",
        "UPDATE goods SET price = 500 WHERE id = 2",
        "INSERT INTO child VALUES (11, 1)",
    )
    ended = made.run_until_caught_up(code=8)
    assert f"row changes are set aside: 3 of {name(made, 'goods')}" in ended.stderr
    assert set(made.states().values()) == {"streaming"}
    assert made.target_rows("goods") == [(1, "one", 99), (2, "two", 2), (3, "three", 3), (4, "four", 4)]
    made.assert_identical("parent", "child")
    assert aside(made) == [("goods", "update", "2"), ("goods", "update", "3"), ("goods", "update", "2")]


def they_say_so(made: Scenario) -> None:
    goods = name(made, "goods")
    assert f"3 row changes set aside: anabranch parked show JOB {goods}" in made.cli("status").stdout
    (told,) = [t for t in made.status()["targets"][0]["tables"] if "set_aside" in t]
    assert (told["source"], told["state"], told["set_aside"]) == (goods, "streaming", 3)
    listed = made.cli("parked", "ls").stdout
    assert "cheap" in listed and "waits behind" in listed and f"anabranch parked release JOB {goods} --all" in listed
    assert len(made.cli("parked", "ls", "--json").json["set_aside"]) == 3
    shown = made.cli("parked", "show", goods).stdout
    assert "row id = 2" in shown and "price   2       100" in shown and "price   100     500" in shown
    verified = made.cli("verify", code=8, seconds=240)  # nothing else differs
    assert "3 row changes set aside" in verified.stdout and "different id=3" in verified.stdout


def what_is_asked_for_wrongly_is_refused(made: Scenario) -> None:
    goods, parent = name(made, "goods"), name(made, "parent")
    wrong = {
        ("release", goods): "one of --key, --number and --all says which rows are meant",
        ("discard", goods, "--key", "id=9"): f"no row of {goods} with id = 9 is set aside",
        ("release", parent, "--all"): f"no row of {parent} is set aside",
    }
    for arguments, message in wrong.items():
        assert message in made.cli("parked", *arguments, code=2).stderr


def rule_26_what_depends_on_them_parks(made: Scenario, run: Running) -> None:
    made.source.execute("INSERT INTO parent VALUES (2, 500)", "UPDATE parent SET v = 2 WHERE id = 1")
    made.sync(run, 240)
    assert ("parent", "insert", "2") in aside(made) and (1, 2) in made.target_rows("parent")
    made.source.execute("INSERT INTO child VALUES (20, 2)", "DELETE FROM goods WHERE id = 3")
    made.sync(run)
    states = made.states()
    assert states["parent"] == states["child"] == "parked" and states["goods"] == "streaming"
    assert "is set aside, and a change refers to it" in made.reason("parent")
    assert ("goods", "delete", "3") in aside(made)


def settled(made: Scenario, run: Running, *expected: tuple[str, str, str]) -> None:
    """Everything that was asked for is done."""
    wait_until(lambda: aside(made) == list(expected), 60, "rows are settled", run.tail, run)


def rule_26_they_come_back_once_they_fit(made: Scenario, run: Running) -> None:
    goods, parent = name(made, "goods"), name(made, "parent")
    assert "3 changes of 2 rows" not in made.cli("parked", "release", parent, "--key", "id=2").stdout
    wait_until(lambda: "still refused: " in reasons(made), 60, "it is refused again", run.tail, run)
    assert ("parent", "insert", "2") in aside(made)
    made.target.execute("ALTER TABLE public.parent DROP CONSTRAINT small")
    made.target.execute("ALTER TABLE public.goods DROP CONSTRAINT cheap")
    made.cli("parked", "release", parent, "--all")
    number = made.target.query("SELECT min(number) FROM anabranch.set_aside WHERE source_table = %s", [goods])[0][0]
    assert "2 changes of 1 rows" in made.cli("parked", "release", goods, "--number", str(number)).stdout
    settled(made, run, ("goods", "update", "3"), ("goods", "delete", "3"))
    assert (2, "two", 500) in made.target_rows("goods") and (2, 500) in made.target_rows("parent")
    made.cli("parked", "resume", parent)
    wait_until(lambda: set(made.states().values()) == {"streaming"}, 60, "all tables stream", run.tail, run)
    made.sync(run)
    made.assert_identical("parent", "child")


def rule_26_or_are_given_up(made: Scenario, run: Running) -> None:
    goods = name(made, "goods")
    made.cli("parked", "discard", goods, "--all")
    settled(made, run)
    assert "discarded: " in made.cli("parked", "show", goods).stdout
    assert made.target_rows("goods") == [(1, "one", 99), (2, "two", 500), (3, "three", 3), (4, "four", 4)]
    assert "set_aside" not in made.facts("goods")
    run.stop()
