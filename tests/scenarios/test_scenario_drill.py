"""A fail-back drill as a person runs it, and as it is ended: by a right that is missing, SIGKILL, a terminal that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.job.drilling import shadow_of
from anabranch.rules.reverse_file import drill_name_of
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario

ITEM = (
    "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "INSERT INTO item (v) VALUES (1), (2)",
)
KILLED_AT = Path(__file__).parents[1] / "rigs" / "killed_at.py"
SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
MAKING = {1: "the database stands without a note", 2: "the note says nothing", 4: "a table is missing"}


@pytest.fixture
def made(
    mysql: Server,
    logical_postgresql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[Scenario]:
    kept = create_database(logical_postgresql, "drilled")
    source = source_database(mysql)
    source.execute(*ITEM)
    found = Scenario(source, kept, tmp_path, name=unique_name("job"), is_quick=True)
    yield found
    found.close()
    found.cli("drill", "--clean", code=None)
    found.cli("drop", "--execute", code=None)
    drop_database(kept)


@pytest.mark.long  # what a killed drill has left, in one process: test_drills.py
@pytest.mark.quick
def test_a_drill_that_is_ended_at_any_step_leaves_nothing_in_the_end(made: Scenario) -> None:
    run = made.start("run")
    made.wait_streaming(run)
    until(lambda: made.cli("drill", "--plan", code=None).code == 0, "the plan finds nothing")
    the_plan_makes_nothing(made)
    what_the_user_lacks_is_named(made)
    slots = made.target.query(SLOTS)
    for step, what in MAKING.items():
        a_drill_that_is_killed(made, "CREATE,INSERT", step, "drill")
        assert has_shadow(made) and (made.home / "drill.toml").exists(), what
    one_whose_terminal_goes_away(made)
    nothing_is_left(made, slots)
    one_that_is_killed_while_it_streams(made)
    assert has_shadow(made)
    a_drill_that_is_killed(made, "DROP", 1, "drill", "--clean")
    assert "removed: source: database" in made.cli("drill", "--clean").stdout
    nothing_is_left(made, slots)
    assert run.is_alive
    run.stop()


def the_plan_makes_nothing(made: Scenario) -> None:
    plan = made.cli("drill", "--plan", "--json").json
    assert {one["source"] for one in plan["tables"]} == {f"{made.schema}.item", f"{made.schema}.scenario_mark"}
    assert plan["shadow"] == shadow_of(made.name) and plan["room"] > 0
    assert not has_shadow(made) and not (made.home / "drill.toml").exists()


def what_the_user_lacks_is_named(made: Scenario) -> None:
    """An ordinary user: with the rights of both ways, and none on the shadow, nor to keep its writes out of the log."""
    user = unique_name("driller")[:32]
    made.source.execute(
        f"CREATE USER `{user}` IDENTIFIED BY 'a secret'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, PROCESS ON *.* TO `{user}`",
        f"GRANT ALL ON `{made.schema}`.* TO `{user}`",
        f"GRANT ALL ON anabranch.* TO `{user}`",
    )
    made.user = (user, "a secret")
    made.write_job()
    try:
        found = made.cli("drill", "--plan", code=3).stdout
        assert "lacks SELECT, INSERT, UPDATE, DELETE, CREATE, DROP" in found and shadow_of(made.name) in found
        assert f"'{user}'@'%'" in found and "GRANT SESSION_VARIABLES_ADMIN" in found and "--logged" in found
        assert made.cli("drill", code=3).stdout.count("-> GRANT") == found.count("-> GRANT")
        right = (
            "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, TRIGGER, CREATE TEMPORARY TABLES"
        )
        made.source.execute(f"GRANT {right} ON `{shadow_of(made.name)}`.* TO `{user}`")
        assert "drill.log" in made.cli("drill", "--plan", code=3).stdout
        assert "stands in the source's log" in made.cli("drill", "--plan", "--logged").stdout
        made.source.execute("SET GLOBAL read_only = ON")
        assert "read_only" in made.cli("drill", "--plan", "--logged", code=3).stdout
    finally:
        made.source.execute("SET GLOBAL read_only = OFF", f"DROP USER `{user}`")
        made.user = None
        made.write_job()
    assert not has_shadow(made)


def a_drill_that_is_killed(made: Scenario, words: str, step: int, *command: str) -> None:
    """Before it begins it removes what the last one has left."""
    script = [sys.executable, str(KILLED_AT), words, str(step), command[0], str(made.job_file), *command[1:]]
    ended = subprocess.run(script, env=made.environment, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def one_whose_terminal_goes_away(made: Scenario) -> None:
    """Send SIGHUP to a drill; SIGTERM where the tests run under nohup, which lets nobody hear SIGHUP."""
    drill, is_deaf = streaming(made), signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    number = signal.SIGTERM if is_deaf else signal.SIGHUP
    drill.signal(number)
    assert drill.wait().code == 128 + number


def one_that_is_killed_while_it_streams(made: Scenario) -> None:
    drill = streaming(made)
    os.kill(drill.pid, signal.SIGKILL)
    drill.wait()


def streaming(made: Scenario) -> Running:
    """Start a drill that streams until it is ended: nobody writes."""
    drill = made.start("drill", "--for", "1h")
    until(lambda: "streaming" in drill.stderr or not drill.is_alive, "the shadow streams")
    assert drill.is_alive, drill.tail()
    return drill


def has_shadow(made: Scenario) -> bool:
    query = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
    return bool(made.source.query(query, [shadow_of(made.name)]))


def nothing_is_left(made: Scenario, slots: object) -> None:
    assert not has_shadow(made) and not (made.home / "drill.toml").exists()
    assert not (made.home.parent / drill_name_of(made.name)).exists()
    assert made.target.query(SLOTS) == slots
    if made.source.query(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = 'job'"
    ):
        assert made.source.query("SELECT 1 FROM anabranch.job WHERE job = %s", [drill_name_of(made.name)]) == []
