"""What the suites need of a source: a connector, and a way to make tables and transactions in its database.

Values are text forms (model/datatype.py). What does not live here: how a database is told (the tests' subjects).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from anabranch.contracts import LogOptions, SourceConnector
from anabranch.model.ids import TableId

Texts = Mapping[str, str | None]

# The suites' one table: columns in this order, named by kind; a database gives each its own type for the purpose.
COLUMNS = ("id", "word", "number", "amount", "data", "moment")
FULL: Texts = {
    "id": "1",
    "word": "tab\t nl\n cr\r back\\slash ünï😀 'quoted' \\N",
    "number": "-2147483648",
    "amount": "-1234567890.05",
    "data": "\\x00ff5c0a09",
    "moment": "2024-02-29 23:59:59.000001",
}


class Changes(Protocol):
    """An open transaction."""

    def insert(self, table: TableId, values: Texts) -> None: ...

    def update(self, table: TableId, where: Texts, values: Texts) -> None: ...

    def delete(self, table: TableId, where: Texts) -> None: ...


class Source(Protocol):
    """A database of the suites' own, empty at first."""

    connector: SourceConnector
    options: LogOptions
    cuts_places: bool  # can a table without a key be read in pieces, by where its rows lie?
    origins: tuple[
        str, ...
    ]  # two names of other databases that changes may come from; none where the log does not tell

    def create(self, name: str, has_key: bool = True) -> TableId:
        """A table with COLUMNS: bigint (the key), varchar(100) utf8, int, decimal(12,2), varbinary, datetime(6)."""

    def transaction(self) -> AbstractContextManager[Changes]:
        """Commits at the end of the block, rolls back when the block raises."""

    def from_origin(self, origin: str) -> AbstractContextManager[Changes]:
        """Commit a transaction as `transaction` does, whose changes came here from `origin`."""

    def prepare(self, name: str) -> AbstractContextManager[Changes] | None:
        """A transaction that is prepared under `name` at the end of the block, and left by its session. None: never, this
        database has no two-phase commit, or its log has the rows where they are committed."""

    def decide(self, name: str, commit: bool) -> None:
        """The end of a prepared one."""

    def truncate(self, table: TableId) -> None: ...

    def purge(self) -> None:
        """The log's past goes away, as retention takes it."""


def row(id: int, **values: str | None) -> dict[str, str | None]:
    """A row with a short content."""
    plain = {"word": f"w{id}", "number": str(id), "amount": f"{id}.50", "data": None, "moment": None}
    return {"id": str(id), **plain, **values}


def refuses(error: type[Exception], work: Callable[[], object]) -> Exception:
    """`work` must raise `error`, which is returned."""
    try:
        work()
    except error as found:
        return found
    raise AssertionError(f"{error.__name__} was expected")


class Undone(Exception):
    """Raised by a suite inside a transaction, to roll it back."""
