"""Status of a job with several targets: each has a phase of its own, the job that of the last one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.connectors.memory.database import forget
from anabranch.job import Job
from anabranch.state.store import StateStore
from anabranch.view.running import running

HOST = os.uname().nodename


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    file = tmp_path / "job.toml"
    targets = "".join(f'[[targets]]\nname = "{name}"\nurl = "memory:///{name}"\n' for name in ("north", "south"))
    file.write_text(f'name = "shop"\n[source]\nurl = "memory:///s"\n{targets}[[rules]]\ninclude = ["shop.*"]\n')
    yield Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    forget()


def says(home: Path, phase: str, detail: str, *parts: str) -> None:
    state = StateStore(home)
    for part in parts:
        state.part(part, os.getpid(), HOST)
    state.phase(phase, detail)
    state.close()


def phases(job: Job) -> list[tuple[str, str]]:
    found = job.status()
    return [(one["phase"], one["detail"]) for one in (found, *found["targets"])]


def test_nothing_runs(job: Job) -> None:
    assert phases(job) == [("stopped", "")] * 3 and list(running(job)) == []


def test_each_has_a_phase_of_its_own(job: Job) -> None:
    north, south = job.targets()
    says(job.config.home, "streaming", "", "capture")
    says(north.target_home, "streaming", "", "apply")
    away = "for its load and apply, which are not running"
    assert phases(job) == [("waiting", f"south: {away}"), ("streaming", ""), ("waiting", away)]
    says(south.target_home, "loading", "the load's window", "apply")
    assert phases(job) == [("loading", "south: the load's window"), ("streaming", ""), ("loading", "the load's window")]


def test_what_holds_up_capture_holds_up_all(job: Job) -> None:
    for one in job.targets():
        says(one.target_home, "streaming", "", "apply")
    says(job.config.home, "waiting", "source lost", "capture")
    assert phases(job)[1:] == [("waiting", "source lost")] * 2


def test_who_runs_is_told_with_its_target(job: Job) -> None:
    north, south = job.targets()
    says(job.config.home, "streaming", "", "run")
    says(south.target_home, "streaming", "", "apply")
    assert [(part.name, part.target) for part in running(job)] == [("run", ""), ("apply", "south")]
    assert [part.name for part in running(north)] == ["run"]
