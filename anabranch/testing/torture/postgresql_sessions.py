"""What a session of a history says to a PostgreSQL, and what its errors mean.

What does not live here: the sessions beside each other (sessions.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from anabranch.testing.databases import connect
from anabranch.testing.servers import Server
from anabranch.testing.torture.bare import said
from anabranch.testing.torture.history import History, Statement, Transaction, ledger_sql
from anabranch.testing.torture.postgresql_sql import sql
from anabranch.testing.torture.sessions import AWAY
from anabranch.testing.torture.speaker import COMMITTED, ROLLED_BACK, UNKNOWN, Collided, Lost, Result

# What a statement may fail of: a constraint, a value that does not fit, the same row twice, truncating what is referred to
# or written to, a row of which the log would not tell what it was, a label or a column that is not there yet.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
REFUSALS = ("22", "23", "21", "27", "0A000", "42703", "55000", "55006", "55P04")
COLLISIONS = ("40001", "40P01", "55P03")
AWAY_CODES = ("08", "57", "53300")
BARE, PREPARES = 0.3, 0.12  # of the transactions: those whose statements are no subtransactions, and two-phase commits
OPENS = 0.05  # seconds for which a prepared one is left open, at most
GUARD = "guard"


class PostgresqlSpeaker:
    """speaker.Speaker. A statement that is refused is taken back to a savepoint before it, alone; of some transactions it is
    the end. Some are committed by two phases: of two, the line may be lost between them, and the second is said again."""

    def __init__(self, server: Server, database: str, history: History) -> None:
        """Raises Lost."""
        self.history, self._server, self._database = history, server, database
        self._connection = self._connect()

    def carry_out(self, transaction: Transaction, results: list[Result], hold: Callable[[], None]) -> str:
        drawn = random.Random(f"session {self.history.seed} {transaction.number}")
        is_bare, prepares, opens = drawn.random() < BARE, drawn.random() < PREPARES, drawn.uniform(0, OPENS)
        try:
            self._say("BEGIN")
            if not transaction.checks:
                self._say("SET LOCAL session_replication_role = replica")
            for statement in transaction.statements:
                results.append(self._ask(statement, is_bare))
            hold()
            if not transaction.commits:
                self._say("ROLLBACK")
                return ROLLED_BACK
            number = transaction.number
            self._say(said(self.history.database, number) if transaction.bare else ledger_sql(number))
            if prepares:
                return self._in_two_phases(f"{self.history.database}_{transaction.number}", opens)
            self._say("COMMIT")
        except psycopg.Error as error:
            raise _meaning(error) from error
        return COMMITTED

    def roll_back(self) -> None:
        with suppress(psycopg.Error):  # it went away: whoever asks next finds out
            self._say("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def _ask(self, statement: Statement, is_bare: bool) -> Result:
        text = sql(statement, self.history.schema)
        if is_bare or statement.do in ("savepoint", "back"):
            return Result(0, self._say(text))
        self._say(f"SAVEPOINT {GUARD}")
        try:
            affected = self._say(text)
        except psycopg.Error as error:
            if not _is_one_of(error, REFUSALS):
                raise
            self._say(f"ROLLBACK TO SAVEPOINT {GUARD}")
            return Result(int(str(error.sqlstate), 36))
        self._say(f"RELEASE SAVEPOINT {GUARD}")
        return Result(0, affected)

    def _in_two_phases(self, gid: str, opens: float) -> str:
        self._say(f"PREPARE TRANSACTION '{gid}'")
        time.sleep(opens)
        try:
            self._say(f"COMMIT PREPARED '{gid}'")
        except psycopg.Error as error:
            if not isinstance(_meaning(error), Lost):
                raise
            return self._said_again(gid)
        return COMMITTED

    def _said_again(self, gid: str) -> str:
        """Say the end again in another session: what is prepared holds its locks until somebody decides."""
        until = time.monotonic() + AWAY
        while True:
            try:
                self._connection = self._connect()
                self._say(f"COMMIT PREPARED '{gid}'")
                return COMMITTED
            except psycopg.errors.UndefinedObject:
                return UNKNOWN  # the first one got through, or the server lost the transaction
            except (Lost, psycopg.OperationalError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _say(self, statement: str) -> int:
        try:
            return max(0, int(self._connection.execute(statement).rowcount))
        except psycopg.Error as error:
            error.add_note(statement[:2000])
            raise

    def _connect(self) -> Any:
        settings = f"-c search_path={self.history.database} -c TimeZone=UTC -c lock_timeout=1s"
        try:
            return connect(self._server, self._database, options=settings, connect_timeout=10)
        except psycopg.OperationalError as error:
            raise Lost from error


def _meaning(error: psycopg.Error) -> Exception:
    """Collided, Lost, or the error itself."""
    if _is_one_of(error, (*COLLISIONS, *REFUSALS)):
        return Collided()
    if error.sqlstate is None or _is_one_of(error, AWAY_CODES):
        return Lost()
    return error


def _is_one_of(error: psycopg.Error, codes: tuple[str, ...]) -> bool:
    return (error.sqlstate or "?").startswith(codes)
