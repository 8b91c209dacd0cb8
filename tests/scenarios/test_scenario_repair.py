"""`verify --repair`: rows that differ at the target are put right by apply, while somebody writes at the source."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.scenario import Scenario
from rigs.scenario_busy import busy

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE item (a VARCHAR(20), b INT, u INT, v VARCHAR(400), PRIMARY KEY (b, a), UNIQUE KEY (u))",
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE log (v INT)",
    "CREATE TABLE ratio (r DOUBLE PRIMARY KEY, v INT)",
    *(f"INSERT INTO item VALUES ('k{n}', {n % 7}, {n}, 'tab\\tand \\\\ {n}')" for n in range(200)),
    *(f"INSERT INTO parent VALUES ({n}, 0)" for n in range(20)),
    *(f"INSERT INTO child VALUES ({n}, {n % 20})" for n in range(40)),
    "INSERT INTO log VALUES (1), (2)",
    "INSERT INTO ratio VALUES (0.1, 1), (0.7, 2)",
)
DAMAGE = """
SET session_replication_role = replica;
DELETE FROM public.item WHERE u BETWEEN 10 AND 40;
UPDATE public.item SET v = 'wrong' WHERE u BETWEEN 50 AND 60;
INSERT INTO public.item VALUES ('surplus', 1, 100001, ''), ('surplus', 2, 100002, '');
DELETE FROM public.parent WHERE id IN (3, 4);
INSERT INTO public.child VALUES (1001, 5);
UPDATE public.log SET v = 3 WHERE v = 2;
UPDATE public.ratio SET v = 3 WHERE r = 0.7
"""


def changes(n: int) -> list[str]:
    """Also rows that are damaged at the target change at the source, but none that the stream would stop at."""
    return [
        f"INSERT INTO item VALUES ('n{n}', 1, {n}, 'x')",
        f"UPDATE item SET v = CONCAT(v, '!') WHERE u = {50 + n % 11}",
        f"UPDATE item SET u = -u WHERE u = {n - 3}",
        f"INSERT INTO parent VALUES ({n}, 1)",
        f"INSERT INTO child VALUES ({n + 5000}, {n})",
        f"DELETE FROM parent WHERE id = {n - 2}",
    ]


@pytest.mark.quick
def test_rows_that_differ_are_repaired(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    made.run_until_caught_up()
    refused = made.cli("verify", "--repair", code=7)
    assert "apply does not run" in refused.stderr and "anabranch run JOB" in refused.stderr
    assert "fits no table of the job" in made.cli("verify", "--tables", "shop.*", code=2).stderr
    assert "two parts with one dot between them" in made.cli("verify", "--tables", "shop", code=2).stderr
    run = made.start("run")
    made.sync(run)
    made.target.execute(*DAMAGE.split(";"))
    with busy(made, changes, rest=0.2):
        made.cli("verify", "--repair", code=4, seconds=200)
    made.sync(run)
    made.wait_streaming(run)
    made.assert_identical("item", "parent", "child")
    last = made.cli("verify", "--repair", "--json", code=4, seconds=200).json
    assert {one["source"].partition(".")[2] for one in last["tables"] if not one["identical"]} == {"log", "ratio"}
    assert all("load JOB --table" in one["left"] for one in last["repaired"])
    what_the_target_refuses_is_said(made)
    verification_for_ever_ends_with_its_signal(made)
    run.stop()


def what_the_target_refuses_is_said(made: Scenario) -> None:
    """One row of many: the others are put right, and the job goes on."""
    made.target.execute(
        "UPDATE public.item SET v = 'wrong' WHERE u BETWEEN 100 AND 120",
        "ALTER TABLE public.item ADD CONSTRAINT short CHECK (u <> 110 OR v = 'wrong')",
    )
    found = made.cli("verify", "--repair", "--json", code=4, seconds=200).json
    (item,) = [one for one in found["repaired"] if one["source"].endswith(".item")]
    ((key, why),) = item["refused"]
    assert (item["rows"], key) == (20, {"b": str(110 % 7), "a": "k110"})
    assert "short" in why
    made.target.execute("ALTER TABLE public.item DROP CONSTRAINT short")
    text = made.cli(
        "verify", "--repair", "--tables", f"{made.source.name}.it*", seconds=200
    ).stdout  # others differ still
    assert f"repaired   {made.source.name}.item: 1 rows" in text and "identical: 1 of 1 tables" in text
    made.sync()
    made.assert_identical("item")


def verification_for_ever_ends_with_its_signal(made: Scenario) -> None:
    watching = made.start("verify", "--watch", "--share", "100%", "--tables", f"{made.schema}.[lp]*")

    def results() -> dict[str, str]:
        tables = made.status()["targets"][0]["tables"]
        return {one["source"].partition(".")[2]: one["verified"]["result"] for one in tables if "verified" in one}

    # a round that has no time for it says that it is pending
    until(lambda: (found := results()).get("log") == "different" and "parent" in found, "tables were verified")
    refused = made.cli("verify", "--watch", code=7)
    assert "is being verified for ever by" in refused.stderr
    assert "DIFFERENT" in watching.stop(code=0).stdout
    assert "--watch goes with" in made.cli("verify", "--watch", "--repair", code=2).stderr
