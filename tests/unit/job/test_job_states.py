"""The states of `status`: a closed set, whatever parts live, are gone or have ended."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest

from anabranch.errors import SourceUnavailable, TargetError
from anabranch.job.states import WORST, Condition, condition_of, worst
from anabranch.job.status import as_seen
from anabranch.model.condition import ACTIVE, STATES, Waiting

AT = "2026-01-01T00:00:00.000Z"
LATER = "2026-01-01T00:00:09.000Z"


def a_part(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "pid": 7, "host": "db1", "since": AT, **more}


def snapshot(
    *alive: str,
    gone: tuple[str, ...] = (),
    ends: dict[str, bool] | None = None,
    phase: str = "stopped",
    about: str = "",
    is_here: bool = True,
) -> dict[str, Any]:
    return {
        "phase": phase if alive else "stopped",
        "detail": "",
        "about": about,
        "phase_since": AT,
        "phase_error": None,
        "parts": [a_part(name) for name in alive],
        "gone": [a_part(name, seen=AT, is_here=is_here) for name in gone],
        "ends": {name: {"at": AT, "has_failed": failed} for name, failed in (ends or {}).items()},
        "errors": {},
        "positions": {},
        "waits": [],
    }


def named(found: dict[str, Any], is_idle: bool = False) -> str:
    condition = condition_of(as_seen(found), is_idle)
    return f"{condition.state}/{condition.sub_state}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (snapshot(), "stopped/never_started"),
        (snapshot(ends={"run": False}), "stopped/in_order"),
        (snapshot("run", phase="preflight"), "starting/preflight"),
        (snapshot("run", phase="waiting", about="begin"), "starting/parts"),
        (snapshot("run"), "starting/parts"),
        (snapshot("run", "capture", "load", phase="loading"), "loading/rows"),
        (snapshot("capture", "apply", phase="loading", about="window"), "loading/window"),
        (snapshot("capture", "apply", phase="streaming"), "streaming/working"),
        (snapshot("capture", "apply", phase="draining"), "streaming/working"),
        (snapshot("run", "apply", phase="streaming"), "waiting/part"),
        (snapshot("capture", "apply", phase="waiting", about="source"), "waiting/source"),
        (snapshot("capture", "apply", phase="waiting", about="room"), "waiting/room"),
        (snapshot(gone=("run", "capture", "apply")), "died/gone"),
        (snapshot(gone=("apply",), is_here=False), "died/silent"),
        (snapshot("capture", gone=("apply",), phase="streaming"), "died/gone"),
        (snapshot("run", "capture", gone=("apply",), phase="streaming"), "waiting/part"),
        (snapshot("capture", "apply", gone=("run",), phase="streaming"), "streaming/working"),
        (snapshot("capture", "apply", gone=("load",), phase="streaming"), "streaming/working"),
        (snapshot("capture", "apply", gone=("load",), phase="waiting", about="load"), "died/gone"),
        (snapshot(ends={"apply": True}), "failed/job"),
        (snapshot("capture", ends={"apply": True}, phase="streaming"), "failed/job"),
        (snapshot("capture", ends={"apply": False}, phase="streaming"), "waiting/part"),
        (snapshot("run", "capture", ends={"apply": True}, phase="streaming"), "waiting/part"),
    ],
)
def test_states(found: dict[str, Any], expected: str) -> None:
    assert named(found) == expected


def test_idle_is_said_of_what_streams_only() -> None:
    assert named(snapshot("capture", "apply", phase="streaming"), is_idle=True) == "streaming/idle"
    assert named(snapshot("run", "apply", phase="streaming"), is_idle=True) == "waiting/part"


def test_a_run_that_stops_stops_the_job_a_part_alone_does_not() -> None:
    found = snapshot("run", "capture", "apply", phase="streaming")
    found["parts"][1]["stopping"] = AT
    assert named(found) == "streaming/working"
    found["parts"][0]["stopping"] = AT
    assert named(found) == "stopping/in_order"
    alone = snapshot("capture", phase="streaming")
    alone["parts"][0]["stopping"] = AT
    assert named(alone) == "stopping/in_order"


def test_how_it_ended_is_what_run_says_and_a_load_beside_it_is_over() -> None:
    found = snapshot(ends={"run": False, "load": True})
    found["ends"]["run"]["at"] = LATER
    assert named(found) == "stopped/in_order"
    found["ends"]["run"]["has_failed"] = True
    assert named(found) == "failed/job"
    services = snapshot(ends={"load": True, "apply": False, "capture": False})
    assert named(services).startswith("stopped") is False, "the load was the last that happened"
    services["ends"]["apply"]["at"] = LATER
    assert named(services) == "stopped/in_order"


def test_the_error_is_that_of_the_part_that_failed() -> None:
    found = snapshot(ends={"apply": True, "run": True})
    found["ends"]["run"]["at"] = LATER
    facts = TargetError("refused").facts() | {"task": "shop/apply"}
    found["errors"] = {"apply": {"part": "apply", "message": "refused", "at": AT, "facts": facts}}
    condition = condition_of(found, False)
    assert (condition.state, condition.sub_state, condition.detail) == ("failed", "target", "refused")
    assert condition.error and condition.error["task"] == "shop/apply" and condition.error["retried"] is False


def test_a_part_that_run_starts_again_is_waited_for_with_its_error() -> None:
    found = snapshot("run", "capture", ends={"apply": True}, phase="streaming")
    facts = SourceUnavailable("away").facts()
    found["errors"] = {"apply": {"part": "apply", "message": "away", "at": AT, "facts": facts}}
    condition = condition_of(as_seen(found), False)
    assert condition.state == "waiting" and condition.error and condition.error["retried"] is True
    assert condition.error["code"] == "source_unavailable"


PARTS = ("run", "capture", "load", "apply")
PHASES = ("preflight", "loading", "streaming", "draining", "waiting", "stopped")


def test_whatever_is_found_the_state_is_of_the_closed_set() -> None:
    every = [chosen for size in range(5) for chosen in combinations(PARTS, size)]
    seen = set()
    for alive, phase, about in product(every, PHASES, ("", *Waiting)):
        rest = [name for name in PARTS if name not in alive]
        for gone, failed in (
            ((), ()),
            (tuple(rest[:1]), ()),
            ((), tuple(rest[-1:])),
            (tuple(rest[:1]), tuple(rest[1:])),
        ):
            ends = {name: name in failed for name in rest if name not in gone}
            found = condition_of(as_seen(snapshot(*alive, gone=gone, ends=ends, phase=phase, about=about)), False)
            assert found.sub_state in STATES[found.state], (alive, gone, ends, phase, about, found)
            assert (found.state in ACTIVE) <= bool(alive), "nothing acts without a part"
            seen.add(found.state)
    assert seen == set(STATES) - {"stopping"}


def test_of_several_targets_the_one_that_needs_somebody_is_told_and_idle_are_only_all() -> None:
    assert set(WORST) == set(STATES)
    idle, working = Condition("streaming", "idle"), Condition("streaming", "working")
    assert worst([("north", idle), ("south", working)]).sub_state == "working"
    assert worst([("north", idle), ("south", idle)]).sub_state == "idle"
    told = worst([("north", working), ("south", Condition("waiting", "target", "for it"))])
    assert (told.state, told.detail) == ("waiting", "south: for it")
