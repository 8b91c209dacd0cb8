"""Somebody writes to the target while a job streams into it: it stops, or what is declared is done and noted."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE price (id INT PRIMARY KEY, v VARCHAR(20), at DATETIME(3))",
    "CREATE TABLE stock (id INT PRIMARY KEY, n INT)",
    "INSERT INTO price VALUES (1, 'a', '2026-01-01'), (2, 'b', '2026-01-01'), (3, 'c', '2026-01-01')",
    "INSERT INTO stock VALUES (1, 10), (2, 20)",
)


def policies(made: Scenario, price: str, newest_by: str = "at") -> None:
    of = f'[[tables]]\nname = "{made.source.name}.price"\n'
    made.write_job(f'{of}on_conflict = "{price}"\n' + (f'newest_by = "{newest_by}"\n' if price == "newest" else ""))


@pytest.mark.quick
def test_a_target_that_others_write_to(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    made.run_until_caught_up()
    assert made.cli("conflicts", "ls").stdout == "no conflicts were settled\n"
    without_a_policy_it_stops_with_the_key(made)
    one_transaction_may_be_left_out(made)
    a_policy_holds_from_the_next_start(made)
    what_was_decided_can_be_seen(made)
    wrong_asking_is_one_message(made)


def without_a_policy_it_stops_with_the_key(made: Scenario) -> None:
    made.target.execute(
        "DELETE FROM public.price WHERE id = 1", "UPDATE public.price SET at = '2026-06-01' WHERE id = 2"
    )
    made.source.execute("UPDATE price SET v = 'never' WHERE id = 1")
    made.source.execute(
        "UPDATE price SET v = 'a2', at = '2026-02-01' WHERE id = 1",
        "UPDATE price SET v = 'b2', at = '2026-02-01' WHERE id = 2",
        "UPDATE price SET v = 'c2', at = '2026-02-01' WHERE id = 3",
        "UPDATE stock SET n = 11 WHERE id = 1",
    )
    stopped = made.cli("run", "--until-caught-up", code=6, seconds=240)
    assert "the row is not there (row id = 1)" in stopped.stderr and "on_conflict" in stopped.stderr


def one_transaction_may_be_left_out(made: Scenario) -> None:
    stopped = made.cli("run", "--until-caught-up", code=6, seconds=240).stderr
    position = re.findall(r"position (\d+@[^:]+:\d+): .*the row is not there", stopped)[-1]
    assert made.cli("skip", "ls").stdout == "no transaction is left out\n"
    shown = made.cli("skip", "add", position).stdout
    assert (
        f"transaction {position}" in shown
        and f"1 changes of {made.source.name}.price" in shown
        and "--execute" in shown
    )
    assert made.cli("skip", "ls", "--json").json["skipped"] == []
    wrong = {"0": "the trail has no transaction 0", "x": "is no position", position + "1": f"but {position}"}
    for text, message in wrong.items():
        assert message in made.cli("skip", "add", text, code=2).stderr
    assert "is not to be skipped" in made.cli("skip", "remove", position, code=2).stderr
    made.cli("skip", "add", position, "--execute")
    made.cli("skip", "remove", position)
    made.cli("skip", "add", position.partition("@")[0], "--execute")
    assert position in made.cli("skip", "ls").stdout
    stopped = made.cli("run", "--until-caught-up", code=6, seconds=240).stderr
    assert "transaction_skipped" in stopped and f"position {position}" not in stopped
    assert "was left out already" in made.cli("skip", "remove", position, code=2).stderr
    assert "is passed already" in made.cli("skip", "add", position, code=2).stderr


def a_policy_holds_from_the_next_start(made: Scenario) -> None:
    policies(made, "newest", "att")
    assert "did you mean at" in made.cli("preflight", code=3).stdout
    policies(made, "newest")
    made.run_until_caught_up()
    rows = made.target.query("SELECT id, v, to_char(at, 'MM') FROM public.price ORDER BY id")
    assert rows == [(1, "a2", "02"), (2, "b", "06"), (3, "c2", "02")]
    assert made.target.query("SELECT n FROM public.stock ORDER BY id") == [(11,), (20,)]


def what_was_decided_can_be_seen(made: Scenario) -> None:
    found = made.cli("conflicts", "ls", "--json").json
    facts = [(one["key"], one["operation"], one["kind"], one["decision"]) for one in found["conflicts"]]
    assert facts == [
        ({"id": "1"}, "update", "missing", "source"),
        ({"id": "2"}, "update", "newer", "target"),
    ]
    assert not found["more"] and found["conflicts"][0]["position"]["text"].count("@") == 1
    first, second = (str(one["number"]) for one in found["conflicts"])
    listed = made.cli("conflicts", "ls", "--limit", "1")
    assert "id = 1" in listed.stdout and "id = 2" not in listed.stdout and f"--after {first}" in listed.stderr
    assert "id = 2" in made.cli("conflicts", "ls", "--after", first, "--table", f"{made.source.name}.price").stdout
    shown = made.cli("conflicts", "show", second).stdout
    assert "the target's row is newer: it was kept" in shown and "2026-06-01" in shown and "b2" in shown
    assert "2 conflicts settled" in made.cli("status").stdout
    tables = {table["source"]: table for table in made.status()["targets"][0]["tables"]}
    assert tables[f"{made.source.name}.price"]["conflicts"] == 2
    made.cli("verify", code=4, seconds=120)  # the row that was kept differs
    assert made.cli("conflicts", "forget", "--upto", first).stdout == "1 removed\n"
    assert made.cli("conflicts", "show", second).stdout == shown


def wrong_asking_is_one_message(made: Scenario) -> None:
    assert "there is no conflict 99" in made.cli("conflicts", "show", "99", code=2).stderr
    assert "--upto" in made.cli("conflicts", "forget", code=2).stderr
    made.cli("drop", "--execute")
    assert made.cli("conflicts", "ls").stdout == "no conflicts were settled\n"
    assert made.target.query("SELECT to_regnamespace('anabranch')") == [(None,)]
