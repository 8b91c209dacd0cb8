"""The writers of a history of two active sites: one of them, with its sessions, from its first transaction to its last, through
restarts of its server.

What does not live here: what it is to do (two_sites_drawn.py), what comes of it (two_sites_judged.py).
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from anabranch.testing.databases import Database
from anabranch.testing.in_time import PATIENCE, NotInTime, in_time
from rigs.two_sites_drawn import KEYS, History
from rigs.two_sites_judged import Op, Written

LEDGER = "site_ledger"
WAITS = 0.25  # of a writer's transactions are behind all that the other site has
OF_A_SITE = 500  # numbers of transactions, in a history
OF_A_WRITER = 100
AGAIN = (
    "40001",
    "40P01",
    "23505",
    1205,
    1213,
    1062,
    1020,
)  # a deadlock, a row that came meanwhile: the writer begins anew
AWAY = (1053, 1077, 1079, 1927, 2003, 2006, 2013, 2055)  # the server goes, is gone, or is not there yet
GONE = ("57P", "08")  # the same of a PostgreSQL, as classes


@dataclass
class Writer:
    """One writer. `site`: 0 or 1; `number`: among those of its site. `begin`: when both jobs follow."""

    database: Database
    site: int
    number: int
    history: History
    written: Written
    begin: threading.Event

    def run(self) -> None:
        """Carry out the transactions, each until it is committed. Whether one was when its line broke the ledger says."""
        seed, script = self.history.seed, self.history.scripts[self.site][self.number]
        chance = random.Random(f"pauses {seed} {self.site} {self.number}")
        waits = random.Random(f"waits {seed} {self.site} {self.number}")
        if not self.begin.wait(PATIENCE):
            raise NotInTime(f"history {seed}: the jobs do not begin")
        self._connect()
        try:
            for count, rows in enumerate(script):
                if waits.random() < WAITS:
                    self._wait()
                until = time.monotonic() + 2 * PATIENCE
                while not self._is_done(count, rows):
                    in_time(until, f"history {seed}: {self._text(count)} is never committed")
                time.sleep(chance.choice((0.0, 0.0, 0.02, 0.1)))
        finally:
            self._close()

    def _wait(self) -> None:
        """Wait until all has come that the other site has by now: else, where jobs are slow, every write would cross."""
        until = time.monotonic() + 2 * PATIENCE
        wanted = {one for one in self.written.known() if one % KEYS // OF_A_SITE != self.site}
        while not wanted <= self._come():
            in_time(until, f"history {self.history.seed}: what the other site has written does not come")
            time.sleep(0.02)

    def _come(self) -> frozenset[int]:
        try:
            return self._theirs()
        except Exception as error:  # of three drivers; a lost line is gone on from, all else passes
            if not is_gone(error):
                raise
            self._connect()
            return frozenset()

    def _is_done(self, count: int, rows: tuple[tuple[int, int], ...]) -> bool:
        made: dict[int, Op] = {}
        transaction = self._transaction(count)
        try:
            self._write(count, rows, made)
        except Exception as error:  # of three drivers; a lost lock and a lost line are gone on from, all else passes
            if not is_lost(error) and not is_gone(error):
                raise
            self._connect()
            if transaction not in self._ledger():
                return False
        self.written.add(transaction, made)
        return True

    def _write(self, count: int, rows: tuple[tuple[int, int], ...], made: dict[int, Op]) -> None:
        """Write the rows, and put by key what was done into `made` before it is committed."""
        first, transaction = self.history.seed * KEYS, self._transaction(count)
        with closing(self._connection.cursor()) as cursor:
            begun = {
                first + place: done
                for place, newer in rows
                if (done := self._one(cursor, first + place, newer, self._text(count), transaction))
            }
            cursor.execute(f"INSERT INTO {LEDGER} VALUES (%s, '2026-01-01')", [transaction])
            order, come = self.written.next_order(), self._theirs()
            made |= {key: Op(**done, order=order, may_have_seen=come) for key, done in begun.items()}
            self._connection.commit()

    def _one(self, cursor: Any, key: int, newer: int, text: str, transaction: int) -> dict[str, Any]:
        """Make a row newer than the site has it, or delete it, under its lock. Returns what an Op says of it; {}: nothing."""
        table = self.history.table
        cursor.execute(f"SELECT changed, stock FROM {table} WHERE id = %s FOR UPDATE", [key])
        found = cursor.fetchall()
        done: dict[str, Any] = {"site": self.site, "transaction": transaction, "seen": self._theirs()}
        if not newer and not found:
            return {}
        if not newer:
            version = found[0][0].microsecond
            self.written.deletes(key, version)
            cursor.execute(f"DELETE FROM {table} WHERE id = %s", [key])
            return {**done, "version": version}
        now, stock = (found[0][0].microsecond, found[0][1] + newer) if found else (0, newer)
        version = max(now, self.written.base(key)) + newer
        values = [text, f"2026-01-01 00:00:00.{version:06}", stock, key]
        if found:
            cursor.execute(f"UPDATE {table} SET v = %s, changed = %s, stock = %s WHERE id = %s", values)
        else:
            cursor.execute(f"INSERT INTO {table} (v, changed, stock, id) VALUES (%s, %s, %s, %s)", values)
        return {**done, "version": version, "text": text, "stock": stock, "added": newer, "is_insert": not found}

    # --- sessions -----------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Open both sessions, as soon as the server is there: one for transactions, and one that sees at any time what has been
        committed."""
        self._close()
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection = self.database.connect(autocommit=False)
                self._looking = self.database.connect()
                return
            except Exception as error:  # of three drivers
                if not is_gone(error):
                    raise
                self._close()
                in_time(until, f"{self.database.server.name} does not come back")
                time.sleep(0.05)

    def _close(self) -> None:
        for name in ("_connection", "_looking"):
            if name in self.__dict__:
                with suppress(Exception):  # of three drivers: its line may be broken
                    self.__dict__.pop(name).close()

    # --- the ledger ---------------------------------------------------------------------------------------------------------

    def _transaction(self, count: int) -> int:
        return self.history.seed * KEYS + self.site * OF_A_SITE + self.number * OF_A_WRITER + count

    def _text(self, count: int) -> str:
        return f"{self.history.seed}: {('one', 'other')[self.site]} {self.number}.{count}"

    def _ledger(self) -> set[int]:
        first = self.history.seed * KEYS
        with closing(self._looking.cursor()) as cursor:
            cursor.execute(f"SELECT id FROM {LEDGER} WHERE id >= %s AND id < %s", [first, first + KEYS])
            return {number for (number,) in cursor.fetchall()}

    def _theirs(self) -> frozenset[int]:
        """Return the transactions of the other site's writers that have come."""
        return frozenset(one for one in self._ledger() if one % KEYS // OF_A_SITE != self.site)


def is_lost(error: Exception) -> bool:
    """Return whether the server has ended a transaction of two that were in each other's way: it is begun anew."""
    return getattr(error, "sqlstate", None) in AGAIN or bool(error.args and error.args[0] in AGAIN)


def is_gone(error: Exception) -> bool:
    """Return whether a line to a server is broken, or cannot be had at the moment."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.OperationalError):
        return state is None or state.startswith(GONE)
    return isinstance(error, OSError) or bool(error.args and error.args[0] in (0, *AWAY))
