"""The contract between the manager's store and the database that keeps it.

What does not live here: transactions as the manager sees them (`store.py`), the databases.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

Values = Sequence[Any] | Mapping[str, Any]


class Found(Protocol):
    """The answer to a statement. A row is asked by a column's name or place, iterated by values, and is a mapping to `dict`."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Writing(Protocol):
    """A transaction that is open: what is executed in it counts when it ends without an error, and else never was."""

    def execute(self, query: str, values: Values = ..., /) -> Found: ...

    def executemany(self, query: str, values: Iterable[Sequence[Any]], /) -> object: ...


class Keeper(Protocol):
    """A database that keeps a manager's state, over one connection, used by one thread at a time. Transactions that write come
    one after the other, whichever process they are of. Every method may raise one of `errors`, or a StateError."""

    @property
    def place(self) -> str:
        """Return where it is, for messages; without a password."""

    @property
    def hint(self) -> str:
        """Return what to look at where it cannot be used."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Return what its driver raises."""

    @property
    def is_writing(self) -> bool:
        """Return whether a transaction is open."""

    def mark(self) -> Hashable | None:
        """Return what differs as soon as anybody has written, whichever process it is of; None where that is not known without
        a question to a server."""

    def session(self) -> Writing:
        """Return what executes statements, outside of a transaction each by itself. A line that was lost is opened again."""

    def begin(self) -> None:
        """Open a transaction that writes; waits for those of others."""

    def commit(self) -> None:
        """Make it durable."""

    def rollback(self) -> None:
        """Take it back. Raises nothing."""

    def close(self) -> None:
        """Close the connection."""
