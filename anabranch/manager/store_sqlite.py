"""The manager's state in a file of SQLite: for the managers of one machine.

What does not live here: transactions as the manager sees them (`store.py`).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from anabranch.errors import StateError
from anabranch.manager.store_contract import Writing

BUSY_S = 10.0  # another process of this machine that writes: `anabranch token create`, say


class SqliteKeeper:
    """Implements `Keeper`. The file is readable for its user alone."""

    hint = "look at the disk's room and at the file's rights"
    errors = (sqlite3.Error,)

    def __init__(self, path: Path) -> None:
        """Open the file, or make it. Raises StateError."""
        self.place = str(path)
        try:
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
        except (OSError, sqlite3.Error) as error:
            raise StateError(
                f"the manager's state {path} cannot be used: {error}",
                hint="ANABRANCH_HOME says where it is; look at the directory's rights and room",
            ) from None

    @property
    def is_writing(self) -> bool:
        """Return whether a transaction is open."""
        return self._connection.in_transaction

    def session(self) -> Writing:
        """Return the connection."""
        return self._connection

    def begin(self) -> None:
        """Open a transaction, and keep others from writing until it ends."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make it durable."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """Take it back, where SQLite has not done so itself."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
