"""The manager's state in a file of SQLite: for the managers of one machine.

What does not live here: transactions as the manager sees them (`store.py`).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Hashable, Iterator
from contextlib import suppress
from pathlib import Path

from anabranch.errors import StateError
from anabranch.manager.store_contract import Writing

BUSY_S = 10.0  # another process of this machine that writes: `anabranch token create`, say
AGAIN_S = 0.02  # between two tries where SQLite itself does not wait
LOCKS = Path("/proc/locks")  # https://man7.org/linux/man-pages/man5/proc_locks.5.html


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
            self._keep_a_log()
            for pragma in ("synchronous = FULL", "foreign_keys = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
        except (OSError, sqlite3.Error) as error:
            if _is_locked(error):
                raise _locked(path) from error
            raise StateError(
                f"the manager's state {path} cannot be used: {error}",
                hint="ANABRANCH_HOME says where it is; look at the directory's rights and room",
            ) from None

    @property
    def is_writing(self) -> bool:
        """Return whether a transaction is open."""
        return self._connection.in_transaction

    def mark(self) -> Hashable:
        """Return what SQLite counts: commits of others, and rows that this connection has written."""
        others = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return others, self._connection.total_changes

    def session(self) -> Writing:
        """Return the connection."""
        return self._connection

    def begin(self) -> None:
        """Open a transaction, and keep others from writing until it ends. Raises StateError where another process goes on
        writing for longer than BUSY_S."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _is_locked(error):
                raise _locked(Path(self.place)) from error
            raise

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

    def _keep_a_log(self) -> None:
        """Let the file have a write-ahead log. Two processes that do so to a new file at once both read it first; the one that
        comes second is then refused, and SQLite does not wait for it: either might wait for the other."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(AGAIN_S)


def _is_locked(error: Exception) -> bool:
    """Return whether SQLite was refused because of a lock of another process. The low byte of its code is the kind of error."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _locked(path: Path) -> StateError:
    """Return the error for a file that others have locked for too long."""
    found = list(dict.fromkeys(_holders(path)))
    who = " and ".join(found) if found else "another process"
    hint = "look at what it does: let it finish, or end it; then try again"
    return StateError(
        f"the manager's state {path} has been locked by {who} for {BUSY_S:g} seconds",
        hint=hint if found else f"`fuser -v {path}` tells who has it open; {hint}",
    )


def _holders(path: Path) -> Iterator[str]:
    """Yield the processes that have a lock to write, as far as this machine tells them; of the file itself, and of the one
    beside it where those of a write-ahead log are (https://sqlite.org/walformat.html#wal_locks). The file is not opened:
    closing it would give up locks of our own."""
    inodes = set()
    for suffix in ("", "-shm"):
        with suppress(OSError):  # there is no log beside the file yet
            inodes.add(str(os.stat(f"{path}{suffix}").st_ino))
    with suppress(OSError):  # no Linux, or none that tells: the message then names nobody
        for line in LOCKS.read_text().splitlines():
            words = line.split()
            if "->" not in words and words[3] == "WRITE" and words[5].rpartition(":")[2] in inodes:
                pid = words[4]
                with suppress(OSError):  # it has ended, or cannot be seen from here
                    yield f"process {pid} ({Path('/proc', pid, 'comm').read_text().strip()})"
