"""Reading the trail for an epoch: chunks in bounded groups, or one source transaction after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from anabranch.model.position import Position
from anabranch.rows.appended import Committed
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk, Part
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.reader import TrailReader

# Row images, and their bytes as Arrow, planned together: bounds memory, not the size of an epoch.
GROUP_ROWS, GROUP_BYTES = 100_000, 32 << 20


@dataclass(frozen=True)
class SourceTransaction:
    """One source transaction. `chunks` reads it, as often as needed; small transactions share a chunk."""

    sequence: int
    position: Position
    commit_time: int
    chunks: Callable[[], Iterator[Chunk]]


@dataclass(frozen=True)
class Feed:
    """The transactions with after < sequence <= upto."""

    trail: TrailReader
    after: int
    upto: int

    @cached_property
    def refs(self) -> list[ChunkRef]:
        """Return the references to the chunks. They are looked up once: finding them costs a read for every chunk."""
        return self.trail.descriptors(self.after, self.upto)

    def groups(self) -> Iterator[list[Chunk]]:
        for refs in grouped(self.refs):
            yield [self.trail.load(ref) for ref in refs]

    def some(self, most: int) -> Iterator[Chunk]:
        """Return at most so many chunks, spread evenly over the feed."""
        step = max(1, -(-len(self.refs) // most))
        return (self.trail.load(ref) for ref in self.refs[::step])

    def transactions(self) -> Iterator[SourceTransaction]:
        fragments: list[ChunkRef] = []
        for ref in self.refs:
            if ref.part is Part.WHOLE:
                yield from each(self.trail.load(ref))
                continue
            fragments.append(ref)
            if ref.part is Part.LAST:
                yield self._large(fragments)
                fragments = []

    def stretches(self) -> Iterator[list[Chunk] | SourceTransaction]:
        """Yield consecutive chunks of whole transactions in bounded groups, and each large transaction alone."""
        for is_whole, refs in groupby(self.refs, key=lambda ref: ref.part is Part.WHOLE):
            if is_whole:
                yield from ([self.trail.load(ref) for ref in some] for some in grouped(refs))
                continue
            fragments: list[ChunkRef] = []
            for ref in refs:
                fragments.append(ref)
                if ref.part is Part.LAST:
                    yield self._large(fragments)
                    fragments = []

    def end(self) -> tuple[Position, int]:
        """Return position and commit time of the last transaction."""
        ref = self.refs[-1]
        if ref.last_sequence <= self.upto:
            return ref.last_position, ref.last_commit_time
        last = list(each(self.trail.load(ref)))[-1]
        return last.position, last.commit_time

    def large(self, sequence: int) -> Committed:
        """Return a large transaction of this feed as its last fragment tells it."""
        last = next(ref for ref in self.refs if ref.part is Part.LAST and ref.last_sequence == sequence)
        (row,) = self.trail.transactions(last).to_pylist()
        return Committed(sequence, row["native"], row["commit_time"], row["gtid"], row["origin"])

    def _large(self, fragments: Sequence[ChunkRef]) -> SourceTransaction:
        ref, parts = fragments[-1], tuple(fragments)
        return SourceTransaction(
            ref.last_sequence,
            ref.last_position,
            ref.last_commit_time,
            lambda: (self.trail.load(part) for part in parts),
        )


def grouped(refs: Iterable[ChunkRef]) -> Iterator[list[ChunkRef]]:
    """Group consecutive chunks that are planned together: at least one, and no more when they have many rows or bytes."""
    group: list[ChunkRef] = []
    rows = size = 0
    for ref in refs:
        if group and size + ref.bytes > GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
        group.append(ref)
        rows, size = rows + ref.cost, size + ref.bytes
        if rows >= GROUP_ROWS:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def each(chunk: Chunk) -> Iterator[SourceTransaction]:
    natives = chunk.transactions.column("native").to_pylist()
    times = chunk.transactions.column("commit_time").to_pylist()
    for place, (native, commit_time) in enumerate(zip(natives, times, strict=True)):
        sequence = chunk.first_sequence + place
        yield SourceTransaction(sequence, Position(sequence, native), commit_time, lambda: iter((chunk,)))


def altering_at(trail: TrailReader, sequence: int) -> Iterator[Barrier]:
    """Yield what brings in the next definition of a table that goes on, in this transaction."""
    for chunks in Feed(trail, sequence - 1, sequence).groups():
        found = [(chunk.first_sequence + barrier.tx, barrier) for chunk in chunks for barrier in chunk.barriers]
        yield from (one for at, one in found if at == sequence and one.kind is BarrierKind.ALTER and one.schema)


@dataclass(frozen=True, slots=True)
class Stop:
    """A part of the way: the transactions after `after` up to `before`; then comes one that is left out, or the end."""

    after: int
    before: int
    skipped: int | None = None


def stops(skipped: Iterable[int], after: int, upto: int) -> Iterator[Stop]:
    """Yield the parts of the way from `after` to `upto`, around the transactions that are left out."""
    for sequence in sorted(one for one in skipped if after < one <= upto):
        yield Stop(after, sequence - 1, sequence)
        after = sequence
    if after < upto:
        yield Stop(after, upto)
