"""W8, growth: what does a row, a table, a segment cost where there are ten or a hundred times as many of them, and how much
memory is it then?

Fixed costs are taken off, not hidden: load and verification run in a process that stays up, and of each time what a step
with one empty table takes there is subtracted; of catching up what one transaction takes. So a step's cost is (its time -
that) / its size. Memory is the most that one process of each kind had resident during a step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from anabranch.testing.databases import Database, drop_database
from anabranch.testing.usage import kind_of
from bench.at_target import Looking
from bench.capture import begin_trail
from bench.catchup import catch_up, stopped
from bench.figures import Figure, middle
from bench.orders import Orders
from bench.processes import Program, forget_peak, peak_rss, python, until
from bench.stand import Job, Stand
from bench.verify import bring_over

TIMES, TABLES = (1, 10, 100), (10, 200, 2_000)  # the last of each at full size only
ROWS, CLUSTER_ROWS, FULL_FROM = 500_000, 1_000_000, 0.1  # at 1x
CHANGES = 1_500_000  # at 1x: with updates enough for tasks to stage them, as they do in the larger steps
PER_SEGMENT = 200_000  # transactions, in 10 MB: more than are planned together (anabranch/apply/feed.py)
ROWS_PER_TABLE = 100
MOST, CORES = 1.15, 6
TWICE = 1.7  # of one executor's speed
# What a step may have more than the smallest by no growth: blocks of rows that happen to be in hand, and in Java what the
# collector has not looked at yet.
ALLOWED_MB = {"java": 128.0}
ALLOWED_PYTHON_MB = 16.0
PATIENCE = 7200.0
TWO_TASKS = '[spark]\nmaster = "local[2]"\n'
CLUSTER = '[spark]\nmaster = "local-cluster[{executors},1,1024]"\n'


@dataclass
class Steps:
    """Seconds and memory of steps, by size. `empty`: the seconds of a step that does nothing."""

    empty: float = 0.0
    seconds: dict[int, float] = field(default_factory=dict)
    peaks: dict[int, dict[str, float]] = field(default_factory=dict)

    def cost(self, size: int) -> float:
        """Of each row, table or segment."""
        return max(self.seconds[size] - self.empty, 0.0) / size

    def is_told(self) -> bool:
        """Is the smallest step well above an empty one? Else what it costs is noise, and no growth can be told from it."""
        return self.seconds[min(self.seconds)] > 1.5 * self.empty

    def figures(self, source: str, what: str, unit: str) -> Iterator[Figure]:
        least, most = min(self.seconds), max(self.seconds)
        facts: dict[str, object] = {"steps": "/".join(map(str, self.seconds)), "empty_s": self.empty}
        facts |= {f"ms_per_{unit}_at_{size}": 1000 * self.cost(size) for size in self.seconds}
        points = [(size / least, self.seconds[size]) for size in self.seconds]
        told = self.is_told()
        growth = self.cost(most) / self.cost(least) if told else 0.0
        facts |= {} if told else {"not_judged": "the smallest step is no longer than an empty one"}
        goal, curves = MOST if told else None, {f"growth {what}": points}
        yield Figure(f"W8 {what}", source, f"per_{unit}", growth, goal, is_most=True, facts=facts, curves=curves)
        for kind in sorted(self.peaks[least].keys() & self.peaks[most].keys()):
            small, large = self.peaks[least][kind], self.peaks[most][kind]
            allowed = ALLOWED_MB.get(kind, ALLOWED_PYTHON_MB)
            sizes = {"mb": small, "largest_mb": large, "allowed_mb": allowed}
            ratio = (large - allowed) / small
            yield Figure(f"W8 {what} {kind}", source, "memory", ratio, MOST, is_most=True, facts=sizes)


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    sizes, share = len(TIMES) - (scale < 1), min(1, scale / FULL_FROM)
    return [
        *_rows(stand, [int(ROWS * share) * times for times in TIMES[:sizes]], repeat),
        *_tables(stand, TABLES[:sizes], repeat),
        *_changes(stand, [int(CHANGES * share) * times for times in TIMES[:sizes]]),
        *_segments(stand, TIMES[:sizes], int(PER_SEGMENT * share)),
        *_executors(stand, int(CLUSTER_ROWS * share), repeat),
    ]


# --- load and verification --------------------------------------------------------------------------------------------


def _rows(stand: Stand, sizes: Sequence[int], repeat: int) -> Iterator[Figure]:
    load, verify = Steps(), Steps()
    with Program(python("bench.warm"), _environment(stand)) as worker:
        for number, size in enumerate((0, 0, *sizes)):  # the very first has Spark's start in it
            source, target = stand.databases("growth")
            stand.orders(source).create(size)
            job = stand.job(f"rows-{number}", source, target, more=TWO_TASKS)
            _both(worker, job, size, load, verify, repeat)
            _away(job)
    yield from load.figures(stand.of, "load rows", "row")
    yield from verify.figures(stand.of, "verify rows", "row")


def _tables(stand: Stand, sizes: Sequence[int], repeat: int) -> Iterator[Figure]:
    load, verify = Steps(), Steps()
    with Program(python("bench.warm"), _environment(stand)) as worker:
        for number, size in enumerate((0, 0, *sizes)):
            source, target = stand.databases("growth")
            _many(source, size)
            job = stand.job(f"tables-{number}", source, target, table="*", more=TWO_TASKS)
            _both(worker, job, size, load, verify, repeat)
            _away(job)
    yield from load.figures(stand.of, "load tables", "table")
    yield from verify.figures(stand.of, "verify tables", "table")


def _many(source: Database, tables: int) -> None:
    """So many of ROWS_PER_TABLE rows; of 0 there is one, which is empty."""
    values = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS_PER_TABLE))
    for number in range(max(1, tables)):
        statements = [f"CREATE TABLE t{number} (id int NOT NULL PRIMARY KEY, word varchar(40) NOT NULL)"]
        source.execute(*statements, *([f"INSERT INTO t{number} VALUES {values}"] if tables else []))


def _both(worker: Program, job: Job, size: int, load: Steps, verify: Steps, repeat: int) -> None:
    """Load once, verify several times, both in the worker; between them the stream is begun."""
    _step(worker, load, size, lambda: _ask(worker, "load", job))
    bring_over(job)
    _step(worker, verify, size, lambda: middle([_ask(worker, "verify", job) for _ in range(repeat)]))


def _step(worker: Program, steps: Steps, size: int, seconds: Callable[[], float]) -> None:
    forget_peak(worker.tree)
    found = seconds()
    if size:
        steps.seconds[size], steps.peaks[size] = found, _peaks(worker.tree)
    else:
        steps.empty = found


def _ask(worker: Program, verb: str, job: Job) -> float:
    found = json.loads(worker.ask(f"{verb} {job.file}"))
    assert found.get("identical", True), f"{job.name} differs: {found}"
    return float(found["seconds"])


def _peaks(pids: Sequence[int]) -> dict[str, float]:
    """MB of the largest process of each kind; none of a kind that has just ended."""
    kinds = {pid: kind_of(pid) for pid in pids}
    found = {kind: peak_rss([pid for pid in pids if kinds[pid] == kind]) for kind in set(kinds.values())}
    return {kind: most for kind, most in found.items() if most}


def _environment(stand: Stand) -> dict[str, str]:
    source, target = stand.databases("growth")
    return stand.job("growth", source, target).environment


def _away(job: Job) -> None:
    """Its tables are not needed any more."""
    drop_database(job.source)
    job.at.drop(job.target)


# --- catching up ------------------------------------------------------------------------------------------------------


def _changes(stand: Stand, sizes: Sequence[int]) -> Iterator[Figure]:
    """Backlogs that are in the source's log alone when they begin."""
    steps = Steps()
    with _streaming(stand, "changes", sizes[0], "") as (job, orders, looking, capture, apply):

        def seconds(backlog: Callable[[], int]) -> float:
            with stopped(capture):
                goal = job.written() + backlog()
            return catch_up(stand, job, looking, goal, capture, apply).seconds

        seconds(lambda: orders.backlog(1000))
        steps.empty = middle([seconds(lambda: orders.insert(1)) for _ in range(3)])
        for size in sizes:
            forget_peak([*capture.tree, *apply.tree])
            steps.seconds[size] = seconds(lambda: orders.backlog(size))  # noqa: B023  # called before the loop goes on
            steps.peaks[size] = _peaks([*capture.tree, *apply.tree])
    yield from steps.figures(stand.of, "catch-up changes", "change")


