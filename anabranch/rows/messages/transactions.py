"""Places of changes inside their transactions, and the beginnings and ends of transactions as messages of their own topic.

A large transaction comes in several batches: its counts go on from one to the next. What does not live here: messages of
tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.rows.appended import Committed
from anabranch.rows.messages.format import Piece

Ints = npt.NDArray[np.int64]
BEFORE_ALL, BEHIND_ALL = -1, (1 << 62)


@dataclass(frozen=True)
class Told:
    """n messages of one table that count: `sequence`, `ordinal` and `place` of each, in the log's order."""

    table: str
    sequence: Ints
    ordinal: Ints
    place: npt.NDArray[np.int8]


@dataclass(frozen=True)
class Ended:
    """A transaction all of whose changes are told. `counts`: messages by table."""

    transaction: Committed
    counts: dict[str, int]


@dataclass
class Counts:
    """The transaction that may go on, with its messages so far by table."""

    open: Committed | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        self.open, self.counts = None, Counter()

    def places(
        self, told: Sequence[Told], transactions: Sequence[Committed]
    ) -> tuple[list[tuple[Ints, Ints]], list[Committed], list[Ended]]:
        """Return for each table the places of its messages in their transaction, and among those of the table, from 1 on; the
        transactions that begin, and those that have ended."""
        sequence = np.concatenate([np.zeros(0, np.int64), *(one.sequence for one in told)])
        if not len(sequence):
            return [(np.zeros(0, np.int64), np.zeros(0, np.int64)) for _ in told], [], []
        ordinal = np.concatenate([one.ordinal for one in told])
        place = np.concatenate([one.place for one in told])
        which = np.repeat(np.arange(len(told)), [len(one.sequence) for one in told])
        order = np.lexsort((place, ordinal, sequence))
        former = self.counts if self.open is not None else Counter[str]()
        goes_on = self.open.sequence if self.open is not None else None
        total = np.empty(len(sequence), np.int64)
        total[order] = _ranks(sequence[order])
        if goes_on is not None:
            total[sequence == goes_on] += sum(former.values())
        found = []
        for at, one in enumerate(told):
            own = _ranks(one.sequence)
            if goes_on is not None:
                own[one.sequence == goes_on] += former[one.table]
            found.append((total[which == at], own))
        begun, ended = self._turn(told, transactions)
        return found, begun, ended

    def _turn(self, told: Sequence[Told], transactions: Sequence[Committed]) -> tuple[list[Committed], list[Ended]]:
        """Count, and keep the last transaction."""
        by_sequence: dict[int, Counter[str]] = {}
        for one in told:
            for sequence, count in zip(
                *(part.tolist() for part in np.unique(one.sequence, return_counts=True)), strict=True
            ):
                by_sequence.setdefault(sequence, Counter())[one.table] += count
        known = {one.sequence: one for one in transactions}
        begun, ended = [], []
        for sequence in sorted(by_sequence):
            if self.open is None or self.open.sequence != sequence:
                ended += self.end()
                self.open = known[sequence]
                begun.append(self.open)
            self.counts += by_sequence[sequence]
        return begun, ended

    def end(self) -> list[Ended]:
        """Return the transaction that goes on no more, if there is one."""
        if self.open is None:
            return []
        ended = Ended(self.open, dict(self.counts))
        self.begin()
        return [ended]


def _ranks(sequence: Ints) -> Ints:
    """Return the place of each among its equals, from 1 on, where equals stand together."""
    if not len(sequence):
        return np.zeros(0, np.int64)
    first = np.concatenate([[True], sequence[1:] != sequence[:-1]])
    starts = np.flatnonzero(first)
    places = np.arange(len(sequence))
    return places - np.repeat(starts, np.diff([*starts, len(sequence)])) + 1


def name_of(one: Committed) -> str:
    """Return the transaction's name: the source's own, where it has one, or its position."""
    return one.gtid or f"{one.sequence}@{one.position}"


def piece(topic: str, told: Sequence[tuple[Committed, int, str, str]]) -> Piece:
    """Return messages about transactions, each in front of (BEFORE_ALL) or behind (BEHIND_ALL) all of its changes: the
    transaction, where, key, value."""
    return Piece(
        topic,
        None,
        pa.array([key for _, _, key, _ in told], pa.large_string()),
        pa.array([value for _, _, _, value in told], pa.large_string()),
        np.array([one.sequence for one, *_ in told], np.int64),
        np.array([where for _, where, *_ in told], np.int64),
        np.zeros(len(told), np.int8),
    )
