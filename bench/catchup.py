"""W3, catch-up: a backlog at the source, applied and visible at the target, against a replica of the source's own kind.

Capture and apply run, with Spark warm, while the backlog is made; capture's process is stopped (SIGSTOP) meanwhile, so
that both sides begin at the same moment with everything still in the source's log. The replica stands on a copy of the
source's data, with its vendor's defaults, and applies the very same transactions."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from anabranch.testing.databases import connect
from bench.figures import Figure, Side, compared
from bench.meter import Meter
from bench.orders import Orders
from bench.peers.chosen import FOLLOWERS, catch_up_goals, chosen
from bench.peers.ring import Followers
from bench.postgresql import PostgresStand
from bench.processes import Cost, Program, until
from bench.stand import Job, Stand

BASE, CHANGES = 3_000_000, 1_000_000
GOAL = 1.0
SMALL_GOALS = {"postgresql": 1.5}  # on the small transactions alone
Runs = tuple[list[Cost], list[Cost]]  # ours, the replica's
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
REPLICA_OPTIONS = ("--server-id=2", "--skip-log-bin", "--relay-log=relay", "--skip-slave-start")


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    source, target = stand.databases("catchup")
    whole: Runs = ([], [])
    small: Runs = ([], [])
    orders, changes = stand.orders(source), int(CHANGES * scale)
    orders.create(int(BASE * scale))
    replica = stand.replica(source) if isinstance(stand, PostgresStand) else Replica(stand)
    job = stand.job("catchup", source, target)
    peers = Followers("W3 catch-up", stand, stand.pair, chosen(FOLLOWERS))
    with peers, job.start("capture") as capture, closing(connect(target.server, target.name)) as connection:
        until(lambda: job.written() >= 0, 60, "the trail's begin", check=capture.check)
        with job.start("load") as load:
            load.process.wait()
        assert load.process.returncode == 0, "\n".join(line for _, line in load.said)
        with job.start("apply") as apply:
            wait_for_stream(connection, orders, apply)
            peers.start(orders, target, changes)
            replica.catch_up()
            for _ in range(repeat):
                with stopped(capture):
                    goal = job.written() + orders.backlog(changes)
                whole[0].append(catch_up(stand, job, connection, goal, capture, apply))
                whole[1].append(Cost(replica.catch_up(), 0.0, 0.0))
                peers.catch_up()
            for _ in range(repeat):
                with stopped(capture):
                    goal = job.written() + orders.small(changes // 2)
                small[0].append(catch_up(stand, job, connection, goal, capture, apply))
                small[1].append(Cost(replica.catch_up(), 0.0, 0.0))
    _check(source.query("SELECT count(*), sum(amount) FROM orders"), connection_rows(target))
    figures = [
        _figure(stand, "W3 catch-up", GOAL, changes, whole, orders.base),
        _figure(stand, "W3 catch-up/small", SMALL_GOALS.get(stand.name), changes // 2, small, orders.base),
    ]
    return [*figures, *peers.figures(figures[0].sides[0], catch_up_goals(stand))]


def _figure(stand: Stand, workload: str, goal: float | None, changes: int, runs: Runs, base: int) -> Figure:
    mine = Side("anabranch", "anabranch capture and apply", changes, runs[0])
    ceiling = Side("replica", REPLICAS[stand.name], changes, runs[1])
    return compared(workload, stand.pair, mine, ceiling, goal, facts={"changes": changes, "base_rows": base})


class stopped:
    """A process that does nothing meanwhile."""

    def __init__(self, program: Program) -> None:
        self._pid = program.process.pid

    def __enter__(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGCONT)


def wait_for_stream(connection: Any, orders: Orders, apply: Program) -> None:
    """A change is through: everything is warm."""
    orders.insert(1000)
    query = "SELECT count(*) FROM public.orders"
    until(lambda: connection.execute(query).fetchone()[0] >= orders.next, 180, "the first change", check=apply.check)


def catch_up(stand: Stand, job: Job, connection: Any, goal: int, capture: Program, apply: Program) -> Cost:
    """Until sequence `goal` is at the target."""
    meter = Meter([capture, apply], stand.servers)

    def check() -> None:
        capture.check()
        apply.check()

    end = until(lambda: job.applied(connection) >= goal, PATIENCE, "the backlog's end at the target", POLL, check)
    return meter.cost(end)


class Replica:
    """Of the source's own kind, on a copy of its data as it is now."""

    def __init__(self, stand: Stand) -> None:
        place = stand.directory / f"{stand.name}-replica"
        shutil.rmtree(place, ignore_errors=True)
        position = stand.log_end()
        assert stand.source.datadir is not None
        stand.source.stop()
        subprocess.run(["cp", "-a", str(stand.source.datadir.parent), str(place)], check=True)
        stand.source.start()
        for file in [place / "data" / "auto.cnf", *Path(place / "data").glob("binlog.*")]:
            file.unlink(missing_ok=True)
        self._stand, self._server = stand, stand.second(place, *REPLICA_OPTIONS)
        with closing(connect(self._server)) as connection, closing(connection.cursor()) as cursor:
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


def connection_rows(target: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = target.query("SELECT count(*), sum(amount) FROM public.orders")
    return found


def _check(source: list[tuple[Any, ...]], target: list[tuple[Any, ...]]) -> None:
    assert source == target, f"source {source}, target {target}"
