"""Speaks for a session of a history: carries out what it does at its source, and keeps the answers.

What does not live here: which sessions there are, and when they speak (sessions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from anabranch.testing.torture.history import Statement, Transaction

COMMITTED, ROLLED_BACK, UNKNOWN = "committed", "rolled back", "unknown"


class Collided(Exception):
    """Deadlock, lock wait timeout, changed since it was read, or refused where one refusal ends a transaction: it is rolled
    back."""


class Lost(Exception):
    """The server went away, ends, or ended the session."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement: 0 or the server's error number, and how many rows it affected."""

    error: int
    affected: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a transaction: what the source said, as far as it went.

    `end` is `unknown` where the line was lost at its end."""

    number: int
    results: tuple[Result, ...]
    end: str

    def succeeded(self, transaction: Transaction) -> Iterable[tuple[Statement, int]]:
        """Its statements that the source took, with the rows that each affected."""
        pairs = zip(transaction.statements, self.results, strict=False)
        return [(statement, result.affected) for statement, result in pairs if not result.error]


class Speaker(Protocol):
    """One session at the source. Everything it does may raise Lost; it is of no use then."""

    def carry_out(self, transaction: Transaction, results: list[Result], hold: Callable[[], None]) -> str:
        """Say all of it, and how it ended; `results` gets what the source said, `hold` waits before the end. Raises
        Collided."""

    def roll_back(self) -> None:
        """Behind a collision. Raises nothing."""

    def close(self) -> None: ...
