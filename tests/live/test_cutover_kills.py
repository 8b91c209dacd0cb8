"""Cut-overs and returns that are killed at every place, while the application writes: they go on, or are taken back; nothing is
lost, nothing is there twice, and the way back begins exactly behind the flip."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.cutover import job, running, until_built, way_back
from rigs.cutover_kills import CUTOVER, FAILBACK, Killing, KillingProcesses
from rigs.cutover_there_and_back import returned, written

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
