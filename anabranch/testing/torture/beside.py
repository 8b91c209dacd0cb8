"""Two-phase commits beside a history, in a table of their own: prepared by one session, decided by another, some of them
rolled back, some left open while others go on. Whoever reads the
target sees each whole or not at all, and both ends must have the same rows in the end.

A history's own transactions are not of this kind: their order is read from the log, which has the rows of a prepared one
where it was prepared, and applies them where it was committed.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server
from anabranch.testing.torture.targets import tables_at

TABLE = "beside"
TRANSACTIONS = 6
PAUSES = (0.01, 0.05, 0.2, 1.0)
CREATE = f"CREATE TABLE {TABLE} (n INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB"


@dataclass
class Beside:
    """`database` is the source's database and the target's schema."""

    source: Server
    target: Database
    database: str
    seed: int
    _thread: threading.Thread | None = field(default=None, init=False)
    _open: list[str] = field(default_factory=list, init=False)  # prepared, not decided
    _begun: list[str] = field(default_factory=list, init=False)  # those, and one that may be prepared
    _rows: dict[int, frozenset[bytes]] = field(default_factory=dict, init=False)  # by number of the transaction
    _failure: Exception | None = field(default=None, init=False)

    def create(self) -> None:
        """Create the table, before the job begins."""
        Database(self.source, self.database).execute(CREATE)

    def start(self) -> None:
        """Once every table streams."""
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Every transaction is decided. Raises what went wrong at the source."""
        if self._thread is not None:
            self._thread.join(30)
            if self._thread.is_alive():
                raise RuntimeError(f"two-phase commits at the source were not over within 30 s: open are {self._open}")
        if self._failure is not None:
            raise self._failure

    def difference(self, target: Database | None = None) -> str:
        """Return how the source and `target` (None: the first one) differ; "" where they do not."""
        rows = Database(self.source, self.database).query(f"SELECT n, v FROM {TABLE}")
        there = {f"{n}\t{v}".encode() for n, v in rows}
        with closing(tables_at(target or self.target, self.database).snapshots({}, (TABLE,))) as snapshots:
            here = set(snapshots.read().beside[TABLE].splitlines())
        return "" if there == here else f"{TABLE}: {sorted(there - here)} missing, {sorted(here - there)} too much"

    def wrong(self, seen: Iterable[bytes], losses: int) -> str:
        """Return what is wrong with what readers of the target saw of the table, in order; "" for nothing.

        Each transaction has to be there whole or not at all, and to stay; each of `losses` may take some back once."""
        before: frozenset[bytes] = frozenset()
        for number, lines in enumerate(seen, 1):
            rows = lines.splitlines()
            now = frozenset(rows)
            whole = frozenset[bytes]().union(*(some for some in self._rows.values() if some <= now))
            if len(rows) > len(now) or now != whole:
                return f"{TABLE}, state {number}: {sorted(now - whole) or sorted(rows)} are no whole transactions"
            if not before <= now:
                if not losses:
                    return f"{TABLE}, state {number}: {sorted(before - now)} were there before"
                losses -= 1
            before = now
        return ""

    def stop(self) -> None:
        """Leave nothing prepared, which would hold up the DROP."""
        if self._thread is not None:
            self._thread.join(30)
        if self._begun:
            with contextlib.suppress(Exception):  # a source that is away
                roll_back(self.source, list(self._begun))

    def _run(self) -> None:
        drawn = random.Random(f"beside {self.seed}")
        try:
            for number in range(TRANSACTIONS):
                self._prepare(number, drawn)
                if drawn.random() < 0.6:
                    self._decide(drawn)
                time.sleep(drawn.uniform(0, 0.05))
            while self._open:
                self._decide(drawn)
        except Exception as failure:  # noqa: BLE001 - carried over to whoever waits
            self._failure = failure

    def _prepare(self, number: int, drawn: random.Random) -> None:
        xid = f"{self.database}_{number}"
        with closing(connect(self.source, self.database)) as connection:
            self._begun.append(xid)  # before: whatever the line is lost at, the source may keep it
            self._say(connection, f"XA START '{xid}'")
            rows = range(drawn.randint(1, 3))
            self._rows[number] = frozenset(f"{number * 10 + row}\tx{row}".encode() for row in rows)
            for row in rows:
                self._say(connection, f"INSERT INTO {TABLE} VALUES ({number * 10 + row}, 'x{row}')")
            self._say(connection, f"XA END '{xid}'", f"XA PREPARE '{xid}'")
            self._open.append(xid)

    def _decide(self, drawn: random.Random) -> None:
        """Another session than the one that prepared it; the server needs a moment to let go of that one."""
        xid = drawn.choice(self._open)
        how = "ROLLBACK" if drawn.random() < 0.25 else "COMMIT"
        with closing(connect(self.source)) as connection:
            for pause in PAUSES:
                with contextlib.suppress(Exception):  # not let go yet; what stays wrong comes up below
                    self._say(connection, f"XA {how} '{xid}'")
                    break
                time.sleep(pause)
            else:
                self._say(connection, f"XA {how} '{xid}'")
        self._open.remove(xid)
        self._begun.remove(xid)

    def _say(self, connection: Any, *statements: str) -> None:
        with closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)


def prepared(source: Server, database: str) -> list[str]:
    """Return the history's transactions that the source keeps prepared."""
    with closing(connect(source)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("XA RECOVER")
        xids = [row[3] for row in cursor.fetchall()]
    said = [xid.decode(errors="replace") if isinstance(xid, bytes) else xid for xid in xids]
    return [xid for xid in said if re.fullmatch(rf"{database}_\d+", xid)]


def roll_back(source: Server, xids: Sequence[str]) -> None:
    """Each that is there; the server needs a moment to let go of a session that prepared one and is gone."""
    with closing(connect(source)) as connection, closing(connection.cursor()) as cursor:
        for xid in xids:
            for pause in PAUSES:
                with contextlib.suppress(Exception):  # not there, or not let go yet
                    cursor.execute(f"XA ROLLBACK '{xid}'")
                    break
                time.sleep(pause)
