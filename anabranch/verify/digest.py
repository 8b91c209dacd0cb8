"""Order-independent digests: rows fall into buckets by their key, a bucket is a count and a sum of row digests.

A sum, not an XOR: equal rows do not cancel each other (pitfall 48). Sums of different pieces add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Self
from zlib import crc32

import numpy as np

from anabranch.contracts import (
    ReadTarget,
    SharedReader,
    SnapshotReader,
    SourceConnector,
    TargetReader,
    TellingReader,
    ValueRules,
)
from anabranch.errors import AnabranchError, Retry, SourceError, TargetError
from anabranch.rows import compiled
from anabranch.rows.left_out import as_lines
from anabranch.rows.lines import escaped_line
from anabranch.rows.net import TargetTable
from anabranch.spark.where import read_columns
from anabranch.verify.canonical import Canonical
from anabranch.verify.plan import VerifyPiece, VerifyTable

BUCKETS = 4096
DIGEST_BYTES = 16
WORD = np.dtype("<u8")

GONE = "the table was emptied or altered since the snapshot, or the snapshot is gone"

Key = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Shared:
    """Snapshots of both ends at one position of the trail: what others need to read in each, "" where one connection alone
    reads in it (alone.py)."""

    source: str
    target: str
    position: str


def key_of(table: TargetTable) -> Key:
    """Return the key's cells of a row; a table without a key is its own."""
    places = [table.columns.index(name) for name in table.key]
    if not places:
        return lambda row: row
    if places == [0]:
        return lambda row: row.partition(b"\t")[0]
    return lambda row: b"\t".join([cells[place] for cells in (row.split(b"\t"),) for place in places])


def bucket_of(key: bytes) -> int:
    return crc32(key) % BUCKETS


