"""A cut-over as a person does it: `anabranch run` at work, the commands beside it, and what they refuse meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pymysql
import pytest

from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.cutover import MAX_LAG, WAITING
from rigs.scenario import Running, Scenario

ITEM = ("CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, v INT)", "INSERT INTO item (v) VALUES (1), (2)")


@pytest.mark.quick
def test_rule_24_a_cut_over_beside_run(mysql: Server, scenario: Callable[..., Scenario]) -> None:
    made = scenario(mysql, *ITEM)
    flip(made, "sys.exit('no such address')")
    refused = made.cli("cutover", "--plan", code=7)
    assert "the job has not begun" in refused.stderr
    run = made.start("run")
    made.wait_streaming(run)
    until(lambda: made.cli("cutover", "--plan", code=None).code == 0, "the plan finds nothing")
    try:
        a_flip_that_fails_opens_the_source(made, run)
        one_that_ends_well_holds_apply(made)
    finally:
        made.source.execute("SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF")
    run.stop()
    made.cli("drop", "--execute", "--keep-fence")


def flip(made: Scenario, code: str) -> None:
    command = json.dumps([sys.executable, "-c", f"import sys; {code}"])
    made.write_job(f"[cutover]\nflip = {command}\nmax_lag = {MAX_LAG}\ngrace = 0\n")


def a_flip_that_fails_opens_the_source(made: Scenario, run: Running) -> None:
    """Forward goes on by itself, with the apply that stood still."""
    failed = made.cli("cutover", *WAITING, code=7)
    assert "no such address" in failed.stderr and "ended with 1" in failed.stderr
    assert "the source takes writes, the target follows" in failed.stderr
    assert made.cli("cutover", "--status", "--json").json["state"] == "aborted"
    made.source.execute("INSERT INTO item (v) VALUES (3)")
    until(lambda: len(made.target_rows("item")) == 3, "the row is at the target")
    assert run.is_alive


def one_that_ends_well_holds_apply(made: Scenario) -> None:
    flip(made, "pass")
    was_quick, made.is_quick = made.is_quick, False  # what is compared at the fence goes through Spark
    done = made.cli("cutover", "--verify", "--json", *WAITING).json
    made.is_quick = was_quick
    assert done["state"] == "finished" and done["downtime_seconds"] > 0
    assert {table["source"].split(".")[1] for table in done["steps"][4]["tables"]} >= {"item"}
    with pytest.raises(pymysql.err.Error, match="read-only"):
        made.source.execute("INSERT INTO item (v) VALUES (4)")
    made.target.execute("INSERT INTO public.item (v) VALUES (4)")
    assert max(row[0] for row in made.target_rows("item")) > 1000
    until(lambda: made.status()["sub_state"] == "cutover", "apply waits")
    assert "cut over: the target takes writes" in made.cli("cutover", code=3).stderr
    for words in (("load", "--table", f"{made.schema}.item"), ("cutover", "--abort")):
        assert "cut over: the target takes writes" in made.cli(*words, code=7).stderr
