"""What `status` makes of parts that are gone, and what `drop` does about ends that are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.config import load_job
from anabranch.connectors.memory.database import forget
from anabranch.errors import SourceUnavailable, StateError, TargetUnavailable
from anabranch.job import Job
from anabranch.job.status import as_seen
from anabranch.state.store import StateStore
from anabranch.trail import lock
from anabranch.view.running import RUN_LOCK


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job whose source is away; its target is in this process."""
    file = tmp_path / "job.toml"
    ends = '[source]\nurl = "mysql://u:p@127.0.0.1:9"\n[target]\nurl = "memory:///drop-target"\n'
    file.write_text(f'name = "shop"\n{ends}[[rules]]\ninclude = ["shop.*"]\n')
    yield Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    forget()


def snapshot(phase: str, *parts: str) -> dict[str, Any]:
    return {"phase": phase, "detail": "", "parts": [{"name": name} for name in parts], "positions": {}}


@pytest.mark.parametrize("phase", ["streaming", "draining"])
def test_nothing_streams_without_capture_and_apply(phase: str) -> None:
    assert as_seen(snapshot(phase, "run", "apply"))["detail"] == "for capture, which is not running"
    assert as_seen(snapshot(phase, "run", "capture"))["phase"] == "waiting"
    assert as_seen(snapshot(phase, "capture", "apply"))["phase"] == phase
    assert as_seen(snapshot("loading", "load"))["phase"] == "loading"


def test_a_phase_drains_only_out_of_streaming(tmp_path: Path) -> None:
    state = StateStore(tmp_path)
    state.part("run", 1, "elsewhere")
    for phase, after in (("waiting", "waiting"), ("streaming", "draining")):
        state.phase(phase)
        state.drains()
        assert state.snapshot()["phase"] == after
    state.close()


def test_status_names_the_job_where_an_end_is_away(job: Job) -> None:
    (message,) = job.status()["unreachable"]
    assert message.startswith("job shop: 127.0.0.1:9: ")


def test_rule_32_an_end_that_is_gone_is_said_and_the_rest_is_removed(job: Job) -> None:
    job.config.home.mkdir()
    shown = job.drop()
    assert job.config.home.exists() and len(shown.lines) == 1
    dropped = job.drop(execute=True)
    assert dropped.lines == shown.lines and not job.config.home.exists()
    with pytest.raises(SourceUnavailable, match=r"job shop: 127\.0\.0\.1:9: .* what the job left there stays"):
        dropped.require()
    with pytest.raises(SourceUnavailable):
        job.drop().require()


def test_pitfall_74_what_a_target_that_is_away_would_know_of_a_fence_is_not_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    ends = '[source]\nurl = "memory:///drop-source"\n[target]\nurl = "postgresql://u:p@127.0.0.1:9/shop"\n'
    file.write_text(f'name = "shop"\n{ends}[[rules]]\ninclude = ["shop.*"]\n')
    shown = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file).drop()
    with pytest.raises(TargetUnavailable) as away:
        shown.require()
    assert "nor is it known whether a fence of a cut-over keeps the source's users from writing" in away.value.hint
    forget()


@pytest.mark.parametrize(("path", "part"), [(RUN_LOCK, "run"), (f"trail/{lock.FILE}", "capture")])
def test_rule_32_a_job_that_runs_is_refused_also_without_state_db(job: Job, path: str, part: str) -> None:
    file = job.config.home / path
    file.parent.mkdir(parents=True)
    held = lock.OsLock(file)
    with pytest.raises(StateError, match=rf"is running: {part} \(process \d+ on "):
        job.drop(execute=True)
    assert job.drop().lines, "showing is no harm"
    held.close()
    assert lock.holder(file) == ""
    job.drop(execute=True)
    assert not job.config.home.exists()
