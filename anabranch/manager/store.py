"""The manager's store: what it knows, asked and written in transactions, and brought to the newest form when it is opened.

Each concept of the manager has tables of its own, made by one file of `migrations/`; what is in them is known by the module of
that concept alone. Statements are written once, in the SQL that SQLite and PostgreSQL have in common, with `?` and `:name` for
values. What does not live here: the tables' meaning, what a database has to do (`store_contract.py`),
the databases (`store_sqlite.py`, `store_postgresql.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from anabranch.errors import StateError
from anabranch.manager.store_contract import Keeper, Values, Writing
from anabranch.manager.store_sqlite import SqliteKeeper

FILE = "manager.db"


def now() -> str:
    """Return this moment in ISO 8601, UTC, as the manager notes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ManagerStore:
    """The state of one manager; several processes and threads may use it at once. What has been written is durable when
    `writing` returns. `directory`: the manager's own, for what are no rows; `path`: the file of SQLite."""

    def __init__(self, directory: Path, keeper: Keeper | None = None) -> None:
        """Open what the keeper has, by default a file of SQLite in `directory`, which is made for its user alone. Raises
        StateError."""
        self.directory, self.path = directory, directory / FILE
        self._mutex = threading.RLock()
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            hint = "ANABRANCH_HOME says where it is; look at the directory's rights and room"
            raise StateError(f"the manager's directory {directory} cannot be used: {error}", hint=hint) from None
        self.keeper: Keeper = SqliteKeeper(self.path) if keeper is None else keeper
        self._migrate()

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Yield what executes statements inside one transaction, which an error takes back. Raises StateError for what the
        database refuses.

        Inside another one of the same thread it is a part of that: only the outer one makes it durable.
        """
        with self._mutex, self._told():
            if self.keeper.is_writing:  # ours: the mutex is
                yield self.keeper.session()
                return
            try:
                self.keeper.begin()
                yield self.keeper.session()
                self.keeper.commit()
            except BaseException:  # whatever it was: taken back, and passed on
                self.keeper.rollback()
                raise

    def rows(self, query: str, values: Values = ()) -> list[dict[str, Any]]:
        """Return what a query finds, a mapping by column for each row. Raises StateError for what the database refuses."""
        with self._mutex, self._told():
            return [dict(row) for row in self.keeper.session().execute(query, values)]

    def row(self, query: str, values: Values = ()) -> dict[str, Any] | None:
        """Return the first row, or None."""
        return next(iter(self.rows(query, values)), None)

    def mark(self) -> Hashable | None:
        """Return what differs as soon as anybody has written; None where that is not known, as inside a transaction, which may
        be taken back. Raises StateError."""
        with self._mutex, self._told():
            return None if self.keeper.is_writing else self.keeper.mark()

    def close(self) -> None:
        """Close the connection."""
        with self._mutex:
            self.keeper.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell what the database refuses as an error of ours."""
        try:
            yield
        except self.keeper.errors as error:
            message = f"the manager's state {self.keeper.place} cannot be used now: {_words(error)}"
            raise StateError(message, hint=self.keeper.hint) from error

    def _migrate(self) -> None:
        """Carry out the migrations that the store has not had, in the order of their names, each in one transaction."""
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
                    connection.execute("INSERT INTO migration VALUES (?, ?)", (file.name, now()))


def _words(error: Exception) -> str:
    """Return the first line of an error: a server's further lines have values of rows."""
    return next(iter(str(error).splitlines()), type(error).__name__)
