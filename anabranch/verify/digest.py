"""Order-independent digests: rows fall into buckets by their key, a bucket is a count and a sum of row digests.

A sum, not an XOR: equal rows do not cancel each other (pitfall 48). Sums of different pieces add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from zlib import crc32

from anabranch.abc import SourceConnector, TargetConnector, ValueRules
from anabranch.rows.net import TargetTable
from anabranch.spark.where import read_columns
from anabranch.verify.canonical import Canonical
from anabranch.verify.plan import Piece

BUCKETS = 4096
DIGEST_BYTES = 16
MODULUS = 1 << (8 * DIGEST_BYTES)

Sums = dict[int, tuple[int, int]]
"""Bucket -> number of rows, sum of their digests."""
Key = Callable[[bytes], bytes]


def key_of(table: TargetTable) -> Key:
    """The key's cells of a row; a table without a key is its own."""
    places = [table.columns.index(name) for name in table.key]
    if not places:
        return lambda row: row
    if places == [0]:
        return lambda row: row.partition(b"\t")[0]
    return lambda row: b"\t".join([cells[place] for cells in (row.split(b"\t"),) for place in places])


def bucket_of(key: bytes) -> int:
    return crc32(key) % BUCKETS


def sums(rows: Iterable[bytes], key: Key, into: Sums) -> None:
    """Add rows to their buckets."""
    for row in rows:
        bucket = crc32(key(row)) % BUCKETS
        count, total = into.get(bucket, (0, 0))
        digest = int.from_bytes(blake2b(row, digest_size=DIGEST_BYTES).digest())
        into[bucket] = count + 1, (total + digest) % MODULUS


def add(one: Sums, other: Mapping[int, tuple[int, int]]) -> None:
    """Add the buckets of another piece."""
    for bucket, (count, total) in other.items():
        rows, sum_ = one.get(bucket, (0, 0))
        one[bucket] = rows + count, (sum_ + total) % MODULUS


@dataclass(frozen=True)
class Reading:
    """Reads a piece of either side (spark/pieces.py); what is done with its rows is for a subclass."""

    source: SourceConnector
    target: TargetConnector
    rules: ValueRules
    expected_identity: str = ""

    @contextmanager
    def read(self, piece: Piece) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        one = piece.one
        if piece.bounds is None:
            with closing(self.target.reader(self.rules)) as reader:
                yield b"", reader.lines(one.table, piece.condition)
        else:
            with closing(self.source.snapshot(self.expected_identity)) as snapshot:
                columns = read_columns(one.table, one.filter)
                yield b"", snapshot.lines(one.schema, columns, piece.bounds, self.rules)

    def rows(self, piece: Piece, blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
        canonical = Canonical(piece.one.table, self.rules)
        return (canonical.rows(block) for block in blocks)


@dataclass(frozen=True)
class Summing(Reading):
    """The outcome of a piece is its Sums."""

    def finish(self, piece: Piece, header: bytes, blocks: Iterator[bytes]) -> Sums:
        found: Sums = {}
        key = key_of(piece.one.table)
        for rows in self.rows(piece, blocks):
            sums(rows, key, found)
        return found