class Sums:
    """Sums of a bag of rows, per bucket: how many there are, and the sum of their digests, word by word modulo 2**64.

    `rows` int64[BUCKETS], `digests` uint64[BUCKETS, 2]. Pickled it has the buckets with rows alone."""

    def __init__(self) -> None:
        self.rows = np.zeros(BUCKETS, np.int64)
        self.digests = np.zeros((BUCKETS, DIGEST_BYTES // WORD.itemsize), WORD)

    def add_rows(self, rows: Sequence[bytes], key: Key) -> None:
        buckets = np.fromiter(map(crc32, map(key, rows)), np.uint32, len(rows)) % BUCKETS
        digests = b"".join([blake2b(row, digest_size=DIGEST_BYTES).digest() for row in rows])
        self.rows += np.bincount(buckets, minlength=BUCKETS)
        for word, values in enumerate(np.frombuffer(digests, WORD).reshape(-1, self.digests.shape[1]).T):
            np.add.at(self.digests[:, word], buckets, values)

    @classmethod
    def of_lines(cls, blocks: Iterable[bytes], table: TargetTable) -> Sums:
        """Sum up the rows of whole lines as `add_rows` does, by compiled code where it is installed."""
        found = cls()
        if compiled.NATIVE is None:
            for block in blocks:
                found.add_rows(block.split(b"\n")[:-1], key_of(table))
            return found
        sums = compiled.NATIVE.RowSums([table.columns.index(name) for name in table.key], BUCKETS)
        for block in blocks:
            sums.add(block)
        rows, digests = sums.sums()
        found.rows += np.frombuffer(rows, "<i8")
        found.digests += np.frombuffer(digests, WORD).reshape(BUCKETS, -1)
        return found

    def add(self, other: Sums) -> None:
        """Add the rows of another piece."""
        self.rows += other.rows
        self.digests += other.digests

    @property
    def digest(self) -> str:
        """Return the sum of all buckets, as text."""
        words = self.digests.sum(axis=0, dtype=np.uint64)
        return "blake2b:" + "".join(f"{int(word):016x}" for word in words)

    def differing(self, other: Sums) -> list[int]:
        """Return the buckets that are not equal, in order."""
        differ = (self.rows != other.rows) | (self.digests != other.digests).any(axis=1)
        return [int(bucket) for bucket in np.flatnonzero(differ)]

    def __getstate__(self) -> tuple[Any, Any, Any]:
        filled = np.flatnonzero(self.rows)
        return filled.astype(np.uint16), self.rows[filled], self.digests[filled]

    def __setstate__(self, state: tuple[Any, Any, Any]) -> None:
        self.__init__()  # type: ignore[misc]  # as a new one
        filled, rows, digests = state
        self.rows[filled], self.digests[filled] = rows, digests


@dataclass(frozen=True)
class PieceReading(ABC):
    """Reads a piece of either side (spark/pieces.py); what is done with its rows is for a subclass."""

    source: SourceConnector
    target: ReadTarget
    rules: ValueRules
    expected_identity: str = ""
    shared: Shared | None = field(default=None, kw_only=True)  # in which it is read; None: the ends as they are now
    kept: dict[str, Any] | None = field(default=None, compare=False, kw_only=True)  # what a task has open, by its end

    @contextmanager
    def lasting(self) -> Iterator[Self]:
        """Keep one connection to each end for all pieces of a task."""
        kept: dict[str, Any] = {}
        try:
            yield replace(self, kept=kept)
        finally:
            for one in kept.values():
                one.close()

    @contextmanager
    def read(self, piece: VerifyPiece) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        one = piece.one
        if piece.bounds is None:
            with self.reader() as reader:
                yield b"", reader.lines(one.table, piece.place)
        elif piece.place:
            with closing(self.target.reader(self.rules)) as reader, self.snapshot(one) as snapshot:
                yield b"", self._of_keys(piece, reader, snapshot)
        else:
            with self.snapshot(one) as snapshot:
                columns = read_columns(one.table, one.filter)
                yield b"", as_lines(snapshot.lines(one.schema, columns, piece.bounds, self.rules), columns)

    def _of_keys(self, piece: VerifyPiece, reader: TargetReader, snapshot: SnapshotReader) -> Iterator[bytes]:
        """Yield the source's rows of whose keys a piece of the target tells."""
        assert isinstance(reader, SharedReader) and isinstance(reader, TellingReader), "so it was planned"
        if self.shared is not None:
            reader.open_shared(self.shared.target)
        one, columns = piece.one, read_columns(piece.one.table, piece.one.filter)
        canonical, key = Canonical(one.table), key_of(one.table)
        sources = dict(zip(one.table.columns, one.table.source_columns, strict=True))
        names = [sources[name] for name in one.table.key]
        for keys in reader.keys(one.table, piece.place):
            wanted = {escaped_line(each)[:-1] for each in keys}
            found = snapshot.lines_of(
                one.schema, columns, [dict(zip(names, each, strict=True)) for each in keys], self.rules
            )
            for block in as_lines(found, columns):  # a canonical form is no line any more: keys alone are taken from it
                lines = zip(block.split(b"\n")[:-1], canonical.rows(block), strict=True)
                yield b"".join([line + b"\n" for line, row in lines if key(row) in wanted])

    @contextmanager
    def reader(self) -> Iterator[TargetReader]:
        with self._open("target", lambda: self.target.reader(self.rules)) as reader:
            if self.shared is None:
                yield reader
                return
            if not self.shared.target:
                yield reader
                reader.release()
                return
            if not reader.open_shared(self.shared.target):
                raise TargetError(GONE)
            yield reader
            reader.leave()  # whoever empties the table waits for this transaction

    @contextmanager
    def snapshot(self, one: VerifyTable) -> Iterator[SnapshotReader]:
        with self._open("source", lambda: self.source.snapshot(self.expected_identity)) as snapshot:
            if (
                self.shared is not None
                and self.shared.source
                and snapshot.open_shared(one.schema, self.shared.source) is None
            ):
                raise SourceError(GONE, table=str(one.table.source))
            yield snapshot
            if self.shared is not None and not self.shared.source:
                snapshot.release()

    @contextmanager
    def _open(self, end: str, made: Callable[[], Any]) -> Iterator[Any]:
        """Open an end, or reuse the kept connection. One that failed is not reused, unless it alone reads in the snapshot and
        that is still valid."""
        if self.kept is None:
            with closing(made()) as own:
                yield own
            return
        found = self.kept[end] = self.kept.get(end) or made()
        try:
            yield found
        except BaseException as error:  # whatever it was, it is passed on
            if not self._stands(end, found, error):
                self.kept.pop(end).close()
            raise

    def _stands(self, end: str, opened: Any, error: BaseException) -> bool:
        """Return whether an end's only snapshot survives an error: then a table was emptied or altered."""
        if self.shared is None or getattr(self.shared, end) or getattr(error, "retry", None) is not Retry.TIMED:
            return False
        try:
            opened.release()
        except AnabranchError:
            return False
        return True

    @abstractmethod
    def finish(self, piece: VerifyPiece, header: bytes, blocks: Iterator[bytes]) -> Any: ...

    def rows(self, piece: VerifyPiece, blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
        canonical = Canonical(piece.one.table)
        return (canonical.rows(block) for block in blocks)


@dataclass(frozen=True)
class Summing(PieceReading):
    """The outcome of a piece is its Sums."""

    def finish(self, piece: VerifyPiece, header: bytes, blocks: Iterator[bytes]) -> Sums:
        table = piece.one.table
        canonical = Canonical(table)
        return Sums.of_lines(map(canonical.block, blocks), table)
