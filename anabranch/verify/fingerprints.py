"""Tables that are equal by their fingerprints: no row of them has to be compared, or to leave a server that sums up its own.

Where fingerprints differ, or cannot be had, rows are read as ever: nothing that differs is told from here. What does not live
here: what a fingerprint is (rows/fingerprint.py).
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from anabranch.contracts import HashingReader, HashingSnapshot, ReadTarget, SourceConnector, ValueRules
from anabranch.model.at_target import CanonicalForm
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.rows import compiled
from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing, are_hashed, of_lines
from anabranch.rows.left_out import as_lines
from anabranch.verify.canonical import Canonical, form_of
from anabranch.verify.digest import PieceReading
from anabranch.verify.plan import VerifyPiece, VerifyTable


@dataclass(frozen=True, slots=True)
class Way:
    """The way in which both ends make fingerprints. `reads_target`: compiled code makes those of the target, of its lines."""

    hashing: Hashing
    reads_target: bool = False


def agreed(source: SourceConnector, target: ReadTarget, rules: ValueRules) -> Way | None:
    """Return the way in which both ends can make fingerprints; None where there is none.

    In place of one server, compiled code can make those of its lines, where the other server has LOOKUP3: between a
    PostgreSQL and a MySQL the servers take longer for SHA-256 than for sending the rows (decision 427).
    """
    with closing(target.reader(rules)) as reader, closing(source.snapshot()) as snapshot:
        here = reader.hashings if isinstance(reader, HashingReader) else frozenset()
        there = snapshot.hashings if isinstance(snapshot, HashingSnapshot) else frozenset()
    if compiled.NATIVE is not None:
        if Hashing.LOOKUP3 in there and here and Hashing.LOOKUP3 not in here:
            return Way(Hashing.LOOKUP3, reads_target=True)
        there |= {Hashing.LOOKUP3}
    return next((Way(one) for one in Hashing if one in here & there), None)


def possible(tables: Sequence[VerifyTable], way: Way | None) -> list[VerifyTable]:
    """Return the tables that both ends can sum up in this way."""
    return [
        one
        for one in tables
        if way is not None and one.filter is None and not one.is_shared and _are_hashed(one.table.types, way)
    ]


def _are_hashed(types: Sequence[LogicalType], way: Way) -> bool:
    """Return whether rows have a fingerprint. The source's server hashes what it prints: where lines of the target are
    read, each value has to be printed so there, too."""
    is_alike = not way.reads_target or all(form_of(type) is CanonicalForm.AS_IT_IS for type in types)
    return is_alike and are_hashed(types, way.hashing)


@dataclass(frozen=True)
class Fingerprinting(PieceReading):
    """The outcome of a piece is its Fingerprint, or None."""

    way: Way = Way(Hashing.LOOKUP3)

    @contextmanager
    def read(self, piece: VerifyPiece) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        """Yield a piece's fingerprint as the header, where a server makes it, else its lines."""
        one = piece.one
        if piece.bounds is None:
            with self.reader() as reader:
                if self.way.reads_target:
                    yield b"", reader.lines(one.table, piece.place)
                    return
                assert isinstance(reader, HashingReader), "possible() has asked"
                found = reader.fingerprint(one.table, _target_columns(one), piece.place, self.way.hashing)
                yield pickle.dumps(found), iter(())
            return
        with self.snapshot(one) as snapshot:
            if isinstance(snapshot, HashingSnapshot) and self.way.hashing in snapshot.hashings:
                found = snapshot.fingerprint(one.schema, _source_columns(one), piece.bounds, self.way.hashing)
                yield pickle.dumps(found), iter(())
            else:
                columns = one.table.source_columns
                yield b"", as_lines(snapshot.lines(one.schema, columns, piece.bounds, self.rules), columns)

    def finish(self, piece: VerifyPiece, header: bytes, blocks: Iterator[bytes]) -> Fingerprint | None:
        if header:
            found: Fingerprint | None = pickle.loads(header)
            return found
        canonical = Canonical(piece.one.table)
        return of_lines(map(canonical.block, blocks), _target_columns(piece.one))


@dataclass
class Both:
    """Fingerprints of one table, as its pieces come; `pieces` are still to come."""

    pieces: int
    _found: dict[bool, Fingerprint | None] = field(default_factory=lambda: dict.fromkeys((True, False), Fingerprint()))

    def add(self, is_source: bool, found: Fingerprint | None) -> None:
        so_far = self._found[is_source]
        self._found[is_source] = so_far + found if so_far is not None and found is not None else None
        self.pieces -= 1

    @property
    def digest(self) -> str:
        """Return the sum of the source, as text."""
        source = self._found[True]
        return "" if source is None else f"fingerprint:{source.sum:x}"

    @property
    def rows(self) -> int | None:
        """The number of rows at each end, if both fingerprints are equal; else None."""
        source, target = self._found[True], self._found[False]
        return source.rows if source is not None and source == target and not self.pieces else None


def waiting(pieces: Sequence[VerifyPiece]) -> dict[TableId, Both]:
    """Return an empty result for each table of these pieces."""
    return {table: Both(count) for table, count in Counter(piece.one.table.source for piece in pieces).items()}


def _target_columns(one: VerifyTable) -> list[Hashed]:
    return _hashed(one, one.table.columns)


def _source_columns(one: VerifyTable) -> list[Hashed]:
    return _hashed(one, one.table.source_columns)


def _hashed(one: VerifyTable, names: Sequence[str]) -> list[Hashed]:
    """Describe the columns for both ends: whether a value may be NULL is the source's word."""
    may_be_null = {column.name: column.nullable for column in one.schema.columns}
    return [
        Hashed(name, type, may_be_null[source])
        for name, type, source in zip(names, one.table.types, one.table.source_columns, strict=True)
    ]
