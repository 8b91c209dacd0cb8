"""Contracts of reading a target's rows, for verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.contracts.values import Bounds
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState

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
class TellingReader(Protocol):
    """Makes rows out of what a target was told of them, beside a TargetReader; an ability of targets that keep changes."""

    def has_all(self, table: TargetTable) -> bool:
        """Return whether it was told of all rows; else of those alone that have changed since the job began."""

    def keys(self, table: TargetTable, piece: str) -> Iterator[list[list[str | None]]]:
        """Yield the keys of which a piece of the table tells, also of rows that are gone, as text forms in the key's order, in
        lists of some thousand."""


@runtime_checkable
class ComputedReader(Protocol):
    """Says which columns a target computes, beside a TargetReader that reads them like all others."""

    def computed(self, table: TargetTable) -> frozenset[str]:
        """Return those of `table.computed`, by their names at the target, that the target table has: not all can be made."""


@runtime_checkable
class PlacedReader(Protocol):
    """Reads single rows together with the job's checkpoint, beside a TargetReader; an ability of targets that keep both in one
    database.

    Delivery: between `place` and `leave` all that is read is of one moment, except that a table which is emptied meanwhile
    may show no rows."""

    def place(self, job: str, table: TableId) -> tuple[Checkpoint, TableState] | None:
        """Open a snapshot, in place of one that is open; return where the job is in it, and the state of a source table,
        without its definition. None where the target has no such job or table. Keep it for a short time: TRUNCATE waits
        for it."""

    def finds(self, table: TargetTable) -> bool:
        """Return whether rows of the table are found by text forms of their keys, which some types do not allow."""

    def lines_of(self, table: TargetTable, keys: Sequence[Sequence[str | None]]) -> Iterator[bytes]:
        """Yield the rows that have one of these keys (text forms in the key's order), as `lines` gives them. Rows whose key the
        target takes for an equal one may come, too."""

    def leave(self) -> None:
        """End the snapshot, where one is open."""


@runtime_checkable
class SharedReader(Protocol):
    """Lets several connections of a target read in one snapshot, beside a TargetReader; an ability that not all have."""

    def share(self, job: str) -> tuple[str, Checkpoint] | None:
        """Open a snapshot and keep it until `close` or the next call; what others need to read in it, and where the job is in
        it. None where the target has no such job. No lock is kept."""

    def open_shared(self, shared: str) -> bool:
        """Read in the snapshot that another reader shares, until `leave`; False where it is gone."""

    def leave(self) -> None:
        """End the snapshot, where one is open."""


@runtime_checkable
class KeptReader(Protocol):
    """Keeps a snapshot in which it alone reads, beside a TargetReader whose server lets no other connection read in one. Raises
    TargetError where that connection is lost, rather than reading in another."""

    def keep(self, job: str) -> Checkpoint | None:
        """Open a snapshot, in place of one that is open, and keep it until `close`; return where the job is in it. None where
        the target has no such job."""

    def release(self) -> None:
        """Let go of the definitions of tables that were read, which whoever empties or alters them waits for. The snapshot
        stays."""


@runtime_checkable
class RangedReader(Protocol):
    """Reads ranges of keys that another database has cut, beside a TargetReader; an ability of targets with an index over keys.
    Only whole numbers have one order in all databases."""

    def ranges(self, table: TargetTable, columns: Sequence[str], bounds: Sequence[Bounds]) -> list[str]:
        """Return a piece for each range of these columns of the target, whole numbers with whose values every row has; [] where
        no index begins with them, so that each piece would take a reading of the table."""


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
