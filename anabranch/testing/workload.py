"""A seeded writer for torture tests: transactions that hurt a replication, the same ones for the same seed.

Inserts, updates, deletes, changed keys, key shifts and swaps, swapped unique values, cascades over two levels, keyless
duplicates, statements that fail, savepoints, rollbacks, several tables at once. What does not live here: a shop that
looks like somebody's (demo/), checking the result (tests/scenarios).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from anabranch.testing.databases import Database

TABLES = ("account", "entry", "remark", "cell", "visit", "tick")
SCHEMA = (
    "CREATE TABLE account (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, slot INT NULL UNIQUE,"
    " balance DECIMAL(12,2) NOT NULL, note TEXT NULL, changed_at TIMESTAMP(6) NULL)",
    "CREATE TABLE entry (id INT AUTO_INCREMENT PRIMARY KEY, account_id BIGINT NOT NULL, amount DECIMAL(12,2) NOT NULL,"
    " booked DATETIME(6) NOT NULL, KEY (booked), CONSTRAINT entry_account FOREIGN KEY (account_id)"
    " REFERENCES account (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE remark (id INT PRIMARY KEY, entry_id INT NULL, words VARCHAR(200) NOT NULL,"
    " CONSTRAINT remark_entry FOREIGN KEY (entry_id) REFERENCES entry (id) ON DELETE SET NULL)",
    "CREATE TABLE cell (x INT, y VARCHAR(10), value DOUBLE NULL, data VARBINARY(20) NULL, PRIMARY KEY (x, y))",
    "CREATE TABLE visit (place VARCHAR(20) NOT NULL, number INT NULL, at_day DATE NULL)",
    "CREATE TABLE tick (worker INT, number INT, at DATETIME(6) NOT NULL, PRIMARY KEY (worker, number))",
)
ACCOUNTS, ENTRIES, REMARKS, LINES, PLACES, DAYS = 200, 600, 300, 20, 8, 5
FAR = 10_000_000  # how far a moved key moves
# Duplicate key, missing parent, row is referenced, data too long: the statement fails, the transaction goes on
# https://mariadb.com/kb/en/mariadb-error-code-reference/
REFUSED = frozenset({1062, 1452, 1451, 1406, 1761, 1762})
# Deadlock, lock wait timeout, changed since it was read: the transaction is gone
COLLISIONS = frozenset({1213, 1205, 1020})
LOST = frozenset({0, 1053, 1927, 2003, 2006, 2013, 2055})  # the server went away


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements in order; rolled back at the end unless `commits`."""

    statements: tuple[str, ...]
    commits: bool = True


def fill(scale: int = 1) -> Iterator[str]:
    """Statements that put the first rows in; `scale` multiplies accounts and what hangs on them."""
    accounts = ACCOUNTS * scale
    yield from _inserts("account", (f"({i},'name {i}',{i},{i}.25,NULL,NULL)" for i in range(1, accounts + 1)))
    entries = ENTRIES * scale
    rows = (f"({i},{i % accounts + 1},{i}.5,'2024-01-01 00:00:00.{i % 1000000:06}')" for i in range(1, entries + 1))
    yield from _inserts("entry", rows)
    yield from _inserts("remark", (f"({i},{i},'remark {i} ☂')" for i in range(1, REMARKS * scale + 1)))
    yield from _inserts("cell", (f"({x},'y{y}',{x}/{y + 1},X'{x:04x}00')" for x in range(LINES) for y in range(LINES)))
    yield from _inserts("visit", (f"('place {n % PLACES}',{n % DAYS},NULL)" for n in range(100 * scale)))


def _inserts(table: str, rows: Iterator[str]) -> Iterator[str]:
    batch: list[str] = []
    for row in rows:
        batch.append(row)
        if len(batch) == 1000:
            yield f"INSERT INTO {table} VALUES " + ",".join(batch)
            batch = []
    if batch:
        yield f"INSERT INTO {table} VALUES " + ",".join(batch)


