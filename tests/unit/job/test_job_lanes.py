"""One target's part of a run: what ends for good is tried again beside others, and never hides what the others do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.job import Job, lanes
from anabranch.job.caughtup import CaughtUp
from anabranch.job.children import Child, PartFailed
from anabranch.job.lanes import Lane, refuse_if_all_failed, worst
from anabranch.state.store import StateStore


@pytest.fixture
def both(tmp_path: Path) -> list[Lane]:
    file = tmp_path / "job.toml"
    targets = "".join(f'[[targets]]\nname = "{name}"\nurl = "memory:///{name}"\n' for name in ("north", "south"))
    file.write_text(f'name = "shop"\n[source]\nurl = "memory:///s"\n{targets}[[rules]]\ninclude = ["shop.*"]\n')
    job = Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)
    return [Lane(one, StateStore(one.target_home)) for one in job.targets()]


def ends_with(lane: Lane, code: int) -> Child:
    """The lane's only part; it has ended so."""
    child = Child(f"apply of {lane.job.target}", [sys.executable, "-c", f"raise SystemExit({code})"])
    lane.children = [child]
    lane.poll(0.0)
    assert child.process is not None
    child.process.wait(120)
    return child


def test_what_ended_for_good_is_tried_again_later_and_later(both: list[Lane]) -> None:
    north, south = both
    child = ends_with(north, 6)
    now = 100.0
    for pause in (10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0):
        north.poll(now)
        assert north.failure is not None and north.failure.exit_code == 6
        assert child.process is None and child.not_before == now + pause
        refuse_if_all_failed([north, south])  # the other goes on
        north.poll(now + pause - 0.1)
        assert child.process is None
        now += pause
        north.poll(now)
        assert child.process is not None and north.failure is None  # it has another try
        child.process.wait(120)


def test_a_run_ends_when_none_goes_on_with_the_lowest_code(both: list[Lane]) -> None:
    for lane, code in zip(both, (7, 6), strict=True):
        ends_with(lane, code)
        lane.poll(100.0)
    for _ in range(2):
        with pytest.raises(PartFailed, match="apply of south ended with code 6") as failed:
            refuse_if_all_failed(both)
    assert failed.value.exit_code == 6 and "apply of north ended with code 7" in str(failed.value.__notes__)


def test_a_part_that_was_killed_is_started_again_at_once_as_ever(both: list[Lane]) -> None:
    child = ends_with(both[0], 1)
    both[0].poll(100.0)
    assert both[0].failure is None and len(child.restarts) == 1 and child.not_before < 100.0 + lanes.PAUSES[0]


def test_targets_that_are_asked_at_different_times_agree_at_one_moment(
    both: list[Lane], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(CaughtUp, "_knows_all", lambda self: asked.append(self) or True)
    north, south = (lane.caught_up for lane in both)
    assert north.knows()  # and south comes later
    assert north.knows() and south.knows() and len(asked) == 2
    monkeypatch.setattr(CaughtUp, "_knows_all", lambda self: False)
    north._ask_again = 0.0
    assert not north.knows() and not north.knows()


def test_each_part_is_started_for_its_target(both: list[Lane]) -> None:
    assert [child.command[-2:] for lane in both for child in lane.children] == [
        ["--target", name] for name in ("north", "north", "south", "south")
    ]


def test_nothing_is_worse_than_nothing() -> None:
    assert worst(iter([None, None])) is None


def away(lane: Lane) -> None:
    """Its apply has ended because the target could not be reached."""
    ends_with(lane, 6)
    lane.children[0].name = "apply"
    lane.state.last_error("no connection", 6, "apply", "timed")
    lane.poll(100.0)


def test_a_target_that_is_away_is_waited_for_where_nothing_else_is_asked_for(both: list[Lane]) -> None:
    for lane in both:
        lane.is_patient = True
        away(lane)
        assert lane.failure is not None and lane.goes_on
    refuse_if_all_failed(both)
    for lane in both:
        lane.is_patient = False
    with pytest.raises(PartFailed):
        refuse_if_all_failed(both)


def test_the_pauses_of_a_target_that_is_away_are_as_long_as_the_job_says(both: list[Lane]) -> None:
    lane = both[0]
    retry = lane.job.config.retry
    target = retry.target.model_copy(update={"interval_s": 2})
    lane.job.config = lane.job.config.model_copy(update={"retry": retry.model_copy(update={"target": target})})
    lane.is_patient = True
    away(lane)
    (child,) = lane.children
    for now in (102.0, 104.0):  # the first try was due two seconds behind its end, too
        assert child.not_before == now
        lane.poll(now)
        assert child.process is not None
        child.process.wait(120)
        lane.poll(now)


def test_a_row_that_is_refused_is_no_target_that_is_away(both: list[Lane]) -> None:
    for lane in both:
        lane.is_patient = True
        ends_with(lane, 6)
        lane.state.last_error("a row", 6, "apply", "manual")
        lane.poll(100.0)
    with pytest.raises(PartFailed):
        refuse_if_all_failed(both)


@pytest.mark.parametrize(("limit", "starts"), [(5, 6), (0, 1), (-1, 20)])
def test_a_part_is_started_again_as_often_as_the_job_says(limit: int, starts: int) -> None:
    """So many abnormal ends in an hour, then no more; -1: always."""
    child = Child("capture", [sys.executable, "-c", "raise SystemExit(1)"], restarts_per_hour=limit)
    now, begun = 0.0, 0
    while begun < starts:
        child.poll(now)
        if child.process is not None:
            begun += 1
            child.process.wait(120)
            if begun == starts and limit >= 0:
                break
            child.poll(now)
        now = max(now, child.not_before)
    if limit >= 0:
        with pytest.raises(PartFailed):
            child.poll(now)
