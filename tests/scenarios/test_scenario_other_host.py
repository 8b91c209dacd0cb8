"""A job as another host sees it: one that shares its home, and one that does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.job import Job
from anabranch.state import living
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.forked_commands import SILENT_S
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]
ITEM = ("CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40))", "INSERT INTO item VALUES (1, 'a')")
NAMED = "import os, socket, sys; socket.sethostname('elsewhere'); os.execvp(sys.argv[1], sys.argv[1:])"
# Processes and host name of their own, the network and the files of this machine. https://man7.org/linux/man-pages/man7/namespaces.7.html
HOST = ("unshare", "--user", "--map-root-user", "--uts", "--pid", "--fork", "--mount-proc", sys.executable, "-c", NAMED)


@pytest.fixture
def elsewhere() -> tuple[str, ...]:
    """What a command is started with so that it runs on a host that is called so."""
    try:
        tried = subprocess.run([*HOST, "true"], capture_output=True, text=True)
    except FileNotFoundError as missing:
        pytest.skip(f"a second host cannot be made here: {missing}")
    if tried.returncode:
        pytest.skip(f"a second host cannot be made here, the kernel refuses namespaces: {tried.stderr.strip()}")
    return HOST


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_a_job_that_runs_and_dies_on_another_host(
    mariadb: Server,
    target_database: Database,
    scenario: Make,
    elsewhere: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(living, "SILENT_S", SILENT_S)
    made = scenario(mariadb, *ITEM)
    made.prefix = elsewhere
    run = made.start("run")
    made.wait_streaming(run, seconds=200)
    made.sync(run)
    made.prefix = ()
    found = is_in(made, "streaming", "idle")
    assert {part["host"] for part in found["parts"]} == {"elsewhere"} and len(found["parts"]) >= 3
    seen_without_its_home(made, tmp_path / "another")
    run.kill()
    believed = look(made)
    assert believed["state"] != "stopped" and "gone" not in believed["sub_state"], "nobody here can know yet"
    found = is_in(made, "died", "silent")
    assert (
        found["error"]["code"] == "part_died"
        and "on elsewhere) has not reported for a long time" in found["state_detail"]
    )
    assert found["since"] <= believed["at"]
    wait_until(lambda: look(made)["parts"] == [], 180, "its other parts have been silent for as long")
    again = made.start("run")
    made.sync(again, seconds=200)
    is_in(made, "streaming", "idle")
    entries = made.cli("trace", "--json", "--limit", "0").json["entries"]
    died = {entry["facts"]["part"]: entry for entry in entries if entry["event"] == "part_died"}
    assert died["run"]["sub_state"] == "silent" and "on elsewhere ended without" in died["run"]["message"]
    again.stop()


def seen_without_its_home(made: Scenario, home: Path) -> None:
    """The target tells that it runs, and where."""
    found = look(made, home)
    assert (found["state"], found["sub_state"]) == ("stopped", "never_started")
    assert "ran with another home" in found["state_detail"] and found["targets"][0]["tables"][0]["state"] == "streaming"
    with pytest.MonkeyPatch.context() as environment:
        job = opened(made, environment, home)
        wait_until(lambda: began(job) == {"elsewhere"}, 120, "the target has it")
    assert not home.exists()


def began(job: Job) -> set[str]:
    return {entry["host"] for entry in job.trace(at_target=True) if entry["event"] == "part_started"}


def opened(made: Scenario, environment: pytest.MonkeyPatch, home: Path | None = None) -> Job:
    for name, value in made.environment.items():
        environment.setenv(name, value)
    if home is not None:
        environment.setenv("ANABRANCH_HOME", str(home))
    return Job.from_file(made.job_file)


def look(made: Scenario, home: Path | None = None) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as environment:
        return opened(made, environment, home).status()


def is_in(made: Scenario, state: str, sub_state: str) -> dict[str, Any]:
    last: dict[str, Any] = {}

    def there() -> bool:
        last.update(look(made))
        return (last["state"], last["sub_state"]) == (state, sub_state)

    wait_until(there, 180, f"{state}, {sub_state}", lambda: str(last))
    return last
