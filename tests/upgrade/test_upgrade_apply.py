"""A job that the release before has left is taken over: killed half way, taken over again, it ends where that release itself
would have come to. Its source is gone, so it is the kept trail alone that tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.connectors.postgresql.target.migrate import shipped
from anabranch.testing.databases import Database
from rigs.scenario import wait_until
from rigs.upgrade import FOLDER, RELEASES, Kept

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


# What the releases before this one have made later than the rest, one after the other.
MADE_LATER = (
    "DROP TABLE anabranch.conflict",
    "DROP TABLE anabranch.trace",
    "ALTER TABLE anabranch.set_aside DROP COLUMN unconverted",
)
WAITS = "SELECT count(*) FROM pg_locks WHERE relation = 'anabranch.set_aside'::regclass AND NOT granted"
NOTED = "SELECT to_jsonb(m) -> 'migrations' FROM anabranch.meta m"


def test_upgrade_a_start_that_is_killed_while_it_migrates_leaves_the_schema_as_it_was(
    target_database: Database, tmp_path: Path
) -> None:
    kept = Kept(FOLDER / RELEASES[0] / "from_postgresql", target_database, tmp_path / "job")
    target_database.execute(*MADE_LATER)
    with target_database.connect(autocommit=False) as reader:
        reader.execute("SELECT FROM anabranch.set_aside")  # who reads it holds up who wants to change it
        killed = kept.job.start("apply")
        wait_until(lambda: target_database.query(WAITS)[0][0], 60, "the migration waits", killed.tail, killed)
        killed.kill()
    assert target_database.query(NOTED) == [(None,)]  # waits for the server to notice
    assert target_database.query("SELECT to_regclass('anabranch.conflict')") == [(None,)]
    goes_on(kept)
    kept.assert_as_the_release_left_it()
    noted = [(note["number"], note["stage"]) for note in target_database.query(NOTED)[0][0]]
    assert noted == [(one.number, one.stage) for one in shipped()]
    assert target_database.query("SELECT version FROM anabranch.meta") == [(1,)], "older releases go on beside this one"
