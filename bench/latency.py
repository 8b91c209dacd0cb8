"""W4, latency: rows with the writer's clock, one per transaction, at a steady rate; from before the source's statement to
visible at the target, asked over a connection of its own. Both clocks are this machine's. What does not live here: the latency
of a way back (reverse.py), which is measured by `followed`, too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from anabranch.testing.databases import Database
from bench.at_target import Looking
from bench.capture import begin_trail
from bench.figures import Figure, Side, distribution, percentile
from bench.meter import Meter
from bench.peers import Follower
from bench.peers.chosen import LIVE, chosen
from bench.peers.ring import Ring
from bench.processes import Cost, Program, cpu, peak_rss, python, until
from bench.stand import Job, Stand

SECONDS, RATE = 300.0, 1000
FEWEST_SECONDS = 20.0
WARM = 0.2  # of the time, not counted: Java is still compiling
POLL = 0.001
NEWER = "SELECT id, written FROM {table} WHERE id > %s ORDER BY id"
# By kind of target: the runner, what is added to the figure's name, the most that p50 and p99 may be.
Goals = tuple[str, str, float, float]
_CONTINUOUS: Goals = ("continuous", "/continuous", 10.0, 25.0)
RUNNERS: dict[str, tuple[Goals, ...]] = {
    "postgresql": (("streaming", "", 80.0, 200.0), _CONTINUOUS),
    "mysql": (("streaming", "", 30.0, 120.0), _CONTINUOUS),
    "mariadb": (("streaming", "", 30.0, 120.0), _CONTINUOUS),
}


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # one long run has thousands of repetitions in it
    seconds = max(FEWEST_SECONDS, SECONDS * scale)
    return [
        *(figure for runner in RUNNERS[stand.at.kind] for figure in _runner(stand, seconds, runner)),
        *_peers(stand, seconds),
    ]


def _loaded(job: Job) -> None:
    begin_trail(job)
    job.load()


def _runner(stand: Stand, seconds: float, goals: Goals) -> list[Figure]:
    source, target = stand.databases("latency")
    source.execute(stand.ledger())
    runner = goals[0]
    job = stand.job(f"w4_{runner}", source, target, table="ledger", more=f'[apply]\nrunner = "{runner}"')
    _loaded(job)
    return followed(stand, job, seconds, "W4 latency", goals)


def followed(stand: Stand, job: Job, seconds: float, name: str, goals: Goals) -> list[Figure]:
    """Let a job follow the writer for so long. Its table may have rows already."""
    runner, suffix, p50, p99 = goals
    with (
        job.start("capture") as capture,
        job.start("apply") as apply,
        Looking(job.target) as looking,
    ):
        stand.at.look_by_key(looking)
        newer = NEWER.format(table=stand.at.table("ledger"))
        job.source.execute("INSERT INTO ledger (written) VALUES (0)")
        [(number,)] = job.source.query("SELECT max(id) FROM ledger")
        until(lambda: looking.ask(newer, number - 1), 180, "the first change", check=apply.check)
        meter, began = Meter([capture, apply], stand.servers), time.time()
        writer = Program(python("bench.ledger", stand.source.url(job.source.name), RATE, seconds), {})
        seen = watch(looking, newer, writer, apply, number)
        cost = meter.cost()
    late, rate = _delays(seen, began + WARM * seconds)
    side = Side("anabranch", f"anabranch capture and apply, {runner}", len(seen), [cost])
    facts = {"max_ms": late[-1], "transactions_per_s": rate, "cores": cost.cpu / cost.seconds}
    curves = {"latency": distribution(late)}
    name += suffix
    return [
        Figure(name, stand.pair, "p50_ms", percentile(late, 0.5), p50, True, facts, [side], curves),
        Figure(name, stand.pair, "p99_ms", percentile(late, 0.99), p99, True),
    ]


def _delays(seen: Sequence[tuple[int, float]], first: float) -> tuple[list[float], float]:
    """Milliseconds of the rows written from `first` on, in ascending order, and how many of them came in a second."""
    late = sorted((when - written / 1e6) * 1000 for written, when in seen if written / 1e6 >= first)
    return late, len(late) / (max(written for written, _ in seen) / 1e6 - first)


def watch(looking: Looking, newer: str, writer: Program, apply: Any, highest: int = 1) -> list[tuple[int, float]]:
    """(the writer's clock, ours when the row was first seen) of every row, until all that was written is here. The
    writer is one connection after the other for each number: ids may come out of order, by a little."""
    seen: list[tuple[int, float]] = []
    late: set[int] = set()  # ids below `highest` that were not there when it was
    total: int | None = None
    while total is None or len(seen) < total:
        apply.check()
        rows = looking.ask(newer, min(late, default=highest + 1) - 1)
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
        time.sleep(POLL)
    return seen


def _peers(stand: Stand, seconds: float) -> list[Figure]:
    """The same by each peer, after ours has ended: two at once would share the processors."""
    figures: list[Figure] = []
    ring = Ring("W4 latency", stand, stand.pair, chosen(LIVE))

    def measure(peer: Follower) -> None:
        source, target = stand.databases("latency")
        source.execute(stand.ledger())
        table = stand.at.table("ledger")
        target.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, written bigint NOT NULL)")
        try:
            peer.start(stand, source, target, "ledger")
            figures.extend(_by_peer(peer, stand, source, target, seconds))
        finally:
            peer.stop()

    ring.each(measure)
    return figures + ring.absent


def _by_peer(peer: Follower, stand: Stand, source: Database, target: Database, seconds: float) -> list[Figure]:
    newer = NEWER.format(table=stand.at.table("ledger"))
    with Looking(target) as looking:
        stand.at.look_by_key(looking)
        source.execute("INSERT INTO ledger (written) VALUES (0)")
        [(number,)] = source.query("SELECT max(id) FROM ledger")
        until(lambda: looking.ask(newer, number - 1), 180, "the first change", check=peer.check)
        before, begin = cpu(peer.processes()), time.time()
        writer = Program(python("bench.ledger", stand.source.url(source.name), RATE, seconds), {})
        seen = watch(looking, newer, writer, peer, number)
        took, used, memory = time.time() - begin, cpu(peer.processes()) - before, peak_rss(peer.processes())
    late, rate = _delays(seen, begin + WARM * seconds)
    side = Side(peer.name, "log to table, one row a transaction", len(seen), [Cost(took, used, memory)])
    facts = {"max_ms": late[-1], "transactions_per_s": rate, "cores": used / took}
    name, curves = f"W4 latency/{peer.name}", {"latency": distribution(late)}
    return [
        Figure(name, stand.pair, "p50_ms", percentile(late, 0.5), facts=facts, sides=[side], curves=curves),
        Figure(name, stand.pair, "p99_ms", percentile(late, 0.99)),
    ]
