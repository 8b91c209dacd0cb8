"""The manager's SQLite file: opened, brought to the newest form, asked and written.

Each concept of the manager has tables of its own, made by one file of `migrations/`; what is in them is known by the module of
that concept alone. What does not live here: the tables' meaning.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from anabranch.errors import StateError

FILE = "manager.db"
BUSY_S = 10.0  # another process of this machine that writes: `anabranch token create`, say
Values = Sequence[Any] | Mapping[str, Any]


def now() -> str:
    """Return this moment in ISO 8601, UTC, as the manager notes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ManagerStore:
    """The file of one manager; several processes and threads may use it at once. What has been written is durable when
    `writing` returns."""

    def __init__(self, directory: Path) -> None:
        """Open the file in `directory`, which is made for its user alone. Raises StateError."""
        self.path = directory / FILE
        self._mutex = threading.RLock()
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.touch(mode=0o600)
            self._connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._connection.row_factory = sqlite3.Row
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._migrate()
        except StateError:
            raise
        except (OSError, sqlite3.Error) as error:
            raise StateError(
                f"the manager's state {self.path} cannot be used: {error}",
                hint="ANABRANCH_HOME says where it is; look at the directory's rights and room",
            ) from None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside one transaction, which an error takes back. Raises StateError for what SQLite refuses.

        Inside another one of the same thread it is a part of that: only the outer one makes it durable.
        """
        with self._mutex, self._told():
            if self._connection.in_transaction:  # ours: the mutex is
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:  # whatever it was: taken back, and passed on
                if self._connection.in_transaction:  # SQLite has not done so itself
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, query: str, values: Values = ()) -> list[dict[str, Any]]:
        """Return what a query finds, a mapping by column for each row. Raises StateError for what SQLite refuses."""
        with self._mutex, self._told():
            return [dict(row) for row in self._connection.execute(query, values)]

    def row(self, query: str, values: Values = ()) -> dict[str, Any] | None:
        """Return the first row, or None."""
        return next(iter(self.rows(query, values)), None)

    def close(self) -> None:
        """Close the file."""
        with self._mutex:
            self._connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell what SQLite refuses as an error of ours."""
        try:
            yield
        except sqlite3.Error as error:
            message = f"the manager's state {self.path} cannot be used now: {error}"
            raise StateError(message, hint="look at the disk's room and at the file's rights") from error

    def _migrate(self) -> None:
        """Carry out the migrations that the file has not had, in the order of their names, each in one transaction."""
        with self.writing() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, at TEXT NOT NULL)")
        done = {row["name"] for row in self.rows("SELECT name FROM migration")}
        for file in sorted(files("anabranch.manager").joinpath("migrations").iterdir(), key=lambda file: file.name):
            if file.name.endswith(".sql") and file.name not in done:
                with self.writing() as connection:
                    if connection.execute("SELECT 1 FROM migration WHERE name = ?", (file.name,)).fetchone():
                        continue  # another process has had it meanwhile
                    for statement in filter(None, map(str.strip, file.read_text().split(";\n"))):
                        connection.execute(statement)
                    connection.execute("INSERT OR IGNORE INTO migration VALUES (?, ?)", (file.name, now()))
