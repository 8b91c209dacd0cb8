"""The flip command: what it is told, what its end means, and that nobody runs a second one beside it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from anabranch.cutover.flip import flip, flip_lock
from anabranch.errors import ConfigError, StateError
from anabranch.job import Job
from anabranch.testing.in_time import until

FILE = """name = "shop"
[source]
url = "postgresql://repl:${SECRET}@db1/shop"
[target]
url = "mysql://app:${SECRET}@db2:3306"
[[rules]]
include = ["shop.*"]
"""
TELLS = """
import json, os, sys
open(sys.argv[1], "w").write(json.dumps({name: value for name, value in os.environ.items() if name.startswith("ANABRANCH_")}))
"""
LEAVES_ONE_BEHIND = """
import os, sys, time
if (child := os.fork()):
    open(sys.argv[1], "w").write(str(child))
    sys.exit()
time.sleep(60)
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setenv("SECRET", "hunter2")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    (tmp_path / "shop.toml").write_text(FILE)
    return Job.from_file(tmp_path / "shop.toml")


def test_the_command_has_both_ends_and_no_secret(job: Job, tmp_path: Path) -> None:
    flip(job, [sys.executable, "-c", TELLS, str(tmp_path / "told")], "0/17")
    text = (tmp_path / "told").read_text()
    told = json.loads(text)
    assert told["ANABRANCH_SOURCE_URL"] == "postgresql://repl@db1:5432/shop" and "hunter2" not in text
    assert told["ANABRANCH_TARGET_URL"].startswith("mysql://app@db2:3306")
    assert (told["ANABRANCH_JOB"], told["ANABRANCH_FENCE_POSITION"]) == ("shop", "0/17")


def test_another_end_than_0_is_an_error(job: Job) -> None:
    with pytest.raises(StateError, match="ended with 3"):
        flip(job, [sys.executable, "-c", "raise SystemExit(3)"], "x")
    with pytest.raises(ConfigError, match="cannot be started"):
        flip(job, ["/no/such/command"], "x")
    with pytest.raises(ConfigError, match="no command leads the application there"):
        flip(job, [], "x")  # the job file had one when the cut-over began
    flip_lock(job).close()


def test_pitfall_74_no_second_one_begins_while_the_first_or_what_it_started_runs(job: Job, tmp_path: Path) -> None:
    flip(job, [sys.executable, "-c", LEAVES_ONE_BEHIND, str(tmp_path / "child")], "x")
    child = int((tmp_path / "child").read_text())
    with pytest.raises(StateError, match="the flip command of before still runs"):
        flip(job, [sys.executable, "-c", "pass"], "x")
    os.kill(child, signal.SIGTERM)

    def is_free() -> bool:
        try:
            flip_lock(job).close()
        except StateError:
            return False
        return True

    until(is_free, "the lock is free")
