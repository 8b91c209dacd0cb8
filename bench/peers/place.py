"""What peers stand on: an account that older clients understand, a copy of the target, how they are seen to have arrived."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
import pymysql

from anabranch.demo.child import descendants
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from bench.at_target import Looking
from bench.orders import Orders
from bench.peers import Follower, Loader
from bench.processes import Cost, Program, ProgramFailed, cpu, forget_peak, peak_rss, until
from bench.stand import Stand

PATIENCE = 1800.0
POLL = 0.005
SAMPLE = 0.02
FEW = 1000
SETTLED = 60.0
SUMS = "SELECT count(*), sum(amount), sum(flag), max(id) FROM {}"


def account(server: Server) -> tuple[str, str]:
    """Name and password at a server. At MySQL with the authentication that needs neither TLS nor a public key."""
    name, password = server.user, server.password
    if server.name != "mysql":
        return name, password
    Database(server, "mysql").execute(
        f"CREATE USER IF NOT EXISTS 'peer'@'127.0.0.1' IDENTIFIED WITH mysql_native_password BY '{password}'",
        "GRANT ALL ON *.* TO 'peer'@'127.0.0.1'",
    )
    return "peer", password


def copy_of(stand: Stand, source: Database, target: Database, label: str) -> Database:
    """Another database at the target, with the same table `orders`, which is that of the source."""
    settle(stand, source, target, "ours")
    return stand.at.copy(target, label)


def ask(program: Program, line: str) -> str:
    """Its answer; ProgramFailed with what it has said where it has ended."""
    try:
        return program.ask(line)
    except BrokenPipeError:
        program.process.wait()
        program.check()
        raise


def timed(command: Sequence[object], environment: Mapping[str, str]) -> tuple[Cost, str]:
    """A program from its start to its end, with all that it waited for, and what it printed. Raises ProgramFailed, also
    where it does not end within half an hour."""
    with tempfile.TemporaryFile() as said:
        begin = time.monotonic()
        program = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
        peak = 0.0
        while (ended := os.wait4(program.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > begin + PATIENCE:
                program.kill()
            peak = max(peak, peak_rss([program.pid, *descendants(program.pid)]))
            time.sleep(SAMPLE)
        _, status, used = ended
        seconds = time.monotonic() - begin
        program.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace")
    if program.returncode:
        raise ProgramFailed(f"{Path(str(command[0])).name} ended with {program.returncode}\n{text}")
    return Cost(seconds, used.ru_utime + used.ru_stime, peak), text


def check_loaded(loader: Loader, source: Database, target: Database, said: str) -> None:
    """The rows are there; else why not, of what it has said."""
    expected = source.query(SUMS.format("orders"))
    try:
        found: object = target.query(SUMS.format(loader.table))
    except (psycopg.Error, pymysql.Error) as e:
        found = e
    if found != expected:
        raise ProgramFailed(f"{loader.name} has loaded {found}, not {expected}\n{said}")


class Following:
    """A follower of `orders` with a copy of the target, that waits while backlogs are made."""

    def __init__(self, follower: Follower, stand: Stand, orders: Orders, target: Database) -> None:
        self._follower, self._stand, self._orders = follower, stand, orders
        self._target = copy_of(stand, orders.database, target, follower.name)
        self._next = orders.next

    def start(self) -> None:
        """A few rows are through, and it waits."""
        self._follower.start(self._stand, self._orders.database, self._target, "orders")
        self._orders.insert(FEW)
        self._arrive()
        self._follower.pause()

    def warm_up(self) -> None:
        self.catch_up()

    def catch_up(self) -> Cost:
        """All that was done since the last time."""
        self._follower.resume()
        cost = self._arrive()
        self._follower.pause()
        return cost

    def stop(self) -> None:
        self._follower.stop()

    def _arrive(self) -> Cost:
        """From its first row at the target to its last. What it needs before the first is not counted."""
        first, last, self._next = self._next, self._orders.next - 1, self._orders.next
        check, name = self._follower.check, self._follower.name
        query = f"SELECT EXISTS (SELECT 1 FROM {self._stand.at.table('orders')} WHERE id >= %s)"
        with Looking(self._target) as looking:

            def is_there(number: int) -> bool:
                return bool(looking.one(query, number))

            begin = until(lambda: is_there(first), PATIENCE, f"the first change by {name}", POLL, check)
            tree = self._follower.processes()
            forget_peak(tree)
            before = cpu(tree)
            end = until(lambda: is_there(last), PATIENCE, f"the last change by {name}", POLL, check)
        cost = Cost(end - begin, cpu(tree) - before, peak_rss(tree))
        settle(self._stand, self._orders.database, self._target, name)
        return cost


def settle(stand: Stand, source: Database, target: Database, who: str) -> None:
    """The rows are the same: a program without the source's transactions may need a moment for what is not the last."""
    expected, query = source.query(SUMS.format("orders")), SUMS.format(stand.at.table("orders"))
    limit = time.monotonic() + SETTLED
    while (found := target.query(query)) != expected:
        assert time.monotonic() < limit, f"{who}: source {expected}, target {found}"
        time.sleep(0.2)