class Workload:
    """One worker's transactions, drawn from its seed alone: what the database answers changes nothing."""

    def __init__(self, seed: int, worker: int = 0) -> None:
        self.random, self.worker = random.Random(f"{seed}/{worker}"), worker
        self.number = 0
        self._next = FAR * 100 * (worker + 1)

    def transaction(self) -> Transaction:
        """The next one. A row in `tick` tells committed ones apart."""
        self.number += 1
        events = self.random.choices(EVENTS, WEIGHTS, k=self.random.choice((1, 1, 1, 2, 3)))
        statements = [statement for event in events for statement in event(self)]
        tick = f"INSERT INTO tick VALUES ({self.worker}, {self.number}, UTC_TIMESTAMP(6))"
        return Transaction((*statements, tick), commits=self.random.random() > 0.08)

    def account(self) -> int:
        """A key that is there, was there, or has moved away."""
        return self.random.randint(1, ACCOUNTS) + self.random.choice((0, 0, 0, FAR))

    def new(self) -> int:
        self._next += 1
        return self._next

    # --- events --------------------------------------------------------------------------------------------------

    def insert(self) -> list[str]:
        one = self.new()
        return [
            f"INSERT INTO account VALUES ({one}, 'Zoë {one}', NULL, {self.number}.10, '', UTC_TIMESTAMP(6))",
            f"INSERT INTO entry (account_id, amount, booked) VALUES ({one}, 1, UTC_TIMESTAMP(6)), ({one}, 2, '1999-12-31')",
        ]

    def insert_and_delete(self) -> list[str]:
        one = self.new()
        return [
            f"INSERT INTO account VALUES ({one}, 'short', NULL, 0, NULL, NULL)",
            f"UPDATE account SET balance = 7 WHERE id = {one}",
            f"DELETE FROM account WHERE id = {one}",
        ]

    def update(self) -> list[str]:
        one = self.account()
        return [
            f"UPDATE account SET balance = balance + {self.random.randint(1, 9)}, note = 'n{self.number}' WHERE id = {one}"
        ]

    def update_range(self) -> list[str]:
        low = self.random.randint(1, ENTRIES)
        return [f"UPDATE entry SET amount = amount + 0.01 WHERE id BETWEEN {low} AND {low + 20}"]

    def update_to_the_same(self) -> list[str]:
        return [f"UPDATE account SET name = name WHERE id = {self.account()}"]

    def delete(self) -> list[str]:
        return [f"DELETE FROM entry WHERE id = {self.random.randint(1, ENTRIES * 2)}"]

    def delete_parent(self) -> list[str]:
        """Entries go with it, their remarks lose them."""
        return [f"DELETE FROM account WHERE id = {self.account()}"]

    def bring_back(self) -> list[str]:
        """The same key again, in the transaction that deleted it."""
        one = self.account()
        return [
            f"DELETE FROM account WHERE id = {one}",
            f"INSERT INTO account VALUES ({one}, 'again', NULL, 5, NULL, NULL)",
            f"INSERT INTO entry (account_id, amount, booked) VALUES ({one}, 3, '2024-02-29 12:00:00.5')",
        ]

    def move_parent(self) -> list[str]:
        """A changed key that children follow, and often back in a later transaction."""
        one = self.random.randint(1, ACCOUNTS)
        there, here = self.random.sample((one, one + FAR), 2)
        return [f"UPDATE account SET id = {there} WHERE id = {here}"]

    def swap_slots(self) -> list[str]:
        """Unique values change places."""
        a, b = self.random.sample(range(1, ACCOUNTS + 1), 2)
        return [
            f"SET @a = (SELECT slot FROM account WHERE id = {a}), @b = (SELECT slot FROM account WHERE id = {b}),"
            f" @n = (SELECT COUNT(*) FROM account WHERE id IN ({a}, {b}))",
            f"UPDATE account SET slot = NULL WHERE id = {a} AND @n = 2",
            f"UPDATE account SET slot = @a WHERE id = {b} AND @n = 2",
            f"UPDATE account SET slot = @b WHERE id = {a} AND @n = 2",
        ]

    def shift_keys(self) -> list[str]:
        line, first = self.random.randrange(LINES), self.random.randrange(LINES)
        return [f"UPDATE cell SET x = x + 1 WHERE y = 'y{line}' AND x >= {first} ORDER BY x DESC"]

    def swap_keys(self) -> list[str]:
        line = self.random.randrange(LINES)
        a, b = self.random.sample(range(LINES), 2)
        return [
            f"UPDATE cell SET x = -1 WHERE x = {a} AND y = 'y{line}'",
            f"UPDATE cell SET x = {a}, value = -0.0 WHERE x = {b} AND y = 'y{line}'",
            f"UPDATE cell SET x = {b} WHERE x = -1 AND y = 'y{line}'",
        ]

    def new_cells(self) -> list[str]:
        x, y = self.random.randrange(-LINES, 0), self.random.randrange(LINES)
        value = self.random.choice(("NULL", "1e300", "0.1", "-1e-7", "0"))
        return [f"REPLACE INTO cell VALUES ({x}, 'y{y}', {value}, X'00ff{self.random.randrange(256):02x}')"]

    def visits(self) -> list[str]:
        """Equal rows come."""
        place, number = self.random.randrange(PLACES), self.random.randrange(DAYS)
        row = f"('place {place}', {number}, {self.random.choice(('NULL', chr(39) + '2024-02-29' + chr(39)))})"
        return [f"INSERT INTO visit VALUES {', '.join([row] * self.random.randint(1, 3))}"]

    def leave(self) -> list[str]:
        """Some of several equal rows go."""
        place, number = self.random.randrange(PLACES), self.random.randrange(DAYS)
        limit = self.random.randint(1, 2)
        return [f"DELETE FROM visit WHERE place = 'place {place}' AND number = {number} LIMIT {limit}"]

    def change_visits(self) -> list[str]:
        """Some of several equal rows change, some to what others are."""
        place, number = self.random.randrange(PLACES), self.random.randrange(DAYS)
        return [f"UPDATE visit SET number = {number} WHERE place = 'place {place}' AND number <> {number} LIMIT 2"]

    def remarks(self) -> list[str]:
        number = self.random.randint(1, REMARKS)
        return [
            f"REPLACE INTO remark VALUES ({number}, NULL, 'said at {self.number}\\t\\\\ and on')",
            f"UPDATE remark SET entry_id = {self.random.randint(1, ENTRIES)} WHERE id = {number}",
        ]

    def refused(self) -> list[str]:
        """A statement that fails half-way: its first row is taken back, what came before stays."""
        return [
            f"INSERT INTO cell VALUES ({self.new() % FAR}, 'half', 1, NULL), (0, 'y0', 2, NULL), (0, 'y0', 3, NULL)"
        ]

    def half(self) -> list[str]:
        """A savepoint that is rolled back to."""
        one = self.account()
        return [
            f"UPDATE account SET note = 'stays' WHERE id = {one}",
            "SAVEPOINT half_way",
            f"DELETE FROM account WHERE id = {one}",
            "INSERT INTO visit VALUES ('nobody', 0, NULL)",
            "ROLLBACK TO SAVEPOINT half_way",
        ]


