"""Cut-overs and returns that are killed at every place, while the application writes: they go on, or are taken back; nothing is
lost, nothing is there twice, and the way back begins exactly behind the flip."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from rigs.cutover import FIRST, MAX_LAG, Cut, Writers, job, running, until_built, way_back
from rigs.cutover_kills import CUTOVER, FAILBACK, Killing, KillingProcesses, arrives, once
from rigs.job_here import JobHere

PAIRS = [
    ("postgresql", "mysql"),
    ("mysql", "logical_postgresql"),
    ("mariadb", "mysql"),
    ("postgresql", "logical_postgresql"),
]


def test_rule_24_pitfall_74_a_kill_at_every_place_there_and_back(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, each time gone on with."""
    with (
        job(request, "postgresql", "mysql", tmp_path / "job") as cut,
        way_back(cut, monkeypatch) as back,
        running(cut),
    ):
        there = written(cut, Killing(cut, CUTOVER, monkeypatch), is_taken_back=False)
        with back.running():
            returned(cut, back, there, Killing(cut, FAILBACK, monkeypatch), is_taken_back=False)


@pytest.mark.long
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_rule_24_pitfall_74_every_process_is_killed_at_every_place_there_and_back(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command, and both jobs with all their parts. Before that each switch is taken back at each step, and killed there."""
    with job(request, source, target, tmp_path / "job") as cut, way_back(cut, monkeypatch) as back:
        out = KillingProcesses(cut, CUTOVER, monkeypatch)
        home = KillingProcesses(cut, FAILBACK, monkeypatch, runs=out.runs)
        try:
            out.begin(cut.made.job_file)
            until_built(cut)
            there = written(cut, out, is_taken_back=True)
            out.begin(back.made.job_file)
            returned(cut, back, there, home, is_taken_back=True)
        finally:
            out.end(*out.runs)


def written(cut: Cut, kills: Killing, is_taken_back: bool) -> list[int]:
    """Cut over, killed and gone on with, and before that taken back where that is said. Returns what the application was told
    is there."""
    cut.made.cli("reverse", "-o", str(cut.made.job_file.with_name(f"{cut.made.name}-reverse.toml")))
    with Writers(cut) as writers:
        if is_taken_back:
            kills.taken_back(partial(arrives, cut, cut.made.source, cut.made.target))
        kills.through()
    once(cut.at_target(), writers.acknowledged)
    cut.made.assert_identical("item", "draft")
    return writers.acknowledged


def returned(cut: Cut, back: JobHere, there: list[int], kills: Killing, is_taken_back: bool) -> None:
    flip = cut.made.job_file.read_text().split("[cutover]\n")[1].split("\n")[0]
    settings = f"[cutover]\n{flip}\nmax_lag = {MAX_LAG}\ngrace = 0\n"
    back.made.job_file.write_text(f"{back.made.job_file.read_text()}\n{settings}")
    source, target = cut.made.source, cut.made.target
    with Writers(cut, target, (3, 4)) as writers:
        if is_taken_back:
            kills.taken_back(partial(arrives, cut, target, source))
        kills.through()
    once(cut.rows(source), [*there, *writers.acknowledged])
    with TrailReader(back.job.trail) as trail:
        read = [int(row.values["v"]) for row in show(trail, after=0) if row.values and row.values.get("v")]
    came = {value for value in read if value > FIRST}
    assert came >= set(writers.acknowledged) and not came & set(there), "an echo of what came from the source"
    arrives(cut, source, target)
    cut.made.assert_identical("item", "draft")
