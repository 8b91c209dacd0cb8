"""The sessions of a history, at work at the source at the same time, and what the source said to each of their statements.

What does not live here: which of them were committed, and in which order: the source's log says that (order.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from anabranch.testing.databases import connect
from anabranch.testing.servers import Server
from anabranch.testing.torture.history import History, Statement, Transaction, ledger_sql, sql, truncate_sql

COMMITTED, ROLLED_BACK, UNKNOWN = "committed", "rolled back", "unknown"
# What a statement may fail of; it is taken back alone. Duplicate key, missing parent, referenced row, cascades too deep,
# a value that does not fit, NULL or nothing where a value has to be, truncating what is referred to
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
REFUSALS = frozenset(
    {1022, 1048, 1062, 1169, 1216, 1217, 1264, 1364, 1406, 1451, 1452, 1557, 1690, 1701, 1761, 1762, 3008}
)
# Deadlock, lock wait timeout, changed since it was read: the session rolls back.
COLLISIONS = frozenset({1205, 1213, 1020})
# The server went away, ends, or ended the session.
LOST = frozenset({0, 1053, 1927, 2003, 2006, 2013, 2055, 4031})
SETTINGS = (
    "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 0,"
    " innodb_lock_wait_timeout = 1, lock_wait_timeout = 2"
)
AWAY = 60.0  # seconds for which a source that restarts is waited for
HELD = 0.05  # seconds for which one transaction stays open for another's sake


@dataclass(frozen=True, slots=True)
class Result:
    """Of a statement: 0 or the server's error number, and the rows that it met."""

    error: int
    met: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a transaction: what the source said, as far as it went. `end` is `unknown` where the line was lost at its end."""

    number: int
    results: tuple[Result, ...]
    end: str

    def succeeded(self, transaction: Transaction) -> Iterable[tuple[Statement, int]]:
        """Its statements that the source took, with the rows that each met."""
        pairs = zip(transaction.statements, self.results, strict=False)
        return [(statement, result.met) for statement, result in pairs if not result.error]


class Sessions:
    """The connections of a history, one per session, open over all phases. `committed` is told how many transactions of the
    phases after the first have been committed, each time."""

    def __init__(self, history: History, server: Server, committed: Callable[[int], None]) -> None:
        self.history, self.server = history, server
        self.outcomes: dict[int, Outcome] = {}
        self._committed, self._count = committed, 0
        self._told = threading.Condition()
        self._open: dict[int, Any] = {}

    def run(self, phase: Sequence[Transaction], counts: bool = True) -> None:
        """All transactions of a phase. Raises what a session died of."""
        failures: list[BaseException] = []
        numbers = sorted({transaction.session for transaction in phase})
        threads = [
            threading.Thread(target=self._work, args=(number, phase, counts, failures), daemon=True)
            for number in numbers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def close(self) -> None:
        for connection in self._open.values():
            with suppress(Exception):  # its server is away: there is nothing left to close
                connection.close()

    def _work(self, session: int, phase: Sequence[Transaction], counts: bool, failures: list[BaseException]) -> None:
        try:
            for transaction in (t for t in phase if t.session == session):
                if transaction.pause:
                    time.sleep(transaction.pause / 1000)
                self._end(self._carry_out(transaction), counts)
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits for us
            failures.append(error)

    def _end(self, outcome: Outcome, counts: bool) -> None:
        with self._told:
            self.outcomes[outcome.number] = outcome
            self._told.notify_all()
            if counts and outcome.end == COMMITTED:
                self._count += 1
                self._committed(self._count)

    def _carry_out(self, transaction: Transaction) -> Outcome:
        import pymysql

        results: list[Result] = []
        try:
            end = self._attempt(transaction, results)
        except pymysql.err.MySQLError as error:
            number = error.args[0] if error.args else 0
            if number in COLLISIONS:
                self._roll_back(transaction)
                end = ROLLED_BACK
            elif number in LOST or isinstance(error, pymysql.err.InterfaceError):
                self._open.pop(transaction.session, None)
                end = UNKNOWN
            else:
                raise
        return Outcome(transaction.number, tuple(results), end)

    def _roll_back(self, transaction: Transaction) -> None:
        import pymysql

        connection = self._connection(transaction.session)
        with suppress(pymysql.err.MySQLError):  # it went away: whoever asks next finds out
            connection.query("ROLLBACK")
            connection.query("SET foreign_key_checks = 1")

    def _attempt(self, transaction: Transaction, results: list[Result]) -> str:
        connection = self._connection(transaction.session)
        if transaction.truncates:
            results.append(_ask(connection, truncate_sql(transaction.truncates, transaction.number)))
            return ROLLED_BACK if results[0].error else COMMITTED
        if not transaction.checks:
            connection.query("SET foreign_key_checks = 0")
        for statement in transaction.statements:
            if not transaction.checks:
                self._hold_parents(connection, statement)
            results.append(_ask(connection, sql(statement)))
        if transaction.behind:
            with self._told:
                self._told.wait_for(lambda: transaction.behind in self.outcomes, HELD)
        last = [ledger_sql(transaction.number), "COMMIT"] if transaction.commits else ["ROLLBACK"]
        last += [] if transaction.checks else ["SET foreign_key_checks = 1"]
        connection.query("; ".join(last))
        for _ in last[1:]:
            connection.next_result()
        return COMMITTED if transaction.commits else ROLLED_BACK

    def _hold_parents(self, connection: Any, statement: Statement) -> None:
        """As keys that are on do: without it a child may come under a parent that another session is removing, and no log
        tells whether it came before or after the others were cleared."""
        for name in [part.table for part in statement.parts] or [statement.table]:
            for key in self.history.schema[name].foreign_keys if name else ():
                connection.query(f"SELECT * FROM {key.parent} LOCK IN SHARE MODE")

    def _connection(self, session: int) -> Any:
        """Open, or opened again: a source that restarts is waited for."""
        import pymysql

        deadline = time.monotonic() + AWAY
        while session not in self._open:
            try:
                self._open[session] = self._connect(session)
            except pymysql.err.MySQLError as error:
                if error.args[0] not in LOST or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        return self._open[session]

    def _connect(self, session: int) -> Any:
        made = open_session(self.server, self.history.database)
        made.query(SETTINGS)
        image = self.history.images[session] if session < len(self.history.images) else ""
        if image:
            made.query(f"SET SESSION binlog_row_image = '{image}'")
        # MySQL 8.0.33 that was just restarted, and whose tables several sessions open at once, was seen to leave out what a
        # key does to children (seed 133): a session opens them all before it changes anything.
        for table in self.history.schema.tables:
            made.query(f"SELECT * FROM {table.name} LIMIT 0")
        made.commit()
        return made


def open_session(server: Server, database: str) -> Any:
    """With rows counted as they are met, not as they are changed, and several statements at once."""
    from pymysql.constants import CLIENT

    flags = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
    return connect(server, database, client_flag=flags, connect_timeout=10)


def _ask(connection: Any, statement: str) -> Result:
    """Raises what ends the transaction."""
    import pymysql

    try:
        return Result(0, connection.query(statement))
    except pymysql.err.MySQLError as error:
        if error.args[0] not in REFUSALS:
            error.add_note(statement[:2000])
            raise
        return Result(error.args[0])
