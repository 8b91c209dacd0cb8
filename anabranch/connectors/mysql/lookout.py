"""Whom sessions of ours wait for at a MySQL or MariaDB: metadata locks, row locks, global locks, tables in use.

Not every server says who holds a lock: metadata locks stand in performance_schema where it is on, row locks in the views of
InnoDB, and of tables that are in use nothing does. Then those are named that can have it: transactions and statements that
are older than the wait.

https://dev.mysql.com/doc/refman/8.0/en/general-thread-states.html · https://mariadb.com/kb/en/general-thread-states/
https://dev.mysql.com/doc/refman/8.0/en/performance-schema-metadata-locks-table.html
https://dev.mysql.com/doc/refman/8.0/en/performance-schema-data-lock-waits-table.html
https://mariadb.com/kb/en/information-schema-innodb_lock_waits-table/
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from anabranch.errors import SourceError
from anabranch.waits import Holder, Wait

# Thread states in which a session waits for others, in small letters and by their beginning -> what for.
STATES: dict[str, str] = {
    "waiting for table metadata lock": "a metadata lock",
    "waiting for schema metadata lock": "a metadata lock of a database",
    "waiting for stored": "a metadata lock of a routine",
    "waiting for trigger metadata lock": "a metadata lock of a trigger",
    "waiting for global read lock": "the global read lock",
    "waiting for commit lock": "the lock for commits",
    "waiting for backup lock": "the lock for backups",
    "waiting for table flush": "tables that are in use",
    "flushing tables": "tables that are in use",
    "waiting for table level lock": "a table lock",
    "waiting for table lock": "a table lock",
    "waiting for tables": "a table lock",
    "table lock": "a table lock",
    "locked": "a table lock",
    "waiting for semi-sync ack": "the answer of a replica (semi-synchronous replication)",
}
# Metadata locks: what is asked for -> what held by others is in its way; what is not here waits for every other one.
# https://dev.mysql.com/doc/dev/mysql-server/latest/classMDL__key.html and sql/mdl.h
_READS = ("EXCLUSIVE", "SHARED_NO_READ_WRITE")
CONFLICTS: dict[str, tuple[str, ...]] = {
    "SHARED_HIGH_PRIO": ("EXCLUSIVE",),
    "SHARED_READ": _READS,
    "SHARED_WRITE": (*_READS, "SHARED_NO_WRITE", "SHARED_READ_ONLY"),
    "SHARED_READ_ONLY": (*_READS, "SHARED_WRITE", "SHARED_WRITE_LOW_PRIO"),
    "SHARED": ("EXCLUSIVE", "INTENTION_EXCLUSIVE"),  # of the global lock: FLUSH TABLES WITH READ LOCK
    "INTENTION_EXCLUSIVE": ("SHARED", "EXCLUSIVE"),
}
_METADATA = """
SELECT w.processlist_id, p.lock_type, p.object_type, p.object_schema, p.object_name,
       h.processlist_id, g.lock_type, g.lock_status
  FROM performance_schema.metadata_locks p
  JOIN performance_schema.threads w ON w.thread_id = p.owner_thread_id
  JOIN performance_schema.metadata_locks g ON g.object_type = p.object_type AND g.object_schema <=> p.object_schema
   AND g.object_name <=> p.object_name AND g.owner_thread_id <> p.owner_thread_id
  JOIN performance_schema.threads h ON h.thread_id = g.owner_thread_id
 WHERE p.lock_status = 'PENDING'
"""
# Row locks: of MySQL 8.0 and later, of MariaDB and older MySQLs. A holder of number 0 or none is a prepared XA transaction.
_ROWS = (
    """
SELECT w.processlist_id, h.processlist_id FROM performance_schema.data_lock_waits l
  JOIN performance_schema.threads w ON w.thread_id = l.requesting_thread_id
  LEFT JOIN performance_schema.threads h ON h.thread_id = l.blocking_thread_id
""",
    """
SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id FROM information_schema.innodb_lock_waits w
  JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id
  JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id
