"""`through`, the initial load by way of a trail: one job loads into a trail, another one from it, at the same time, against
`anabranch load` from database to database, in turns.

Spark runs already in all three, each with one task. There are several tables, since what is overlapped are tables: one is read
by the second job while the first one reads the next. A network is not in between (bench hop has its rate)."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.testing.databases import Database
from anabranch.trail_end import facts
from bench.figures import Figure, Side, compared
from bench.meter import Meter
from bench.processes import Cost, Program, forget_peak, python, until
from bench.stand import Job, Stand

ROWS, TABLES = 3_000_000, 6
GOAL, PATIENCE = 0.6, 60.0
ONE_TASK = '[spark]\nmaster = "local[1]"'
NAMES = ["orders", *(f"orders_{number}" for number in range(1, TABLES))]


@dataclass(frozen=True)
class Way:
    """Both jobs, and the trail between them."""

    out: Job
    into: Job
    trail: Path


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    rows = int(ROWS * scale) // TABLES
    source, target = stand.databases("through")
    _create(stand, source, rows)
    direct, way = stand.job("direct", source, target, "orders*", ONE_TASK), _way(stand, source, target)
    directly, through = list[Cost](), list[Cost]()
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Program(python("bench.warm"), job.environment)) for job in (direct, way.out, way.into)
        ]
        _turn(stand, workers[:1], [direct], rows, way)  # Spark and files of the servers are warm then, for both
        _turn(stand, workers[1:], [way.out, way.into], rows, way)
        for _ in range(repeat):
            directly.append(_turn(stand, workers[:1], [direct], rows, way))
            through.append(_turn(stand, workers[1:], [way.out, way.into], rows, way))
    work = rows * TABLES
    ours = Side("anabranch", "anabranch load into a trail and, beside it, out of it", work, through)
    other = Side("direct", "anabranch load from database to database", work, directly)
    sizes = {"rows": work, "tables": TABLES}
    return [compared("load through a trail", stand.pair, ours, other, GOAL, facts=sizes)]


def _create(stand: Stand, source: Database, rows: int) -> None:
    stand.orders(source).create(rows)
    like = "(LIKE orders INCLUDING ALL)" if stand.name == "postgresql" else "LIKE orders"
    for name in NAMES[1:]:
        source.execute(f"CREATE TABLE {name} {like}", f"INSERT INTO {name} SELECT * FROM orders")


def _way(stand: Stand, source: Database, target: Database) -> Way:
    """Make two jobs of the job from database to database: each has the trail at its other end."""
    trail = stand.directory / "through" / "shop"
    trail.parent.mkdir()
    out, into = (stand.job(name, source, target, "orders*", ONE_TASK) for name in ("out", "into"))
    url = f'url = "trail+file://{trail}"'
    for job, end in ((out, "[target]\n"), (into, "[source]\n")):
        head, _, rest = job.file.read_text().partition(end)
        job.file.write_text(f"{head}{end}{url}\n{rest.partition(chr(10))[2]}")
    text = out.file.read_text()
    out.file.write_text("\n".join(line for line in text.splitlines() if not line.startswith("target = ")))
    return Way(out, into, trail)


def _turn(stand: Stand, workers: list[Program], jobs: list[Job], rows: int, way: Way) -> Cost:
    """Load once, as if no job had ever run before or after."""
    stand.at.flush()
    for worker in workers:
        forget_peak(worker.tree)
    meter, begin = Meter(workers, stand.servers), time.monotonic()
    with ThreadPoolExecutor(len(workers)) as pool:
        asked = [
            pool.submit(worker.ask, f"load {job.file}")
            for worker, job in zip(workers, jobs, strict=True)
            if job is not way.into
        ]
        if way.into in jobs:  # `load` alone does not wait for a trail, as `run` does
            until(lambda: facts.load(way.trail), PATIENCE, "the trail says what its source is", check=workers[0].check)
            asked.append(pool.submit(workers[1].ask, f"load {way.into.file}"))
        for one in asked:
            one.result()
    seconds = time.monotonic() - begin
    cost = replace(meter.cost(), seconds=seconds)
    for name in NAMES:
        [(loaded,)] = jobs[-1].target.query(f"SELECT count(*) FROM {stand.at.table(name)}")
        assert loaded == rows, f"{loaded} rows of {name} loaded, {rows} at the source"
    stand.at.forget(jobs[-1].target, *NAMES)
    for place in (*(job.home for job in jobs), way.trail):
        shutil.rmtree(place, ignore_errors=True)
    return cost