def _segments(stand: Stand, sizes: Sequence[int], transactions: int) -> Iterator[Figure]:
    """Backlogs that are in the trail, in so many segments, when apply goes on."""
    steps = Steps()
    with _streaming(stand, "segments", 1000, "[capture]\nsegment_mb = 10\n") as (
        job,
        orders,
        looking,
        capture,
        apply,
    ):

        def seconds(wanted: int) -> float:
            with stopped(apply):
                goal = job.written() + wanted
                job.source.execute(f"CALL one_by_one({orders.next}, {orders.next + wanted})")
                orders.next += wanted
                until(lambda: job.written() >= goal, PATIENCE, "capture", 0.02, capture.check)
            return catch_up(stand, job, looking, goal, capture, apply).seconds

        seconds(1000)
        steps.empty = middle([seconds(1) for _ in range(3)])
        for size in sizes:
            forget_peak([*capture.tree, *apply.tree])
            steps.seconds[size] = seconds(size * transactions)
            steps.peaks[size] = _peaks([*capture.tree, *apply.tree])
    yield from steps.figures(stand.of, "catch-up segments", "segment")


@contextmanager
def _streaming(
    stand: Stand, name: str, rows: int, more: str
) -> Iterator[tuple[Job, Orders, Looking, Program, Program]]:
    """A job whose capture and apply run, each in a process of its own."""
    source, target = stand.databases(name)
    orders = stand.orders(source)
    orders.create(rows)
    job = stand.job(name, source, target, more=more + TWO_TASKS)
    begin_trail(job)
    with job.start("load") as load:
        load.process.wait()
    assert load.process.returncode == 0, "\n".join(line for _, line in load.said)
    with (
        job.start("capture") as capture,
        job.start("apply") as apply,
        Looking(target) as looking,
    ):
        goal = job.written() + orders.insert(1)
        until(lambda: job.applied(looking) >= goal, PATIENCE, "the first change", 0.02, apply.check)
        yield job, orders, looking, capture, apply


