"""Contracts of reading a source's rows, for load and verification.

Every source has a SnapshotReader. The others are abilities that some have: an engine asks with `isinstance`, and does
without.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.contracts.values import Bounds
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.model.value_rules import ValueRules

if TYPE_CHECKING:
    from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing
    from anabranch.rows.net import Row


class SnapshotReader(Protocol):
    """A connection to the source for reading rows; one per Spark task. Picklable before `open`, cheap to make."""

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        """Cut a table into pieces whose bounds the database computed; [Bounds()] for keyless and small tables."""

    def estimate(self, table: TableSchema) -> int:
        """Estimate the rows (catalogue statistics); for progress only."""

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        """Open a consistent snapshot and return (low, high) by K2: every transaction included in `low` is in the
        snapshot, none after `high` is. `low == high` means exact. `lock` is the job's `[load] lock`. Raises SourceError
        where neither GTIDs, a watermark nor a lock can give `low`."""

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        """Yield the rows inside `bounds` as lines (rows/lines.py): blocks of whole lines, about 1 MB each, nothing
        buffered beyond.

        Encodings are identical with what LogReader gives for the same value (K34, pitfall 29). Where the server says
        how many rows it has for them, another count is a SourceError behind the last block.
        """

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        """Yield the rows that have one of these primary keys (source column -> text form), as `lines` gives them (K3)."""

    def close(self) -> None: ...


@runtime_checkable
class SharingReader(Protocol):
    """Lets several connections of a source read in one snapshot; an ability that not all SnapshotReaders have."""

    def share(self, tables: Sequence[TableSchema]) -> str:
        """Open a snapshot and keep it until `close`; what others need to read these tables in it, "" if it cannot be had now.
        No lock is kept."""

    def open_shared(self, table: TableSchema, shared: str) -> LogMark | None:
        """Read in the snapshot that another reader shares; None where it is gone, or the table was truncated or rewritten since
        (a snapshot does not keep that): `open` then."""

    def places(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        """Cut a table by where its rows lie, a schema without a key; [Bounds()] where it is small, or that cannot be. A change
        moves a row: the pieces are the table only if all are read in one shared snapshot."""


@runtime_checkable
class RecordedReader(Protocol):
    """Gives rows that were read before, each piece at a place of the log of its own; an ability of a SnapshotReader that asks
    no database."""

    def open_piece(self, table: TableSchema, bounds: Bounds) -> tuple[LogMark, LogMark]:
        """Return (low, high), as `SnapshotReader.open`, of the snapshot in which the piece was read."""


@runtime_checkable
class KeepingReader(Protocol):
    """Keeps a snapshot of all tables at one place of the log, in which it alone reads: beside a SnapshotReader whose server
    lets no other connection read in one. Raises SourceError where that connection is lost, rather than reading in another."""

    def keep(self, lock: str, seconds: float) -> LogMark | str:
        """Open a snapshot, kept until `close`; return its exact place, or why there is none at this moment: it may be tried
        again. `lock`: the job's `[load] lock`, taken only where there is no other way, and waited for so long. Raises
        SourceError where there is no way at all."""

    def keeps(self, table: TableSchema) -> bool:
        """Return whether a snapshot holds for the table: some engines have none."""

    def release(self) -> None:
        """Let go of the definitions of tables that were read, which whoever alters them waits for. The snapshot stays."""


@runtime_checkable
class RawReader(Protocol):
    """Gives rows of a SnapshotReader in a form of the database's own, that nobody reads on the way."""

    def raw_form(self, table: TableSchema, columns: Sequence[str]) -> str:
        """Name the form that rows of these columns have in `raw`, by their types in the snapshot that is open; "" where
        there is none.

        A row of a form means the same to every RawLoader that uses the same name.
        """

    def raw(self, table: TableSchema, columns: Sequence[str], bounds: Bounds) -> Generator[bytes, None, int]:
        """Yield the rows that `lines` gives, in that form: one stream from its beginning to its end. Returns how many
        rows the server says they are.

        The stream comes in blocks of about 1 MB that are cut anywhere, nothing buffered beyond.
        """


@runtime_checkable
class WaryReader(Protocol):
    """Knows of values of a SnapshotReader that say nothing without something that is in no row."""

    def refuse_loose_ends(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> None:
        """Check the rows that `lines` would give now, in the same snapshot. Raises SourceError with the key of one that
        `rules` do not accept.
        """


@runtime_checkable
class HashingSnapshot(Protocol):
    """Has the source's server make fingerprints of its rows (rows/fingerprint.py), beside a SnapshotReader."""

    @property
    def hashings(self) -> frozenset[Hashing]:
        """The ways in which this kind of server can make them."""

    def fingerprint(
        self, table: TableSchema, columns: Sequence[Hashed], bounds: Bounds, hashing: Hashing
    ) -> Fingerprint | None:
        """Sum up the rows that `lines` gives; None where this server cannot."""


@runtime_checkable
class ComputingReader(Protocol):
    """Lets a SnapshotReader evaluate the expressions of the source's computed columns; an ability that not all have."""

    def compute(
        self, table: TableSchema, inputs: Sequence[str], columns: Sequence[str], rows: Sequence[Row], rules: ValueRules
    ) -> Iterator[bytes]:
        """Yield lines of `inputs` and `columns` for rows (source column -> text form) that have `inputs` and the
        primary key. No snapshot has to be open. Rows that the source can say nothing of are left out. Raises
        SourceError.
        """
