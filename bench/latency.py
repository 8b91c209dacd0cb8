"""W4, latency: rows with the writer's clock, one per transaction, at a steady rate; from before the source's statement to
visible at the target, asked over a connection of its own. Both clocks are this machine's."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from anabranch.testing.databases import connect
from bench.capture import begin_trail
from bench.figures import Figure, percentile
from bench.processes import Program, cpu, python, until
from bench.stand import Stand

SECONDS, RATE = 300.0, 500
FEWEST_SECONDS = 20.0
FLOOR_MS = 200
WARM = 0.2  # of the time, not counted: Java is still compiling
POLL = 0.001
NEWER = "SELECT id, written FROM public.ledger WHERE id > %s ORDER BY id"


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # one long run has thousands of repetitions in it
    seconds = max(FEWEST_SECONDS, SECONDS * scale)
    source, target = stand.databases("latency")
    source.execute(stand.ledger())
    job = stand.job("latency", source, target, table="ledger")
    begin_trail(job)
    with job.start("load") as load:
        load.process.wait()
    with (
        job.start("capture") as capture,
        job.start("apply") as apply,
        closing(connect(target.server, target.name)) as connection,
    ):
        source.execute("INSERT INTO ledger (written) VALUES (0)")
        until(
            lambda: connection.execute(NEWER, [0], prepare=True).fetchone(), 180, "the first change", check=apply.check
        )
        parts = [*capture.tree, *apply.tree]
        before = cpu(parts)
        begin = time.time()
        writer = Program(python("bench.ledger", stand.source.url(source.name), RATE, seconds), {})
        seen = _watch(connection, writer, apply)
        used = (cpu(parts) - before) / (time.time() - begin)
    first, last = begin + WARM * seconds, max(written for written, _ in seen) / 1e6
    late = sorted((when - written / 1e6) * 1000 for written, when in seen if written / 1e6 >= first)
    facts = {
        "p99_ms": percentile(late, 0.99),
        "max_ms": late[-1],
        "transactions_per_s": len(late) / (last - first),
        "cores": used,
    }
    return [Figure("W4 latency", stand.name, "p50_ms", percentile(late, 0.5), FLOOR_MS, is_most=True, facts=facts)]


def _watch(connection: Any, writer: Program, apply: Program) -> list[tuple[int, float]]:
    """(the writer's clock, ours when the row was first seen) of every row, until all that was written is here. The
    writer is one connection after the other for each number: ids may come out of order, by a little."""
    seen: list[tuple[int, float]] = []
    highest = 1
    late: set[int] = set()  # ids below `highest` that were not there when it was
    total: int | None = None
    while total is None or len(seen) < total:
        apply.check()
        rows = connection.execute(NEWER, [min(late, default=highest + 1) - 1], prepare=True).fetchall()
        now = time.time()
        for number, written in rows:
            if number > highest:
                late.update(range(highest + 1, number))
                highest = number
                seen.append((written, now))
            elif number in late:
                late.discard(number)
                seen.append((written, now))
        if total is None and writer.process.poll() is not None:
            assert writer.process.stdout is not None
            total = int(writer.process.stdout.read())
        connection.commit()
        time.sleep(POLL)
    return seen
