"""A job that the release before has left is taken over: killed half way, taken over again, it ends where that release itself
would have come to. Its source is gone, so it is the kept trail alone that tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario import wait_until
from taking_over import FOLDER, RELEASES, Kept

from anabranch import failpoints
from anabranch.testing.databases import Database

KILLS = ("apply.claimed=exit", "apply.merged=exit@2", "apply.committed=exit")  # each as SIGKILL


@pytest.mark.parametrize("job", ["from_mysql", "from_postgresql"])
@pytest.mark.parametrize("release", RELEASES)
def test_upgrade_apply_goes_on_with_what_the_release_before_left(
    release: str, job: str, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(FOLDER / release / job, target_database, tmp_path / "job")
    assert kept.job.checkpoint()[2] == kept.expected["checkpoint"]["before"]
    assert kept.job.cli("trail", "check", "--json").json["problems"] == []
    log = tmp_path / "reached"
    monkeypatch.setenv(failpoints.LOG_VARIABLE, str(log))
    for kill in KILLS:
        monkeypatch.setenv(failpoints.VARIABLE, kill)
        killed = kept.job.start("apply")
        assert killed.wait().code == failpoints.EXIT_CODE, killed.tail()
        assert kill in log.read_text()
    monkeypatch.delenv(failpoints.VARIABLE)
    goes_on(kept)
    kept.assert_as_the_release_left_it()
    kept.job.close()


def goes_on(kept: Kept) -> None:
    before, there = kept.job.checkpoint()[0], kept.trail_end()
    apply = kept.job.start("apply")
    wait_until(lambda: is_owned_at(kept, before, there), 60, "apply is at the trail's end", apply.tail, apply)
    apply.stop()


def is_owned_at(kept: Kept, former: str, there: int) -> bool:
    owner, _, sequence = kept.job.checkpoint()
    return owner != former and sequence == there