Event = Callable[[Workload], list[str]]
_WEIGHTS: dict[Event, int] = {
    Workload.insert: 6,
    Workload.insert_and_delete: 2,
    Workload.update: 8,
    Workload.update_range: 3,
    Workload.update_to_the_same: 1,
    Workload.delete: 3,
    Workload.delete_parent: 2,
    Workload.bring_back: 2,
    Workload.move_parent: 4,
    Workload.swap_slots: 2,
    Workload.shift_keys: 2,
    Workload.swap_keys: 2,
    Workload.new_cells: 3,
    Workload.visits: 4,
    Workload.leave: 2,
    Workload.change_visits: 2,
    Workload.remarks: 3,
    Workload.refused: 1,
    Workload.half: 2,
}
EVENTS, WEIGHTS = tuple(_WEIGHTS), tuple(_WEIGHTS.values())


class Writer:
    """Workers in threads, each with its connection and its own seed, at about `rate` transactions a second together.
    `sessions`: a statement for each worker's session, in turn. `spelled` is given every statement, for servers that need
    another one.

    A server that goes away is waited for. `stop` raises what a worker died of."""

    def __init__(
        self,
        database: Database,
        seed: int,
        *,
        workers: int = 2,
        rate: float = 100.0,
        sessions: Sequence[str] = (),
        spelled: Callable[[str], str] = str,
    ) -> None:
        self.database, self.committed, self.sessions = database, 0, tuple(sessions)
        self._spelled = spelled
        self._pause = workers / rate
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._lock = threading.Lock()
        loads = [Workload(seed, worker) for worker in range(workers)]
        self._threads = [threading.Thread(target=self._run, args=(load,), daemon=True) for load in loads]

    def start(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        if self._failures:
            raise self._failures[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _run(self, load: Workload) -> None:
        import pymysql

        while not self._stop.is_set():
            try:
                with closing(self.database.connect(autocommit=False)) as connection:
                    self._follow(load, connection)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
                if error.args[0] not in LOST:
                    self._failures.append(error)
                    return
                time.sleep(0.2)
            except BaseException as error:  # noqa: BLE001 - carried over to the thread that stops us
                self._failures.append(error)
                return

    def _follow(self, load: Workload, connection: Any) -> None:
        with closing(connection.cursor()) as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'")
            if self.sessions:
                cursor.execute(self.sessions[load.worker % len(self.sessions)])
        due = time.monotonic()
        while not self._stop.is_set():
            drawn = load.transaction()
            if carry_out(Transaction(tuple(map(self._spelled, drawn.statements)), drawn.commits), connection):
                with self._lock:
                    self.committed += 1
            due = max(due + self._pause, time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))


def carry_out(transaction: Transaction, connection: Any) -> bool:
    """Run it as a program would: statements that are refused are left out. Returns whether it was committed."""
    import pymysql

    try:
        with closing(connection.cursor()) as cursor:
            for statement in transaction.statements:
                try:
                    cursor.execute(statement)
                except (pymysql.err.IntegrityError, pymysql.err.DataError, pymysql.err.InternalError) as error:
                    if error.args[0] not in REFUSED:
                        raise
        connection.commit() if transaction.commits else connection.rollback()
    except pymysql.err.OperationalError as error:
        if error.args[0] not in COLLISIONS:
            raise
        connection.rollback()
        return False
    return transaction.commits
