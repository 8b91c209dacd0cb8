"""What a campaign counts, says and keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from anabranch.failpoints import POINTS
from anabranch.testing.torture import report
from anabranch.testing.torture.campaign import Told
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.report import Tally, keep, line, summary

KILLED = Told(
    3,
    "mysql",
    "",
    41,
    100,
    12,
    1.25,
    (Fault("kill", "apply"), Fault("exit", "apply.begin")),
    frozenset({"apply.begin"}),
)
CALM = Told(4, "mariadb", "", 40, 90, 11, 1.0, (), frozenset({"apply.begin", "trail.frame"}))
WRONG = Told(5, "mariadb", "wrong state: …", 40, 90, 0, 1.0, (), frozenset())


FEW = replace(KILLED, seed=6, observations=10)


def tally() -> Tally:
    found = Tally()
    for told in (KILLED, CALM, WRONG):
        found.add(told)
    return found


def test_a_history_without_its_fault_passes_and_does_not_count() -> None:
    found = tally()
    assert (found.passed, found.counted, found.failed) == (2, 1, [5])
    assert not FEW.counts and not replace(KILLED, prefixes=2).counts and "10 looks: does not count" in line(FEW)
    assert "does not count" in line(CALM) and "kill apply, exit apply.begin" in line(KILLED)
    text = "\n".join(summary(found, 3.0))
    assert "2 histories passed in 3 s, 1 of them" in text and f"failpoints reached: 2 of {len(POINTS)}" in text


def test_what_is_kept_leaves_the_bugs_that_people_wrote(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"bugs": [{"seed": 1, "what": "x", "test": "y"}]}))
    keep(file, tally(), 3.4, ["mysql 8"])
    kept = json.loads(file.read_text())
    assert kept["bugs"] == [{"seed": 1, "what": "x", "test": "y"}] and kept["seeds"] == [3, 5]
    assert kept["failpoints"]["apply.begin"] == [2, 1] and kept["failpoints"]["state.write"] == [0, 0]
    assert set(kept["failpoints"]) == set(POINTS)


def test_a_run_that_goes_on_where_a_kept_one_ended_is_added_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "commit", lambda: "0123456789ab")
    file = tmp_path / "results.json"

    def kept(first: int, commit: str = "0123456789ab") -> dict[str, Any]:
        monkeypatch.setattr(report, "commit", lambda: commit)
        found = Tally()
        for number, told in enumerate((KILLED, CALM, WRONG)):
            found.add(replace(told, seed=first + number))
        keep(file, found, 3.4, ["mysql 8"])
        return cast("dict[str, Any]", json.loads(file.read_text()))

    once, twice = kept(1), kept(4)
    assert (twice["seeds"], twice["failed"], twice["passed"], twice["seconds"]) == ([1, 6], [3, 6], 4, 6)
    assert twice["failpoints"]["apply.begin"] == [4, 2] and twice["faults"] == {"exit": 2, "kill": 2}
    assert list(once) == list(twice) and once["servers"] == twice["servers"]
    assert kept(8)["seeds"] == [8, 10]  # 7 is missing between them
    assert kept(11, "another")["seeds"] == [11, 13]
    assert kept(14, "")["passed"] == kept(17, "")["passed"] == 2  # nobody knows of what
