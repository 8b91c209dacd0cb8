"""Source transactions of few row changes, each to be carried out alone, as columns: what the apply engine makes of many and a
Writer takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.rows.net import ChangeShape

Ints = npt.NDArray[np.int64]
Values = Sequence[bytes | None]


@dataclass(frozen=True)
class SmallChanges:
    """Row changes of one shape, all checked, of a table with a key. Of change i `transactions[i]` says to which transaction
    it belongs, from 0, `orders[i]` where it stands among the changes of all shapes; both rise. `columns` are the values of
    `shape.columns` in text form (rows/lines.py without escapes), utf8, without zero characters."""

    shape: ChangeShape
    transactions: Ints
    orders: Ints
    columns: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.orders)

    def rows(self) -> Iterator[Values]:
        """Yield row after row, encoded."""
        return zip(*(column.cast(_binary(column)).to_pylist() for column in self.columns), strict=True)


@dataclass(frozen=True)
class SmallTransactions:
    """Source transactions in their order, each with at least one change: their sequences, native positions, commit times."""

    sequences: Sequence[int]
    natives: Sequence[str]
    commit_times: Sequence[int]
    changes: Sequence[SmallChanges]

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def change_count(self) -> int:
        return sum(map(len, self.changes))

    @property
    def bytes(self) -> int:
        return sum(column.nbytes for one in self.changes for column in one.columns)

    def part(self, first: int, stop: int) -> SmallTransactions:
        """Return the transactions with first <= number < stop."""
        changes = []
        for one in self.changes:
            low, high = (int(place) for place in np.searchsorted(one.transactions, (first, stop)))
            if low < high:
                columns = tuple(column.slice(low, high - low) for column in one.columns)
                changes.append(
                    SmallChanges(one.shape, one.transactions[low:high] - first, one.orders[low:high], columns)
                )
        some = slice(first, stop)
        return SmallTransactions(self.sequences[some], self.natives[some], self.commit_times[some], changes)

    def order(self) -> Ints:
        """Return places of all changes, those of each shape behind those of the one before, in the order in which they
        are done.
        """
        found: Ints = np.argsort(np.concatenate([one.orders for one in self.changes]), kind="stable")
        return found

    def each(self) -> list[list[tuple[ChangeShape, Values]]]:
        """Return the changes of each transaction, in their order."""
        flat = [
            (int(at), one.shape, row)
            for one in self.changes
            for at, row in zip(one.transactions, one.rows(), strict=True)
        ]
        found: list[list[tuple[ChangeShape, Values]]] = [[] for _ in self.sequences]
        for place in self.order().tolist():
            at, shape, row = flat[place]
            found[at].append((shape, row))
        return found


def _binary(text: pa.Array) -> pa.DataType:
    return pa.large_binary() if pa.types.is_large_string(text.type) else pa.binary()
