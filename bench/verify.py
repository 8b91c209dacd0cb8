"""W7, verification: `anabranch verify` of a table that is the same at both ends, with Spark running already, against reading
both ends to /dev/null with the vendors' clients, both at the same time; the same with `--by-rows`. Then three planted
differences: it has to find each of them and no other."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from anabranch.testing.databases import Database
from bench.figures import Figure, Side, compared
from bench.meter import Meter
from bench.peers.chosen import chosen
from bench.peers.reladiff import Reladiff
from bench.peers.ring import Ring
from bench.processes import Cost, Program, forget_peak, measured, python
from bench.stand import Job, Stand

ROWS = 10_000_000
GOAL, FAMILY_GOAL, RELADIFF_GOAL = 0.5, 0.8, 3.0  # FAMILY_GOAL: at a MySQL or MariaDB
BY_ROWS = "verify-by-rows"
TWO_TASKS = '[spark]\nmaster = "local[2]"'  # as many as there are clients
PLANTED = (
    "UPDATE {table} SET amount = amount + 1 WHERE id = 1",
    "DELETE FROM {table} WHERE id = 3",
    "INSERT INTO {table} SELECT -2, customer_id, status, amount, note, created_at, flag, payload"
    " FROM {table} WHERE id = 5",
)
FOUND = {"different": {"id": "1"}, "extra": {"id": "-2"}, "missing": {"id": "3"}}


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    rows = int(ROWS * scale)
    source, target = stand.databases("verify")
    stand.orders(source).create(rows)
    job = stand.job("verify", source, target, more=TWO_TASKS)
    bring_over(job)
    stand.at.analyse(target, "orders")
    ours: list[Cost] = []
    by_rows: list[Cost] = []
    reads: list[Cost] = []
    peers = Ring("W7 verify", stand, stand.pair, chosen((Reladiff(),)))
    with Program(python("bench.warm"), job.environment) as worker:
        verified(worker, job, stand)  # the first has Spark's start in it
        for _ in range(repeat):
            reads.append(_read(stand, source, target))
            peers.each(lambda peer: peer.verify(stand, source, target))
            for costs, verb in ((ours, "verify"), (by_rows, BY_ROWS)):
                cost, found = verified(worker, job, stand, verb)
                costs.append(cost)
                _check_equal(found, rows)
        target.execute(*(one.format(table=stand.at.table("orders")) for one in PLANTED))
        _check_planted(verified(worker, job, stand)[1])
    mine = Side("anabranch", "anabranch verify, Spark running already", rows, ours)
    reading = Side("anabranch", "anabranch verify --by-rows, Spark running already", rows, by_rows)
    ceiling = Side("reading", "both ends read to /dev/null at the same time", rows, reads)
    return [
        compared("W7 verify", stand.pair, mine, ceiling, GOAL if stand.at.kind == "postgresql" else FAMILY_GOAL),
        compared("W7 verify/by-rows", stand.pair, reading, ceiling, GOAL),
        *peers.figures(mine, {"reladiff": RELADIFF_GOAL}),
    ]


def bring_over(job: Job) -> None:
    """Load, and stream until nothing is left to do."""
    with job.start("run", "--until-caught-up") as program:
        program.process.wait()
    assert program.process.returncode == 0, "\n".join(line for _, line in program.said)


def verified(worker: Program, job: Job, stand: Stand, verb: str = "verify") -> tuple[Cost, dict[str, Any]]:
    """What it cost, and what it found."""
    forget_peak(worker.tree)
    meter = Meter([worker], stand.servers)
    found = json.loads(worker.ask(f"{verb} {job.file}"))
    return replace(meter.cost(), seconds=float(found["seconds"])), found


def _read(stand: Stand, source: Database, target: Database) -> Cost:
    """Both ends at once: until the later one is read."""
    programs = (stand.rows(source), stand.at.reads(target, "orders"))
    with ThreadPoolExecutor() as pool:
        costs = list(pool.map(lambda one: measured(*one), programs))
    return Cost(max(c.seconds for c in costs), sum(c.cpu for c in costs), max(c.rss for c in costs))


def _check_equal(found: dict[str, Any], rows: int) -> None:
    [table] = found["tables"]
    counts = table["rows_source"], table["rows_target"]
    assert found["identical"] and counts == (rows, rows), f"{rows} rows were to be identical: {table}"


def _check_planted(found: dict[str, Any]) -> None:
    [table] = found["tables"]
    sample = {one["kind"]: one["key"] for one in table["sample"]}
    counts = table["missing"], table["extra"], table["different"]
    columns = [one["columns"] for one in table["sample"] if one["kind"] == "different"]
    assert (sample, counts, columns) == (FOUND, (1, 1, 1), [["amount"]]), f"other differences were planted: {table}"
