"""The downtime of a cut-over that verifies what has changed since `verify --watch` has looked: a large table that is kept
verified, a job that is caught up, 500 transactions a second, every other one of which changes any row of the table.

Before each cut-over the watch has a turn, since its result does not outlast a cut-over that was taken back, and the writer
goes on for a while behind it; then the table is cut over with `--since-watch`. What the comparison costs does not hang on the
rows of the table, but on how many changed since: both are told. What does not live here: the writer, the cut-over itself,
what has to be at both ends (cutover.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.cutover import Switching, figures, switching
from bench.figures import Figure, middle
from bench.processes import ProgramFailed, until
from bench.stand import Job, Stand

ROWS, FEWEST_ROWS = 10_000_000, 10_000
TIMES, FEWEST = 10, 3
GOAL = 10.0  # seconds
BEHIND = 5.0  # seconds from the turn's end to the cut-over


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # each run has several of them
    rows = max(FEWEST_ROWS, round(ROWS * scale))
    times = max(FEWEST, round(TIMES * min(scale, 1.0)))
    with switching(stand, "cutover_verified", rows) as one:
        one.follow()
        found = [_verified(one, is_last=number == times - 1) for number in range(times)]
    facts = {"rows": rows, **{name: middle([each[name] for _, each in found]) for name in found[0][1]}}
    return figures("cutover verified", stand.pair, sorted(downtime for downtime, _ in found), GOAL, facts)


def _verified(one: Switching, is_last: bool) -> tuple[float, dict[str, float]]:
    """Let the watch have a turn, and cut over. Returns the downtime, and what the comparison had to do."""
    seconds = _watched(one.job, one.is_well)
    begun = time.monotonic()
    until(lambda: time.monotonic() - begun > BEHIND, 2 * BEHIND, "writes behind it", pause=0.1, check=one.is_well)
    downtime, report = one.cut_over("--since-watch", is_last=is_last)
    return downtime, {"turn_s": seconds, **_compared(report)}


def _compared(report: Mapping[str, Any]) -> dict[str, float]:
    """How many rows were compared before the fence and at it. Raises ProgramFailed where the table was compared whole."""
    step = next(one for one in report["steps"] if one["step"] == "verify")
    (table,) = step["tables"]
    if "since" not in table:
        raise ProgramFailed(f"the table was compared whole: {table.get('why')}")
    before = table.get("before_fence", {}).get("keys", 0)
    return {"keys_before_the_fence": float(before), "keys_at_the_fence": float(table["keys"])}


def _watched(job: Job, is_well: Callable[[], None]) -> float:
    """Let the watch find the table equal. Returns how long that took, from the command's start."""
    began = time.monotonic()
    with job.start("verify", "--watch") as watch:
        assert watch.process.stdout is not None
        for line in watch.process.stdout:
            is_well()
            if "identical" in line:
                return time.monotonic() - began
            if "DIFFERENT" in line:
                raise ProgramFailed(f"verify --watch: {line}")
        watch.check()
    raise ProgramFailed("verify --watch has ended")
