"""`python -m bench altering`: what columns that are added cost a job that follows them, from a MySQL or MariaDB.

`stall`: one row per transaction at a steady rate, while its table gets a column every few seconds: the longest time that a row
around each statement takes to the target. `backlog`: rows in small transactions of many tables, with and without ALTERs
between them, applied from the source's log. `plan`: how long `anabranch ddl plan` takes, by the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing

from anabranch.testing.databases import Database, connect
from bench.at_target import Looking
from bench.capture import begin_trail
from bench.catchup import catch_up, stopped
from bench.figures import Figure, Side, middle, percentile
from bench.latency import NEWER, watch
from bench.meter import Meter
from bench.processes import Cost, Program, measured, python, until
from bench.stand import Job, Stand

SECONDS, RATE, EVERY = 200.0, 1000, 5.0
AROUND = 2.0  # seconds behind a statement whose rows are looked at
TABLES, ALTERS, TRANSACTIONS, ROWS = 50, 500, 20_000, 10
MOST_STALL_MS, MOST_RATIO, MOST_PLAN_S = 1000.0, 1.2, 1.0
PLANS = 7
CONTINUOUS = '[apply]\nrunner = "continuous"'


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    return [*_stall(stand, max(40.0, SECONDS * scale)), *_backlog(stand, scale, repeat)]


# --- stall ---------------------------------------------------------------------------------------------------------------


def _stall(stand: Stand, seconds: float) -> Iterator[Figure]:
    source, target = stand.databases("stall")
    source.execute(stand.ledger())
    job = stand.job("stall", source, target, table="ledger", more=CONTINUOUS)
    begin_trail(job)
    with job.start("load") as load:
        load.process.wait()
    with job.start("capture") as capture, job.start("apply") as apply, Looking(target) as looking:
        stand.at.look_by_key(looking)
        newer = NEWER.format(table=stand.at.table("ledger"))
        source.execute("INSERT INTO ledger (written) VALUES (0)")
        until(lambda: looking.ask(newer, 0), 180, "the first change", check=apply.check)
        meter = Meter([capture, apply], stand.servers)
        writer = Program(python("bench.ledger", stand.source.url(source.name), RATE, seconds), {})
        altering = _Altering(source, seconds)
        seen = watch(looking, newer, writer, apply)
        cost = meter.cost()
        altering.join()
        yield _plan(stand, job)
    late = [(written / 1e6, (when - written / 1e6) * 1000) for written, when in seen]
    stalls = sorted(
        max((ms for at, ms in late if begun - 0.1 <= at <= begun + AROUND), default=0.0) for begun in altering.begun
    )
    side = Side("anabranch", "anabranch capture and apply, continuous", len(seen), [cost])
    facts = {"alters": len(stalls), "max_ms": stalls[-1], "transactions_per_s": len(seen) / seconds}
    yield Figure("altering stall", stand.pair, "p50_ms", percentile(stalls, 0.5), facts=facts, sides=[side])
    yield Figure("altering stall", stand.pair, "p99_ms", percentile(stalls, 0.99), MOST_STALL_MS, is_most=True)


class _Altering(threading.Thread):
    """Adds a column every few seconds; `begun` says when."""

    def __init__(self, source: Database, seconds: float) -> None:
        super().__init__(daemon=True)
        self.begun: list[float] = []
        self._source, self._number = source, int(seconds / EVERY) - 2  # the first one when all is warm
        self.start()

    def run(self) -> None:
        with closing(connect(self._source.server, self._source.name)) as connection, connection.cursor() as cursor:
            for number in range(self._number):
                time.sleep(EVERY)
                self.begun.append(time.time())
                cursor.execute(f"ALTER TABLE ledger ADD COLUMN c{number} INT NOT NULL DEFAULT {number}")


def _plan(stand: Stand, job: Job) -> Figure:
    command = python("anabranch", "ddl", "plan", job.file, "ALTER TABLE ledger ADD COLUMN planned INT")
    costs = [measured(command, job.environment) for _ in range(PLANS)]
    side = Side("anabranch", "anabranch ddl plan", 1, costs)
    return Figure(
        "altering plan", stand.pair, "seconds", middle([cost.seconds for cost in costs]), MOST_PLAN_S, True, {}, [side]
    )


# --- backlog -------------------------------------------------------------------------------------------------------------


def _backlog(stand: Stand, scale: float, repeat: int) -> Iterator[Figure]:
    """In turns: a job and tables of its own each time, since columns stay."""
    sides: dict[int, list[Cost]] = {0: [], int(ALTERS * max(scale, 0.1)): []}
    transactions = int(TRANSACTIONS * scale)
    for turn in range(repeat):
        for alters, costs in sides.items():
            costs.append(_caught_up(stand, f"backlog_{turn}_{alters}", alters, transactions))
    (_, plain), (alters, altered) = sides.items()
    rows = transactions * ROWS
    ours, without = (
        Side("anabranch", f"the same with {alters} ALTERs", rows, altered),
        Side("plain", "anabranch capture and apply", rows, plain),
    )
    ratio = middle([cost.seconds for cost in altered]) / middle([cost.seconds for cost in plain])
    facts = {"alters": alters, "rows": rows, "tables": TABLES}
    yield Figure("altering backlog", stand.pair, "ratio", ratio, MOST_RATIO, True, facts, [ours, without])


def _caught_up(stand: Stand, name: str, alters: int, transactions: int) -> Cost:
    source, target = stand.databases(name)
    source.execute(*(f"CREATE TABLE t{n} (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(80))" for n in range(TABLES)))
    job = stand.job(name, source, target, table="t*", more=CONTINUOUS)
    with job.start("capture") as capture, Looking(target) as looking:
        until(lambda: job.written() >= 0, 60, "the trail's begin", check=capture.check)
        with job.start("load") as load:
            load.process.wait()
        with job.start("apply") as apply:
            until(lambda: stand.at.streaming(looking, name) == TABLES, 180, "all tables stream", check=apply.check)
            _write(source, range(TABLES))
            first = f"SELECT count(*) FROM {stand.at.table('t0')}"
            until(lambda: looking.one(first) == ROWS, 180, "the first change", check=apply.check)
            with stopped(capture):
                goal = job.written() + _write(source, range(transactions), alters)
            cost = catch_up(stand, job, looking, goal, capture, apply)
        found, came = (
            [end.query(f"SELECT count(*) FROM {table}")[0][0] for table in tables]
            for end, tables in (
                (source, [f"t{n}" for n in range(TABLES)]),
                (target, [stand.at.table(f"t{n}") for n in range(TABLES)]),
            )
        )
        assert found == came, f"source {found}, target {came}"
    return cost


def _write(source: Database, numbers: Sequence[int], alters: int = 0) -> int:
    """Insert rows, a transaction for each number, with so many ALTERs between them; return how many the log then has."""
    every, done = (len(numbers) // alters if alters else 0), 0
    with closing(connect(source.server, source.name)) as connection, connection.cursor() as cursor:
        for number in numbers:
            rows = ", ".join(f"('row {number} of its table')" for _ in range(ROWS))
            cursor.execute(f"INSERT INTO t{number % TABLES} (v) VALUES {rows}")
            if every and number % every == every - 1 and done < alters:
                table, column = done % TABLES, done // TABLES
                cursor.execute(f"ALTER TABLE t{table} ADD COLUMN c{column} INT NOT NULL DEFAULT {column}")
                done += 1
    return len(numbers) + done
