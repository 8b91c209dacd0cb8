"""W10: many small tables. Processor time of each from preflight to streaming with its index built, beyond what a job of one
table takes, and when the job starts again; and how long the first start takes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from anabranch.testing.databases import Database, drop_database
from bench.at_target import Looking
from bench.figures import Figure, middle
from bench.meter import Meter, Sampled
from bench.processes import Cost, Program, measured, python, until
from bench.stand import Job, Stand

TABLES = 2_000
FIRST_MS, AGAIN_MS, SECONDS = 30.0, 5.0, 75.0
PATIENCE = 1800.0
TABLE = "CREATE TABLE t{number} (id int NOT NULL PRIMARY KEY, v int NOT NULL DEFAULT 3, word varchar(20))"
INDEX = "CREATE INDEX t{number}_v ON t{number} (v)"
ROWS = "INSERT INTO t{number} VALUES (1, {number}, 'one'), (2, {number}, 'two')"


@dataclass(frozen=True)
class Starts:
    """`preflight` is a command of its own; `first` and `again`: from the start of `run` to streaming, each to its end."""

    preflight: Cost
    first: Cost
    again: Cost
    servers: dict[str, float]  # processor seconds of source and target in the first


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    number = max(10, int(TABLES * scale))
    one = [_starts(stand, 1) for _ in range(repeat)]
    many = [_starts(stand, number) for _ in range(repeat)]
    facts: dict[str, object] = {"tables": number}

    def each(costs: Sequence[Cost], fixed: Sequence[Cost]) -> float:
        return 1000 * (_cpu(costs) - _cpu(fixed)) / (number - 1)

    first = each([s.first for s in many], [s.first for s in one])
    preflight = each([s.preflight for s in many], [s.preflight for s in one])
    again = each([s.again for s in many], [s.again for s in one])
    seconds = middle([s.first.seconds for s in many])
    parts = {kind: use.cpu for kind, use in many[0].first.each.items()} | many[0].servers
    spent = {f"{kind.replace(' ', '_')}_s": used for kind, used in sorted(parts.items())}
    start = {"one_table_cpu_s": _cpu([s.first for s in one]), "cpu_s": _cpu([s.first for s in many])}

    def most(what: str, unit: str, value: float, goal: float | None, more: dict[str, object]) -> Figure:
        return Figure(f"W10 {what}", stand.pair, unit, value, goal, is_most=True, facts={**facts, **more})

    return [
        most("tables", "ms", first, FIRST_MS, {**start, **spent}),
        most("tables/preflight", "ms", preflight, None, {}),
        most("tables/again", "ms", again, AGAIN_MS, {"one_table_cpu_s": _cpu([s.again for s in one])}),
        most("tables/seconds", "seconds", seconds, SECONDS if number >= TABLES else None, {}),
    ]


def _cpu(costs: Sequence[Cost]) -> float:
    return middle([cost.cpu for cost in costs])


def _starts(stand: Stand, number: int) -> Starts:
    with _databases(stand, number) as (source, target):
        job = stand.job(f"tables{number}", source, target, table="*")
        preflight = measured(python("anabranch", "preflight", job.file), {**os.environ, **job.environment})
        with Looking(target) as looking:
            meter = Meter([], stand.servers)
            first = _started(job, lambda: job.at.streaming(looking, job.name, built=True) == number)
            servers = {name: use.cpu for name, use in meter.cost().each.items()}
            sums = "SELECT sum(v) FROM t0"
            source.execute("UPDATE t0 SET v = v + 7")
            changed = source.query(sums)
            again = _started(job, lambda: looking.ask(sums) == changed)
            _compare(job, looking, number)
    return Starts(preflight, first, again, servers)


@contextmanager
def _databases(stand: Stand, number: int) -> Iterator[tuple[Database, Database]]:
    source, target = stand.databases(f"tables{number}")
    statements = [one.format(number=n) for n in range(number) for one in (TABLE, INDEX, ROWS)]
    for first in range(0, len(statements), 300):
        source.execute(*statements[first : first + 300])
    yield source, target
    drop_database(source)
    stand.at.drop(target)


def _started(job: Job, is_ready: Any) -> Cost:
    """What `run` and all that it starts take until then."""
    with job.start("run") as program, Sampled(program) as sampled:
        until(is_ready, PATIENCE, f"{job.name} streams", 0.2, program.check)
        cost = sampled.cost()
        _end(program)
    return cost


def _end(program: Program) -> None:
    program.stop()
    assert program.process.returncode == 0, "\n".join(line for _, line in program.said)


def _compare(job: Job, looking: Looking, number: int) -> None:
    """All rows of all tables are there, with their indexes."""
    values = " UNION ALL ".join(f"SELECT id, v FROM t{n}" for n in range(number))
    sums = f"SELECT count(*), sum(v) FROM ({values}) AS t"
    there = [tuple(map(int, row)) for row in job.source.query(sums)]
    here = [tuple(map(int, row)) for row in looking.ask(sums)]
    assert there == here, f"source {there}, target {here}"
    built = job.at.indexes_named(looking, "_v$")
    assert built == number, f"{built} of {number} indexes"
