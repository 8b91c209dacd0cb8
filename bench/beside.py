"""Verification beside writers: 200 times `anabranch verify` of a job that follows 1,000 transactions a second. Nothing is
wrong, so not one row may be told as different; then a number is changed at the target, ten times in a row that rests, and has
to be found; and as often in rows that are written: found, or gone by the next change, which brings the whole row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anabranch.testing.databases import Database
from bench.at_target import Looking
from bench.capture import begin_trail
from bench.changing import HOT, RESTING, ROWS, TABLE
from bench.figures import Figure, percentile
from bench.processes import Program, ProgramFailed, python, until
from bench.stand import Job, Stand

TIMES, EXACT, FEWEST, FLIPS, RATE = 200, 50, 5, 10, 1000
FOUND, GONE, PENDING, MISSED = "found", "gone", "pending", "missed"  # what becomes of a row that was changed
PATIENCE = 180.0
AT_ONCE = 1_000  # rows of a statement
CONTINUOUS = '[apply]\nrunner = "continuous"\n'


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # one run has many of them
    source, target = stand.databases("beside")
    fill(source)
    job = stand.job("beside", source, target, table="counters", more=CONTINUOUS)
    begin_trail(job)
    job.load()
    with (
        job.start("capture") as capture,
        job.start("apply") as apply,
        Looking(target) as looking,
        Program(python("bench.warm"), job.environment) as worker,
        Program(python("bench.changing", stand.source.url(source.name), RATE), {}) as writer,
    ):
        place = stand.at.table("counters")
        newest = f"SELECT max(n) FROM {place} WHERE id < 10"

        def is_well() -> None:
            for part in (capture, apply, writer):
                part.check()

        until(lambda: looking.one(newest) > 0, PATIENCE, "changes at the target", check=is_well)
        _verified(worker, job)  # the first has Spark's start in it
        runs, rate = _many(worker, writer, job, max(FEWEST, round(TIMES * scale)))
        exact = _exactly(worker, job, max(FEWEST, round(EXACT * scale)))
        found = [_flipped(worker, job, target, place, ROWS + key) for key in range(0, RESTING, RESTING // FLIPS)]
        written = [_flipped_written(worker, job, target, place, key) for key in _written_keys()]
        is_well()
    return [*_figures(stand, runs, rate, found), _written_figure(stand, written), *_exact_figures(stand, exact)]


def fill(source: Database) -> None:
    """Make the table with its rows, those that nobody writes to behind the others."""
    source.execute(TABLE)
    for first in range(0, ROWS + RESTING, AT_ONCE):
        rows = ", ".join(f"({key}, 0, 'word')" for key in range(first, min(first + AT_ONCE, ROWS + RESTING)))
        source.execute(f"INSERT INTO counters VALUES {rows}")


def _verified(worker: Program, job: Job, verb: str = "verify") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(worker.ask(f"{verb} {job.file}"))
    return found


def _exactly(worker: Program, job: Job, times: int) -> list[dict[str, Any]]:
    """Verify at one position."""
    return [_verified(worker, job, "verify-exactly") for _ in range(times)]


def _many(worker: Program, writer: Program, job: Job, times: int) -> tuple[list[dict[str, Any]], float]:
    """Verify so often. Returns the results, and how many transactions a second were committed meanwhile."""
    committed, runs = int(writer.ask("")), list[dict[str, Any]]()
    while len(runs) < times:
        runs.append(_verified(worker, job))
        if wrong := [table for table in runs[-1]["tables"] if differing(table)]:
            print(f"told as different, and is not: {wrong}", flush=True)
    seconds = sum(one["seconds"] for one in runs)
    return runs, (int(writer.ask("")) - committed) / seconds


def differing(table: Mapping[str, Any]) -> int:
    """Return how many rows of a table are told as different."""
    return sum(int(table[kind]) for kind in ("missing", "extra", "different"))


def _flipped(worker: Program, job: Job, target: Database, place: str, key: int) -> bool:
    """Flip a bit of a row at the target, and back. Returns whether that row was found, and no other."""
    target.execute(f"UPDATE {place} SET n = 1 WHERE id = {key}")
    (table,) = _verified(worker, job)["tables"]
    target.execute(f"UPDATE {place} SET n = 0 WHERE id = {key}")
    return differing(table) == 1 and [one["key"] for one in table["sample"]] == [{"id": str(key)}]


def _written_keys() -> Iterator[int]:
    """Half of them are of rows that never rest, half of rows that are written about once a minute."""
    half = FLIPS // 2
    yield from range(0, HOT, HOT // half)
    yield from range(HOT, ROWS, (ROWS - HOT) // half + 1)


def _flipped_written(worker: Program, job: Job, target: Database, place: str, key: int) -> str:
    """Change a row at the target that is written, let it be verified, and change it back if it is still so. Returns what became
    of it."""
    target.execute(f"UPDATE {place} SET n = -1 - n WHERE id = {key}")
    (table,) = _verified(worker, job)["tables"]
    stays = bool(target.query(f"SELECT 1 FROM {place} WHERE id = {key} AND n < 0"))
    target.execute(f"UPDATE {place} SET n = -1 - n WHERE id = {key} AND n < 0")
    return outcome(table, key, stays)


def outcome(table: Mapping[str, Any], key: int, stays: bool) -> str:
    """Return what became of a row that was changed at the target, by what a verification told of its table. `stays`: whether
    it is still so. Raises ProgramFailed where other rows are told as different."""
    if differing(table):
        if [one["key"] for one in table["sample"]] != [{"id": str(key)}]:
            raise ProgramFailed(f"told as different, and is not: {table}")
        return FOUND
    if not stays:
        return GONE
    return PENDING if int(table["pending"]) else MISSED


def _written_figure(stand: Stand, written: Sequence[str]) -> Figure:
    facts = {name: written.count(name) for name in (FOUND, GONE, PENDING)}
    missed = float(written.count(MISSED))
    return Figure("verify beside writers/flipped, written", stand.pair, MISSED, missed, 0.0, is_most=True, facts=facts)


def _exact_figures(stand: Stand, runs: list[dict[str, Any]]) -> list[Figure]:
    if not runs:
        return []
    paused = sorted(float(one["paused"]) for one in runs)
    false = sum(differing(table) for one in runs for table in one["tables"])
    share = sum("exact" in one for one in runs) / len(runs)
    facts = {"verifications": len(runs), "paused_p50_s": percentile(paused, 0.5), "paused_max_s": paused[-1]}
    name = "verify beside writers/one position"
    return [
        Figure(name, stand.pair, "false", float(false), 0.0, is_most=True, facts=facts),
        Figure(f"{name}/had", stand.pair, "share", share),
    ]


def _figures(stand: Stand, runs: list[dict[str, Any]], rate: float, found: list[bool]) -> list[Figure]:
    tables = [table for one in runs for table in one["tables"]]
    took = sorted(float(one["seconds"]) for one in runs)
    pending = [int(table["pending"]) for table in tables]
    facts = {
        "verifications": len(runs),
        "transactions_per_s": rate,
        "p50_s": percentile(took, 0.5),
        "max_s": took[-1],
        "with_pending": sum(map(bool, pending)),
        "most_pending": max(pending),
    }
    false = float(sum(map(differing, tables)))
    if not all(one.get("positions") for one in runs):
        raise ProgramFailed("a verification was not beside the job")
    return [
        Figure("verify beside writers", stand.pair, "false", false, 0.0, is_most=True, facts=facts),
        Figure("verify beside writers/flipped", stand.pair, "found", sum(found) / len(found), 1.0),
    ]
