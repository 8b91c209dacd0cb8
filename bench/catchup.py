"""W3, catch-up: a backlog at the source, applied and visible at the target, against replicas of the source's own kind.

Capture and apply run, with Spark warm, while the backlog is made; capture's process is stopped (SIGSTOP) meanwhile, so
that both sides begin at the same moment with everything still in the source's log. A replica stands on a copy of the
source's data and applies the very same transactions: beside a PostgreSQL as the target with its vendor's defaults, beside a
MySQL or MariaDB one with one thread and one with four workers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.testing.databases import Database, connect
from bench.at_target import Looking
from bench.figures import Figure, Side, compared
from bench.meter import Meter
from bench.orders import Orders
from bench.peers.chosen import FOLLOWERS, catch_up_goals, chosen
from bench.peers.ring import Followers
from bench.postgresql import PostgresStand, Subscriber
from bench.processes import Cost, Program, until
from bench.stand import Job, Stand

BASE, CHANGES = 3_000_000, 1_000_000
GOAL = 1.0
SMALL_GOALS = {"postgresql": 1.5}  # on the small transactions alone
WORKERS, WORKERS_GOAL = 4, 0.7
REPLICAS = {
    "mariadb": "MariaDB's own replica, one thread",
    "mysql": "MySQL's own replica, four workers",
    "postgresql": "native logical replication",
}
PATIENCE = 1800.0
POLL = 0.02
FOLLOW = """
CHANGE MASTER TO MASTER_HOST = '{0.host}', MASTER_PORT = {0.port}, MASTER_USER = '{0.user}',
  MASTER_PASSWORD = '{0.password}', MASTER_LOG_FILE = '{1}', MASTER_LOG_POS = {2}{3}
"""
PUBLIC_KEY = {"mariadb": "", "mysql": ", GET_MASTER_PUBLIC_KEY = 1"}
# The replica writes no log of its own: a target does not either.
REPLICA_OPTIONS = ("--server-id={}", "--skip-log-bin", "--relay-log=relay", "--skip-slave-start")
# With no workers its one thread applies what it reads.
SET_WORKERS = {"mariadb": "SET GLOBAL slave_parallel_threads = {}", "mysql": "SET GLOBAL replica_parallel_workers = {}"}


@dataclass
class Beside:
    """A replica and what it took, of whole backlogs and of their small transactions; ours has to be so many times as fast."""

    replica: Replica | Subscriber
    what: str
    suffix: str = ""  # of the figures' names
    goal: float | None = None
    small_goal: float | None = None
    whole: list[Cost] = field(default_factory=list)
    small: list[Cost] = field(default_factory=list)


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    source, target = stand.databases("catchup")
    whole: list[Cost] = []
    small: list[Cost] = []
    orders, changes = stand.orders(source), int(CHANGES * scale)
    orders.create(int(BASE * scale))
    besides = _replicas(stand, source)
    job = stand.job("catchup", source, target)
    peers = Followers("W3 catch-up", stand, stand.pair, chosen(FOLLOWERS))
    with peers, job.start("capture") as capture, Looking(target) as looking:
        until(lambda: job.written() >= 0, 60, "the trail's begin", check=capture.check)
        with job.start("load") as load:
            load.process.wait()
        assert load.process.returncode == 0, "\n".join(line for _, line in load.said)
        with job.start("apply") as apply:
            wait_for_stream(job, looking, orders, apply)
            peers.start(orders, target, changes)
            for one in besides:
                one.replica.catch_up()
            for _ in range(repeat):
                with stopped(capture):
                    goal = job.written() + orders.backlog(changes)
                whole.append(catch_up(stand, job, looking, goal, capture, apply))
                for one in besides:
                    one.whole.append(Cost(one.replica.catch_up(), 0.0, 0.0))
                peers.catch_up()
            for _ in range(repeat):
                with stopped(capture):
                    goal = job.written() + orders.small(changes // 2)
                small.append(catch_up(stand, job, looking, goal, capture, apply))
                for one in besides:
                    one.small.append(Cost(one.replica.catch_up(), 0.0, 0.0))
    _check(source.query("SELECT count(*), sum(amount) FROM orders"), target_rows(job))
    facts: dict[str, object] = {"changes": changes, "base_rows": orders.base}
    ours = Side("anabranch", "anabranch capture and apply", changes, whole)
    ours_small = Side("anabranch", "anabranch capture and apply", changes // 2, small)
    figures = [
        *_figures(stand, "W3 catch-up", ours, [(one, one.goal, one.whole) for one in besides], facts),
        *_figures(
            stand,
            "W3 catch-up/small",
            ours_small,
            [(one, one.small_goal, one.small) for one in besides],
            facts | {"changes": changes // 2},
        ),
    ]
    return [*figures, *peers.figures(ours, catch_up_goals(stand))]


def _replicas(stand: Stand, source: Database) -> list[Beside]:
    """None where a PostgreSQL's rows go to another kind of server: its own replication does not write there."""
    if isinstance(stand, PostgresStand):
        small = SMALL_GOALS["postgresql"]
        return [Beside(stand.replica(source), REPLICAS[stand.name], "", GOAL, small)] if stand.is_alike else []
    if stand.at.kind == "postgresql":
        return [Beside(Replica(stand), REPLICAS[stand.name], "", GOAL)]
    one, several = (GOAL, WORKERS_GOAL) if stand.is_alike else (None, None)
    named = f"{stand.name}'s own replica"
    return [
        Beside(Replica(stand, 0), f"{named}, one thread", "", one),
        Beside(Replica(stand, WORKERS), f"{named}, {WORKERS} workers", f"/{WORKERS}-workers", several),
    ]


