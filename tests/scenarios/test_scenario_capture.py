"""Capture alone, without Spark: what stops it, what a large transaction costs it, who else may write its trail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Result, Running, Scenario, wait_until

Make = Callable[..., Scenario]
ROWS = 300_000
ITEM = "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, n INT)"
DIGITS = ",".join(f"({n})" for n in range(10))
MANY = (
    "CREATE TABLE digit (n INT PRIMARY KEY)",
    f"INSERT INTO digit VALUES {DIGITS}",
    "CREATE TABLE many (id INT PRIMARY KEY, words VARCHAR(100) NOT NULL, b BIGINT NULL, d DATETIME(6) NULL)",
)
INSERT = (
    "INSERT INTO many SELECT n, CONCAT('row ', MD5(n)), n * 3, '2024-02-29 12:00:00' FROM (SELECT a.n + 10*b.n + 100*c.n"
    " + 1000*d.n + 10000*e.n + 100000*f.n AS n FROM digit a, digit b, digit c, digit d, digit e, digit f"
    f" WHERE f.n < {ROWS // 100_000}) AS numbers"
)


@pytest.mark.one_family
def test_pitfall_14_a_large_transaction_needs_no_more_memory(mysql_family: Server, scenario: Make) -> None:
    made = scenario(mysql_family, *MANY, is_forked=False)
    capture = made.capture()
    made.source.execute("INSERT INTO many VALUES (-1, 'warm', 1, NULL)")
    made.captured(capture)
    before = peak_kb(capture.pid)
    made.source.execute(INSERT)
    made.captured(capture, seconds=90)
    grown = peak_kb(capture.pid) - before
    assert grown < 60_000, f"resident memory grew by {grown} kB for a transaction of {ROWS} rows"
    capture.stop()
    report = made.cli("trail", "check", "--json").json
    assert report["problems"] == [] and (report["rows"], report["transactions"]) == (ROWS + 3, 4)


def test_a_change_logged_as_a_statement_stops_by_name(mysql_family: Server, scenario: Make) -> None:
    made = scenario(mysql_family, "CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 1)")
    capture = made.capture()
    with made.source.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("UPDATE item SET n = n + 1")
    result = capture.wait(30)
    assert result.code == 5 and "UPDATE item SET n = n + 1" in result.stderr and "ROW" in result.stderr
    again = made.cli("capture", code=5)
    assert "UPDATE item SET n = n + 1" in again.stderr, "it is not skipped by starting again"


def test_pitfall_26_a_log_that_was_purged_or_reset_stops_by_name(own_source: Server, scenario: Make) -> None:
    made = scenario(own_source, ITEM)
    capture = captured(made)
    capture.stop()
    before = native(made.status()["positions"]["written"])
    purge(made)
    assert_log_lost(made.cli("capture", code=5), before)
    status = made.status()
    assert status["last_error"]["exit_code"] == 5 and before in status["last_error"]["message"]
    made.cli("drop", "--execute")
    capture = captured(made)
    made.source.execute("RESET MASTER", "INSERT INTO item (n) VALUES (2)")  # whoever reads the log is not told
    assert_log_lost(capture.wait(30))
    assert_log_lost(made.cli("capture", code=5), native(made.status()["positions"]["written"]))


def captured(made: Scenario) -> Running:
    """A transaction is in the trail, and capture runs."""
    capture = made.capture()
    made.source.execute("INSERT INTO item (n) VALUES (1)")
    made.captured(capture)
    return capture


def native(position: dict[str, str]) -> str:
    return position["text"].partition("@")[2]


def purge(made: Scenario) -> None:
    made.source.execute("INSERT INTO item (n) VALUES (2)", "FLUSH BINARY LOGS")
    newest = made.source.query("SHOW BINARY LOGS")[-1][0]

    def is_gone() -> bool:  # the server lets go of a file some moments after its reader
        made.source.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return len(made.source.query("SHOW BINARY LOGS")) == 1

    wait_until(is_gone, 10, "all files but the newest are purged")


def assert_log_lost(result: Result, place: str = "") -> None:
    assert result.code == 5, result.stderr
    assert f"position {place}" in result.stderr and "anabranch drop JOB --execute" in result.stderr, result.stderr


def peak_kb(pid: int) -> int:
    (line,) = (one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1])
