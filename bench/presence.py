"""The cost of being there: what a job costs that has nothing to do, and what is waited for: `--help`, `status`, the start.

An empty table is loaded and streamed; once that is so, and some time later, its processes are watched for a minute."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench.at_target import Looking
from bench.figures import Figure, middle
from bench.processes import Cost, Program, cpu, is_java, measured, python, until
from bench.stand import Job, Stand

SETTLE, WATCH = 20.0, 60.0  # seconds: until Java has compiled what it compiles; of watching
CORES, RUN_MB, CAPTURE_MB, HELP_MS, STATUS_MS, START_S = 0.03, 700, 120, 150, 300, 20
NAME = "presence"
STARTED = "capture_started"
TABLE = "CREATE TABLE orders (id int NOT NULL PRIMARY KEY, note varchar(20) NOT NULL)"
PATIENCE = 180.0


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    """`scale` counts for nothing: there are no rows."""
    del scale
    source, target = stand.databases(NAME)
    source.execute(TABLE)
    job = stand.job(NAME, source, target)
    with Looking(target) as looking:
        begin = time.monotonic()
        with job.start("run") as program:
            streams = partial(stand.at.streaming, looking, job.name)
            start = until(streams, PATIENCE, "the stream", 0.02, program.check) - begin
            cores, sizes = _watched(program)
            status = [_timed(job, "status", job.file) for _ in range(2 * repeat + 1)]
    helps = [_timed(job, "--help") for _ in range(2 * repeat + 1)]
    capture = _capture(job)
    java = sum(size for pid, size in sizes.items() if pid < 0)
    facts = {"seconds": WATCH, "processes": len(sizes)}
    memory = {"java_mb": java, "python_mb": sum(sizes.values()) - java}

    def most(what: str, unit: str, value: float, goal: float, facts: Mapping[str, object]) -> Figure:
        return Figure(f"presence {what}", stand.of, unit, value, goal, is_most=True, facts=dict(facts))

    return [
        most("idle", "cores", cores, CORES, facts),
        most("idle", "pss_mb", sum(sizes.values()), RUN_MB, memory),
        most("capture", "pss_mb", capture, CAPTURE_MB, {}),
        _command(most, "help", helps, HELP_MS),
        _command(most, "status", status, STATUS_MS),
        most("start", "seconds", start, START_S, {}),
    ]


def _watched(program: Program) -> tuple[float, dict[int, float]]:
    """The share of one core, and MB by process; Java's have their numbers below zero."""
    time.sleep(SETTLE)
    begin, before = time.monotonic(), cpu(program.tree)
    time.sleep(WATCH)
    program.check()
    cores = (cpu(program.tree) - before) / (time.monotonic() - begin)
    return cores, {-pid if is_java(pid) else pid: size for pid, size in resident(program.tree).items()}


def _capture(job: Job) -> float:
    """MB of `capture` and what it starts, when it has nothing to do."""
    with job.start("capture") as program:
        until(lambda: program.heard(STARTED), PATIENCE, STARTED, check=program.check)
        time.sleep(SETTLE)
        program.check()
        return sum(resident(program.tree).values())


def resident(pids: Sequence[int]) -> dict[int, float]:
    """MB resident now, by process; what several share is shared out, so that the sum is what they take (proc(5), Pss)."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
            found[pid] = next((int(line[1]) / 1024 for line in lines if line[0] == "Pss:"), 0.0)
    return found


def _timed(job: Job, *arguments: object) -> Cost:
    return measured(python("anabranch", *arguments), {**os.environ, **job.environment})


def _command(most: Any, what: str, costs: Sequence[Cost], goal: float) -> Figure:
    facts = {"cpu_ms": 1000 * middle([cost.cpu for cost in costs]), "rss_mb": max(cost.rss for cost in costs)}
    figure: Figure = most(what, "ms", 1000 * middle([cost.seconds for cost in costs]), goal, facts)
    return figure
