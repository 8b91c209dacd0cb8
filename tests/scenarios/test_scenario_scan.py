"""`preflight --scan` as a command: what it prints, how it exits, a sample, and Ctrl-C in the middle."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario, wait_until

SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'anabranch-scan%%'"
RELATIONS = "SELECT count(*) FROM pg_class"


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_a_scan_tells_what_a_load_would_refuse(mysql: Server, scenario: Callable[..., Scenario]) -> None:
    made = scenario(
        mysql,
        "CREATE TABLE note (id int PRIMARY KEY, t text)",
        "INSERT INTO note SELECT a.n * 100 + b.n, 'fine' FROM (SELECT seq AS n FROM (SELECT 1 AS seq UNION SELECT 2 UNION"
        " SELECT 3) AS s) AS a, (SELECT 1 AS n UNION SELECT 2) AS b",
        "INSERT INTO note VALUES (7, 'a\\0b')",
        "CREATE TABLE other (id int PRIMARY KEY, j json)",
        "INSERT INTO other VALUES (1, '[1]'), (2, '[-0.0]')",
    )
    before = made.target.query(RELATIONS)
    found = made.cli("preflight", "--scan", "--json", code=3).json
    assert found["verdict"] == "failed"
    (refused, changed) = found["scan"]["findings"]
    assert (refused["table"], refused["column"], refused["rows"], refused["keys"]) == (
        f"{made.schema}.note",
        "t",
        1,
        ["id=7"],
    )
    assert (changed["outcome"], changed["column"], changed["keys"]) == ("changed", "j", ["id=2"])
    assert {one["table"].split(".")[1]: one["rows"] for one in found["scan"]["tables"]}["note"] == 7
    part = made.cli("preflight", "--scan", "--tables", "*.other", "--sample", "50%", "--seed", "3").stdout
    assert "scan.changed" in part and "note" not in part and "seed 3" in part
    assert "fits no table of the job" in made.cli("preflight", "--scan", "--tables", "*.nothing", code=2).stderr
    assert "--scan" in made.cli("preflight", "--tables", "*.note", code=2).stderr
    wait_until(lambda: not made.target.query(SESSIONS)[0][0], 60, "the sessions at the target have ended")
    assert made.target.query(RELATIONS) == before


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ctrl_c_ends_a_scan_and_leaves_nothing(mysql: Server, scenario: Callable[..., Scenario]) -> None:
    """With Spark. Behind it the session at the target is gone, and with it the table."""
    made = scenario(
        mysql, "CREATE TABLE other (id int PRIMARY KEY, j json)", "INSERT INTO other VALUES (1, '[1]'), (2, '[0]')"
    )
    before = made.target.query(RELATIONS)
    more = "INSERT INTO other SELECT id + (SELECT max(id) FROM other), j FROM other"
    made.source.execute("INSERT INTO other VALUES (3, '[1, 2, 3]'), (4, '{\"a\": 1}')", *[more] * 16)
    scan = made.start("preflight", "--scan", "--tables", "*.other")
    wait_until(lambda: made.target.query(SESSIONS)[0][0], 120, "rows are tried", scan.tail, scan)
    scan.signal(signal.SIGINT)
    assert scan.wait(60).code == 130, scan.tail()
    wait_until(lambda: not made.target.query(SESSIONS)[0][0], 60, "the session at the target has ended")
    assert made.target.query(RELATIONS) == before
