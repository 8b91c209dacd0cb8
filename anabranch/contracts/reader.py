"""Contracts of reading a target's rows, for verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing
    from anabranch.rows.net import TargetTable


class TargetReader(Protocol):
    """Reads target rows for verification in the same text form as SnapshotReader.lines, over its own connection."""

    def pieces(self, table: TargetTable, rows_per_piece: int) -> list[str]:
        """Return disjoint pieces that together are the table. Only this reader knows what a piece says."""

    def lines(self, table: TargetTable, piece: str) -> Iterator[bytes]: ...

    def close(self) -> None: ...


@runtime_checkable
class ComputedReader(Protocol):
    """Says which columns a target computes, beside a TargetReader that reads them like all others."""

    def computed(self, table: TargetTable) -> frozenset[str]:
        """Return those of `table.computed`, by their names at the target, that the target table has: not all can be made."""


@runtime_checkable
class HashingReader(Protocol):
    """Has the target's server make fingerprints of its rows (rows/fingerprint.py), beside a TargetReader."""

    @property
    def hashings(self) -> frozenset[Hashing]:
        """The ways in which this kind of server can make them."""

    def fingerprint(
        self, table: TargetTable, columns: Sequence[Hashed], piece: str, hashing: Hashing
    ) -> Fingerprint | None:
        """Sum up the rows that `lines` gives; None where this server cannot."""