# --- executors --------------------------------------------------------------------------------------------------------


def _executors(stand: Stand, rows: int, repeat: int) -> Iterator[Figure]:
    """On a standalone cluster of this machine, whose executors have one core each."""
    found = {executors: _on_cluster(stand, rows, executors, repeat) for executors in (1, 2)}
    cores = os.cpu_count() or 1
    for place, verb in enumerate(("load", "verify")):
        one, two = found[1][place], found[2][place]
        facts = {"rows": rows, "one_s": one, "two_s": two, "cores": cores}
        goal = TWICE if cores >= CORES else None
        yield Figure(f"W8 {verb} executors", stand.of, "speed", one / two, goal, facts=facts)


def _on_cluster(stand: Stand, rows: int, executors: int, repeat: int) -> tuple[float, float]:
    """Seconds of load and verification in a process that stays up."""
    more = CLUSTER.format(executors=executors)
    with Program(python("bench.warm"), _environment(stand)) as worker:
        load, verify = Steps(), Steps()
        for number, size in enumerate((0, 0, rows)):  # the very first has the cluster's start in it
            source, target = stand.databases("executors")
            stand.orders(source).create(size)
            job = stand.job(f"executors-{executors}-{number}", source, target, more=more)
            _both(worker, job, size, load, verify, repeat)
            _away(job)
    return load.seconds[rows] - load.empty, verify.seconds[rows] - verify.empty