def _figures(
    stand: Stand,
    workload: str,
    ours: Side,
    besides: Sequence[tuple[Beside, float | None, list[Cost]]],
    facts: Mapping[str, object],
) -> Iterator[Figure]:
    """Compare ours with each replica; where there is none, return how fast ours is."""
    if not besides:
        yield Figure(workload, stand.pair, "changes_per_s", ours.rate, facts=facts, sides=[ours])
    for one, goal, costs in besides:
        ceiling = Side(f"replica{one.suffix}", one.what, ours.work, costs)
        yield compared(workload + one.suffix, stand.pair, ours, ceiling, goal, facts=facts)


class stopped:
    """A process that does nothing meanwhile."""

    def __init__(self, program: Program) -> None:
        self._pid = program.process.pid

    def __enter__(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGCONT)


def wait_for_stream(job: Job, looking: Looking, orders: Orders, apply: Program) -> None:
    """A change is through: everything is warm."""
    orders.insert(1000)
    query = f"SELECT count(*) FROM {job.at.table('orders')}"
    until(lambda: looking.one(query) >= orders.next, 180, "the first change", check=apply.check)


def catch_up(stand: Stand, job: Job, looking: Looking, goal: int, capture: Program, apply: Program) -> Cost:
    """Until sequence `goal` is at the target."""
    meter = Meter([capture, apply], stand.servers)

    def check() -> None:
        capture.check()
        apply.check()

    end = until(lambda: job.applied(looking) >= goal, PATIENCE, "the backlog's end at the target", POLL, check)
    return meter.cost(end)


class Replica:
    """Start a replica of the source's own kind on a copy of its data; with its vendor's defaults, or so many workers."""

    def __init__(self, stand: Stand, workers: int | None = None) -> None:
        number = 2 + (workers or 0)
        place = stand.directory / f"{stand.name}-replica-{number}"
        shutil.rmtree(place, ignore_errors=True)
        position = stand.log_end()
        assert stand.source.datadir is not None
        stand.source.stop()
        subprocess.run(["cp", "-a", str(stand.source.datadir.parent), str(place)], check=True)
        stand.source.start()
        for file in [place / "data" / "auto.cnf", *Path(place / "data").glob("binlog.*")]:
            file.unlink(missing_ok=True)
        self._stand, self._server = stand, stand.second(place, *(one.format(number) for one in REPLICA_OPTIONS))
        with closing(connect(self._server)) as connection, closing(connection.cursor()) as cursor:
            if workers is not None:
                cursor.execute(SET_WORKERS[stand.name].format(workers))
            cursor.execute(FOLLOW.format(stand.source, *position, PUBLIC_KEY[stand.name]))

    def catch_up(self) -> float:
        file, offset = self._stand.log_end()
        with closing(connect(self._server)) as connection, closing(connection.cursor()) as cursor:
            begin = time.monotonic()
            cursor.execute("START SLAVE")
            cursor.execute("SELECT MASTER_POS_WAIT(%s, %s, %s)", (file, offset, PATIENCE))
            [(done,)] = cursor.fetchall()
            seconds = time.monotonic() - begin
            assert done is not None and done >= 0, "the replica does not follow"
            cursor.execute("STOP SLAVE")
        return seconds


def target_rows(job: Job) -> list[tuple[Any, ...]]:
    return job.target.query(f"SELECT count(*), sum(amount) FROM {job.at.table('orders')}")


def _check(source: list[tuple[Any, ...]], target: list[tuple[Any, ...]]) -> None:
    assert source == target, f"source {source}, target {target}"
