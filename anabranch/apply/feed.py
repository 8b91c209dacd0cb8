"""Reading the trail for an epoch: chunks in bounded groups, or one source transaction after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from anabranch.model.position import Position
from anabranch.rows.chunk import Chunk, Part
from anabranch.trail.reader import ChunkRef, TrailReader, rows_after, rows_until

GROUP_ROWS = 100_000  # row images planned together: bounds memory, not the size of an epoch


@dataclass(frozen=True)
class SourceTransaction:
    """One source transaction: `chunks` reads it, as often as needed; small ones share the chunk they come in."""

    sequence: int
    position: Position
    commit_time: int
    chunks: Callable[[], Iterator[Chunk]]


@dataclass(frozen=True)
class Feed:
    """The transactions after sequence `after` up to `last` that `refs` hold."""

    trail: TrailReader
    refs: Sequence[ChunkRef]
    after: int
    last: int

    def groups(self) -> Iterator[list[Chunk]]:
        chunks: list[Chunk] = []
        rows = 0
        for ref in self.refs:
            chunk = self._load(ref)
            if chunk is not None:
                chunks.append(chunk)
                rows += chunk.row_count
            if rows >= GROUP_ROWS:
                yield chunks
                chunks, rows = [], 0
        if chunks:
            yield chunks

    def transactions(self) -> Iterator[SourceTransaction]:
        fragments: list[ChunkRef] = []
        for ref in self.refs:
            if ref.part is Part.WHOLE:
                chunk = self._load(ref)
                if chunk is not None:
                    yield from _each(chunk)
                continue
            fragments.append(ref)
            if ref.part is Part.LAST:
                if self.after < ref.last_sequence <= self.last:
                    yield self._large(fragments)
                fragments = []

    def end(self) -> tuple[Position, int]:
        """Position and commit time of the last transaction."""
        ref = next(r for r in self.refs if r.last_sequence >= self.last and r.part is not Part.FRAGMENT)
        if ref.last_sequence == self.last:
            return Position(self.last, ref.last_native), ref.last_commit_time
        chunk = self._load(ref)
        assert chunk is not None
        one = list(_each(chunk))[-1]
        return one.position, one.commit_time

    def _large(self, fragments: Sequence[ChunkRef]) -> SourceTransaction:
        ref, parts = fragments[-1], tuple(fragments)
        return SourceTransaction(
            ref.last_sequence,
            Position(ref.last_sequence, ref.last_native),
            ref.last_commit_time,
            lambda: (self.trail.load(part) for part in parts),
        )

    def _load(self, ref: ChunkRef) -> Chunk | None:
        if ref.last_sequence <= self.after or ref.first_sequence > self.last:
            return None
        chunk = self.trail.load(ref)
        if ref.first_sequence <= self.after:
            chunk = rows_after(chunk, self.after)
        return rows_until(chunk, self.last) if ref.last_sequence > self.last else chunk


def _each(chunk: Chunk) -> Iterator[SourceTransaction]:
    natives = chunk.transactions.column("native").to_pylist()
    times = chunk.transactions.column("commit_time").to_pylist()
    for place, (native, commit_time) in enumerate(zip(natives, times, strict=True)):
        sequence = chunk.first_sequence + place
        yield SourceTransaction(sequence, Position(sequence, native), commit_time, lambda: iter((chunk,)))
