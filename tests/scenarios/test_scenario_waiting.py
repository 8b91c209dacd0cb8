"""Others who are in the way, as users of the command line see it: in the log within ten seconds, and in `status`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import closing
from typing import Any

from anabranch.testing.databases import create_database, drop_database
from anabranch.testing.servers import Server
from rigs.scenario import Running, wait_until
from rigs.scenario_postgresql import FromPostgres

Make = Callable[..., FromPostgres]


def test_capture_names_who_holds_up_its_slot(logical_postgresql: Server, scenario: Make) -> None:
    """A transaction that is idle in another database, and a lock_timeout that somebody gave the database."""
    made = scenario(logical_postgresql, "CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    made.source.execute(f"ALTER DATABASE {made.source.name} SET lock_timeout = '2s'")
    other = create_database(logical_postgresql, "elsewhere")
    other.execute("CREATE TABLE elsewhere (id int)")
    with closing(other.connect(autocommit=False, application_name="forgotten")) as holder:
        holder.execute("INSERT INTO elsewhere VALUES (4711)")
        pid = f"process {holder.info.backend_pid} "
        capture = made.start("capture")
        it_says_so_in_time(capture, pid)
        wait_until(lambda: pid in made.status()["detail"], 20, "status says it", capture.tail, capture)
        assert made.status()["phase"] == "waiting" and "application forgotten" in made.cli("status").stdout
        capture.signal(signal.SIGINT)
        assert capture.wait().code == 0, "it does not wait for the transaction, which goes on"
        capture = made.start("capture")
        it_says_so_in_time(capture, pid)
        holder.rollback()
    wait_until(lambda: '"capture_follows"' in capture.stderr, 60, "capture goes on", capture.tail, capture)
    wait_until(lambda: made.status()["waits"] == [], 60, "nothing waits any more", capture.tail, capture)
    capture.stop()
    drop_database(other)


def it_says_so_in_time(capture: Running, pid: str) -> None:
    """By the log's own clock: this machine may be busy."""

    def said() -> list[dict[str, Any]]:
        lines = map(json.loads, capture.stderr.splitlines())
        told = [line for line in lines if line["event"] == "waiting_for_others"]
        return [line for line in told if pid in line["waits_for"]]  # a server's own transactions may be in the way, too

    (line,) = wait_until(said, 60, "it says whom it waits for", capture.tail, capture)
    assert "idle in transaction" in line["waits_for"] and "4711" not in line["waits_for"]
    assert line["seconds"] < 60  # within ten seconds: tests/unit/test_waits.py
