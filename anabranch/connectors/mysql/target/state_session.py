"""The connection to the state of jobs at a MySQL target, which the parts of a store share.

What does not live here: what the parts read and write (`jobs.py`, `states.py`, `journal.py`, `aside.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pymysql

from anabranch.connectors.mysql.primary import stay
from anabranch.connectors.mysql.target import migrate
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.session import Connection, ask, connect, one, run
from anabranch.errors import TargetBusy, TargetUnavailable
from anabranch.model.endpoint import Endpoint

LOCK = "anabranch: state"  # GET_LOCK: one process at a time makes or removes the state
LOCK_WAIT = 30  # seconds
IN_ONE_STATEMENT = 1000  # numbers or names in a list


class StateSession:
    """One connection, opened on first use and again after it was lost. Each statement outside `transaction` commits."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._open: Connection | None = None
        self._is_there = False  # once seen; that it has gone is noticed by who does not find it

    @contextmanager
    def __call__(self, doing: str) -> Iterator[Connection]:
        """Lend the connection for a block; `doing` is said in errors."""
        if self._open is None or not self._open.open:
            self._open = connect(self._endpoint, "anabranch-state", autocommit=True)
            self._is_there = False  # it may be another server
        try:
            with translated(doing):
                stay(self._open)
                yield self._open
        except TargetBusy:
            raise
        except TargetUnavailable:  # also where the server has said so itself, and the driver goes on
            self.close()
            raise

    def is_there(self) -> bool:
        """Return whether there is any state of any job."""
        with self("look for the state of jobs") as connection:
            return self._sees(connection)

    def rows(self, doing: str, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none where no job has ever been."""
        with self(doing) as connection:
            if not self._is_there and not self._sees(connection):
                return []
            try:
                return ask(connection, sql, *values)
            except pymysql.err.Error as error:
                if error.args[0] in migrate.GONE and not self._sees(connection):
                    return []
                raise

    def run(self, doing: str, sql: str, *values: object) -> int:
        """Carry out a statement, and return how many rows it has found."""
        with self(doing) as connection:
            return run(connection, sql, *values)

    def close(self) -> None:
        if self._open is not None:
            with suppress(pymysql.err.Error):  # it may be gone
                self._open.close()
            self._open = None

    def _sees(self, connection: Connection) -> bool:
        self._is_there = migrate.is_there(connection)
        return self._is_there


@contextmanager
def only_one(connection: Connection) -> Iterator[None]:
    """Hold the lock of those that make or remove the state. Raises TargetBusy where another process does for too long."""
    if one(connection, "SELECT GET_LOCK(%s, %s)", LOCK, LOCK_WAIT) != 1:
        raise TargetBusy("another process makes or removes the state of jobs at the target")
    try:
        yield
    finally:
        with suppress(pymysql.err.Error):  # with the connection the lock is gone, too
            ask(connection, "SELECT RELEASE_LOCK(%s)", LOCK)
