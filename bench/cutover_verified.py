"""The downtime of a cut-over that verifies what has changed since `verify --watch` has looked: a large table that is kept
verified, a job that is caught up, 500 transactions a second.

The watch has a turn, and its writer goes on for a minute behind it; then the table is cut over with `--since-watch`. What the
comparison costs does not hang on the rows of the table, but on how many changed since: both are told. What does not live here:
the writer, and what has to be at both ends (cutover.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from anabranch.testing.databases import Database, drop_database
from bench.at_target import Looking
from bench.capture import begin_trail
from bench.cutover import PATIENCE, RATE, STEADY_ROWS, SWITCH, application, cut_over, environment, lift, require_all
from bench.figures import Figure
from bench.processes import Program, ProgramFailed, measured, python, until
from bench.stand import Job, Stand

ROWS, FEWEST = 10_000_000, 10_000
GOAL = 10.0  # seconds
BEHIND = 60.0  # seconds from the turn's end to the cut-over


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # a cut-over is final for its job
    rows = max(FEWEST, round(ROWS * scale))
    source, target = stand.databases("cutover_verified")
    source.execute(stand.ledger())
    fill(source, rows)
    url = application(source)
    job = stand.job("cutover_verified", source, target, table="ledger", more=SWITCH)
    begin_trail(job)
    with job.start("load") as load:
        load.process.wait()
    try:
        report, seconds = _cut_over(stand, job, source, target, url)
    finally:
        lift(source)
    measured(python("anabranch", "drop", job.file, "--execute", "--lift-fence"), environment(job))
    stand.at.drop(target)
    drop_database(source)
    return [_figure(stand, report, rows, seconds)]


def fill(source: Database, rows: int) -> None:
    """Let the ledger have so many rows: it is doubled, which a server does by itself."""
    there = 1
    source.execute("INSERT INTO ledger (written) VALUES (0)")
    while there < rows:
        more = min(there, rows - there)
        source.execute(f"INSERT INTO ledger (written) SELECT written FROM ledger LIMIT {more}")
        there += more


def _cut_over(stand: Stand, job: Job, source: Database, target: Database, url: str) -> tuple[Mapping[str, Any], float]:
    """Follow, let the watch have a turn, and cut over under the writer. Returns the report, and how long the turn took."""
    newest = f"SELECT coalesce(max(id), 0) FROM {stand.at.table('ledger')}"
    with (
        job.start("capture") as capture,
        job.start("apply") as apply,
        Looking(target) as looking,
    ):
        first = looking.one(newest)
        with Program(python("bench.until_refused", url, RATE), {}) as writer:

            def is_well() -> None:
                for part in (capture, apply, writer):
                    part.check()

            until(lambda: looking.one(newest) > first + STEADY_ROWS, PATIENCE, "rows at the target", check=is_well)
            seconds = _watched(job, is_well)
            begun = time.monotonic()
            until(lambda: time.monotonic() - begun > BEHIND, 2 * BEHIND, "writes behind it", pause=0.1, check=is_well)
            report = cut_over(job, "--since-watch")
            assert writer.process.stdout is not None
            acknowledged = {int(line) for line in writer.process.stdout.read().split()}
            require_all(acknowledged, source, target, stand, after=first)
    return report, seconds


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


def _figure(stand: Stand, report: Mapping[str, Any], rows: int, seconds: float) -> Figure:
    step = next(one for one in report["steps"] if one["step"] == "verify")
    (table,) = step["tables"]
    facts = {
        "rows": rows,
        "transactions_per_s": RATE,
        "turn_s": seconds,
        "keys_before_the_fence": table.get("before_fence", {}).get("keys", 0),
        "keys_at_the_fence": table["keys"],
    }
    downtime = float(report["downtime_seconds"])
    return Figure("cutover verified", stand.pair, "s", downtime, GOAL, is_most=True, facts=facts)
