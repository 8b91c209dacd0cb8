"""Abilities that some connectors have beside the contracts of all: an engine asks with `isinstance`, and does without.

What does not live here: what every source and every target can do (the package itself, `loading.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from anabranch.abc import Bounds, ValueRules
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.model.schema import TableSchema
    from anabranch.model.state import Checkpoint
    from anabranch.rows.fingerprint import Fingerprint, Hashed
    from anabranch.rows.net import TargetTable
    from anabranch.rows.small import SmallTransactions


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
class RawReader(Protocol):
    """Gives rows of a SnapshotReader in a form of the database's own, that nobody reads on the way."""

    def raw_form(self, table: TableSchema, columns: Sequence[str]) -> str:
        """Names the form that rows of these columns have in `raw`, by their types in the snapshot that is open; "" where there
        is none. A row of a form means the same to every RawLoader that names it alike."""

    def raw(self, table: TableSchema, columns: Sequence[str], bounds: Bounds) -> Generator[bytes, None, int]:
        """The rows that `lines` gives, in that form: one stream from its beginning to its end, in blocks of about 1 MB that are
        cut anywhere, nothing buffered beyond. Returns how many rows the server says they are."""


@runtime_checkable
class WaryReader(Protocol):
    """Knows of values of a SnapshotReader that say nothing without something that is in no row."""

    def refuse_loose_ends(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> None:
        """Looks at the rows that `lines` would give now, in the same snapshot. Raises SourceError with the key of one that
        `rules` do not let pass."""


@runtime_checkable
class HashingSnapshot(Protocol):
    """Has the source's server make fingerprints of its rows (rows/fingerprint.py), beside a SnapshotReader."""

    def fingerprint(self, table: TableSchema, columns: Sequence[Hashed], bounds: Bounds) -> Fingerprint | None:
        """Sums up the rows that `lines` gives; None where this server cannot say."""


@runtime_checkable
class PipelinedWriter(Protocol):
    """Lets a Writer carry out many source transactions without waiting for each of them; an ability that not all have."""

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        """From `now` on, each in a target transaction of its own whose first statement moves the checkpoint, one epoch each,
        up to the first one that is refused for any reason. Returns where the checkpoint is then; raises Fenced for another
        owner. What was committed is certain to survive only once a later epoch has been committed by `commit`."""


@runtime_checkable
class RawLoader(Protocol):
    """Lets a Loader take rows as a RawReader gives them."""

    def raw_forms(self, tables: Sequence[TargetTable]) -> Mapping[TableId, str]:
        """Source table -> the form that its target table takes for the columns we write, by their types now, where there is
        one."""

    def load_raw(
        self,
        job: str,
        table: TargetTable,
        generation: int,
        number: int,
        marks: tuple[str, str],
        form: str,
        blocks: Iterable[bytes],
    ) -> int:
        """As `load_chunk`, of one stream of RawReader.raw. RowRefused for whatever the target does not take, also where the
        table takes another form by now, or counts other rows than `blocks` returns: it need not name the row, the same chunk
        as lines does."""


@runtime_checkable
class HashingReader(Protocol):
    """Has the target's server make fingerprints of its rows (rows/fingerprint.py), beside a TargetReader."""

    def fingerprint(self, table: TargetTable, columns: Sequence[Hashed], piece: str) -> Fingerprint | None:
        """Sums up the rows that `lines` gives; None where this server cannot say."""