""",
)
# Both times are the server's clock in its own zone.
_TRANSACTIONS = """
SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()) FROM information_schema.innodb_trx
"""
_PROGRAMS = """
SELECT processlist_id, attr_value FROM performance_schema.session_connect_attrs WHERE attr_name = 'program_name'
"""
_SETTINGS = "SET SESSION time_zone = 'SYSTEM', lock_wait_timeout = 5"
_LIMITS = ("SET SESSION max_execution_time = 5000", "SET SESSION max_statement_time = 5")  # MySQL's, MariaDB's
_BLIND = "GRANT PROCESS ON *.* to the job's user lets anabranch name who holds it"
_OLDER = "the server does not say who holds it; these sessions were active before the wait began"
_ANY = "the server does not say who holds it, and nothing is older than the wait: one of these idle sessions may have locked it"
_SERVERS_OWN = ("Daemon", "Binlog Dump", "Binlog Dump GTID", "Slave_IO", "Slave_SQL", "Slave_worker", "Connect")
XA = Holder("a prepared XA transaction", "XA RECOVER lists it, XA COMMIT or XA ROLLBACK ends it")


@dataclass(frozen=True)
class _Thread:
    """A line of SHOW PROCESSLIST."""

    number: int
    user: str
    host: str
    database: str
    command: str
    seconds: int
    state: str

    @property
    def waits_for(self) -> str:
        state = self.state.lower()
        return next((what for words, what in STATES.items() if state.startswith(words)), "")


class MysqlLookout:
    """Implements `waits.Lookout`, on a connection of its own. `user`: whose sessions are watched; `ask` gives the rows of a
    query."""

    def __init__(self, connection: Any, user: str, ask: Callable[[str], list[tuple[Any, ...]]]) -> None:
        self._connection, self._user, self._ask = connection, user, ask
        self._own = self._connection.thread_id()
        self._ask(_SETTINGS)
        for limit in _LIMITS:
            with suppress(SourceError):  # a server without it
                self._ask(limit)

    def look(self, numbers: Sequence[int], others: bool) -> list[Wait]:
        threads = {one.number: one for one in map(_thread, self._ask("SHOW PROCESSLIST"))}
        wanted = [one for one in threads.values() if one.number in numbers or (others and one.user == self._user)]
        rows = self._pairs(_ROWS)
        waiting = [one for one in wanted if one.number != self._own and (one.waits_for or one.number in rows)]
        if not waiting:
            return []
        locks, begun, programs = self._metadata(), self._numbers(_TRANSACTIONS), self._programs()
        tell = _Teller(threads, begun, programs, self._own)
        return [_wait(one, rows.get(one.number, []), locks.get(one.number), tell) for one in waiting]

    def cancel(self, number: int) -> None:
        self._ask(f"KILL QUERY {int(number)}")

    def close(self) -> None:
        self._connection.close()

    def _rows(self, *queries: str) -> list[tuple[Any, ...]]:
        """Run the first query that this server, and this user's rights, allow, and returns its rows."""
        for query in queries:
            try:
                return self._ask(query)
            except SourceError:
                if not self._connection.open:
                    raise
        return []

    def _numbers(self, query: str) -> dict[int, int]:
        return {int(number): int(value or 0) for number, value in self._rows(query)}

    def _programs(self) -> dict[int, str]:
        return {int(number): str(name) for number, name in self._rows(_PROGRAMS) if name}

    def _pairs(self, queries: Sequence[str]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for waiter, holder in self._rows(*queries):
            found.setdefault(int(waiter), []).append(int(holder or 0))
        return found

    def _metadata(self) -> dict[int, tuple[str, list[int]]]:
        """Name by waiting session the lock and its holders; where nobody holds it, those who asked for it before."""
        found: dict[int, tuple[str, list[int]]] = {}
        queued: dict[int, tuple[str, list[int]]] = {}
        for waiter, asked, kind, schema, name, holder, has, status in self._rows(_METADATA):
            if holder is None or (asked in CONFLICTS and has not in CONFLICTS[asked]):
                continue
            what = ".".join(filter(None, (schema, name))) or f"the {str(kind).lower()} lock"
            place = found if status == "GRANTED" else queued
            place.setdefault(int(waiter), (what, []))[1].append(int(holder))
        return queued | found


@dataclass(frozen=True)
class _Teller:
    """The sessions of a server at one moment, and how each is described."""

    threads: dict[int, _Thread]
    begun: dict[int, int]  # seconds since a session's transaction began
    programs: dict[int, str]
    own: int

    def holder(self, number: int) -> Holder:
        thread = self.threads.get(number)
        if not number:
            return XA
        if thread is None:
            return Holder(f"session {number}", _BLIND)
        named = {"user": thread.user, "from": thread.host, "application": self.programs.get(number, "")}
        named["database"] = thread.database
        facts = ", ".join(f"{name} {value}" for name, value in named.items() if value)
        state = f"{'idle' if thread.command == 'Sleep' else thread.command.lower()} since {_ago(thread.seconds)}"
        since = f", its transaction began at {_ago(self.begun[number])}" if number in self.begun else ""
        return Holder(f"session {number} ({facts})", state + since)

    def older(self, than: _Thread) -> Iterator[Holder]:
        """Yield sessions with a transaction, or a statement, that began before the wait."""
        for number, thread in self.threads.items():
            runs = thread.seconds if thread.command in ("Query", "Execute") and not thread.waits_for else -1
            is_ours = thread.user == than.user and thread.waits_for
            if (
                number not in (than.number, self.own)
                and not is_ours
                and max(runs, self.begun.get(number, -1)) >= than.seconds
            ):
                yield self.holder(number)
        if 0 in self.begun:
            yield XA

    def idle(self) -> Iterator[Holder]:
        """Yield idle sessions: LOCK TABLES and FLUSH TABLES WITH READ LOCK leave no visible transaction or statement."""
        for number, thread in self.threads.items():
            if number != self.own and not thread.waits_for and thread.command not in _SERVERS_OWN:
                yield self.holder(number)


def _thread(row: tuple[Any, ...]) -> _Thread:
    number, user, host, database, command, seconds, state = row[:7]
    return _Thread(
        int(number), user, str(host).partition(":")[0], database or "", command, int(seconds or 0), state or ""
    )


def _wait(thread: _Thread, rows: list[int], lock: tuple[str, list[int]] | None, tell: _Teller) -> Wait:
    if rows:
        return Wait(thread.number, "a lock on a row", tuple(tell.holder(number) for number in dict.fromkeys(rows)))
    what = thread.waits_for
    if lock is not None:
        holders = tuple(tell.holder(number) for number in dict.fromkeys(lock[1]))
        return Wait(thread.number, f"{what} on {lock[0]}" if "." in lock[0] else what, holders)
    if older := tuple(tell.older(thread)):
        return Wait(thread.number, what, older, _OLDER)
    idle = tuple(tell.idle())
    return Wait(thread.number, what, idle, _ANY if idle else _BLIND)


def _ago(seconds: int) -> str:
    return datetime.fromtimestamp(time.time() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
