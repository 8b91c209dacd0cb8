"""Read what a trail has for a replica of it: bytes of its published files, from where the replica is on.

It goes by the published end, as every reader does. What a writer left behind that died, and nobody adopted, is not sent.
Nothing is written here; who keeps the trail until the replica has it is the registration (`retention.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import SourceUnavailable, StateError, TrailError
from anabranch.trail import identity as identities
from anabranch.trail import published
from anabranch.trail.format import (
    PREFIX_LENGTH,
    Frame,
    FrameKind,
    SegmentName,
    decode_prefix,
    ends_before,
    head_is_intact,
    segment_names,
)
from anabranch.trail.history import read
from anabranch.trail.identity import Identity
from anabranch.trail.published import Record
from anabranch.trail.replica import ANEW, Held
from anabranch.trail.segment import TRAILER_LENGTH, TRAILER_MAGIC, SegmentReader
from anabranch.trail.storage import LocalStorage

PIECE = 256 * 1024
AHEAD = (
    "the trail was put back from a backup, or the replica is another one's: begin the replica anew in an empty directory,"
    " and load again what was applied from it"
)


OLDER = "start what writes the trail: it finds the end in the files; this goes on by itself then"


@dataclass(frozen=True, slots=True)
class HistoryPiece:
    """Bytes of the schema history. `is_anew`: of one that takes the place of what the replica has."""

    offset: int
    data: bytes
    is_anew: bool = False


@dataclass(frozen=True, slots=True)
class SegmentPiece:
    """Bytes of a segment, at most PIECE."""

    name: SegmentName
    offset: int
    data: bytes


Piece = HistoryPiece | SegmentPiece


class Outgoing:
    """Reads one trail for one replica. Not for several threads.

    Delivery: every published byte behind what the replica has, once, in order."""

    def __init__(self, directory: str | Path) -> None:
        """Open the trail. Raises TrailError where there is none."""
        self.directory = Path(directory)
        self._storage = LocalStorage(directory)
        if identities.load(self._storage) is None:
            raise TrailError(f"there is no trail in {directory}", hint="start what writes it first")
        self._cell = published.opened(self._storage)
        self._segment: SegmentReader | None = None
        self._name: SegmentName | None = None
        self._offset, self._number = 0, 0  # where it is in the open segment; the last one that is behind it
        self._writer = 0  # who had published when the open segment was opened
        self._history, self._history_anew = 0, False

    @property
    def identity(self) -> Identity:
        found = identities.load(self._storage)
        assert found is not None
        return found

    def record(self) -> Record:
        """Return the published end."""
        return published.read_whole(self._cell, self._storage.path(published.FILE))

    def start(self, held: Held) -> None:
        """Go on behind what a replica has. Raises StateError for one that is ahead of this trail or is of another one,
        TrailError where something that it needs was dropped or packed, SourceUnavailable where the files have all that it has
        and the published end is older: it is not made durable, and is found again by whoever writes the trail."""
        self.close_segment()
        record = self.record()
        self._writer = record.writer
        if self._is_end_older(held, record):
            what = (
                f"the trail {self.directory} is published up to sequence {record.sequence}, its files and the replica"
            )
            raise SourceUnavailable(f"{what} go on behind it (segment {held.file}, byte {held.length})", hint=OLDER)
        names = [name for name in segment_names(self._storage.names()) if name.number <= record.number]
        if held.sequence > record.sequence:
            raise StateError(
                f"the replica has come to sequence {held.sequence}, the trail {self.directory} only to {record.sequence}",
                hint=AHEAD,
            )
        self._start_history(held, record)
        if not held.file:
            self._number = 0
            return
        name = SegmentName.parse(held.file)
        assert name
        ours = next((one for one in names if one.number == name.number), None)
        following = next((one for one in names if one.number > name.number), None)
        if ours == name:
            self._go_on(ours, held, self._limit(ours, record))
            return
        if ours and (ours.epoch, ours.next, ours.fragments) != (name.epoch, name.next, name.fragments):
            raise StateError(f"the replica has segment {name}, the trail {self.directory} has {ours}", hint=AHEAD)
        if following is None:
            raise StateError(f"the replica has segment {name}, the trail {self.directory} none", hint=AHEAD)
        if following.next != held.sequence + 1 or following.fragments:
            what = f"segment {name} was packed or dropped" if ours is None or ours.packed else f"segment {name} differs"
            raise TrailError(
                f"the replica ends at sequence {held.sequence}, the trail {self.directory} goes on with {following.next}:"
                f" {what} before the replica had all of it",
                hint=ANEW,
            )
        self._number = name.number

    def pieces(self) -> Iterator[Piece]:
        """Yield what was published since, the schema history first. A piece is sent before the next one is asked for."""
        record = self.record()
        self._follow_writer(record)
        yield from self._history_pieces(record)
        while self._advance(record):
            assert self._segment and self._name
            limit = self._limit(self._name, record)
            while self._offset < limit:
                data = self._segment.read(self._offset, min(PIECE, limit - self._offset))
                if not data:
                    raise self._segment.damage(self._offset, f"the file ends here, {limit} bytes were published")
                yield SegmentPiece(self._name, self._offset, data)
                self._offset += len(data)
            if self._name.number >= record.number:
                return
            self._number = self._name.number
            self.close_segment()

    def first(self) -> int:
        """Return the first sequence that is still held, or will be."""
        names = segment_names(self._storage.names())
        return names[0].first_whole if names else self.record().sequence + 1

    def behind(self, held: Held) -> int:
        """Return the sequence that a replica has behind it. An empty one may begin where the trail begins now; so may one that
        has only the rest of the large transaction in which the trail's first segment begins."""
        names = segment_names(self._storage.names())
        name = SegmentName.parse(held.file)
        is_rest = bool(names) and names[0] == name and held.sequence == names[0].next - 1
        return self.first() - 1 if name is None or is_rest else held.sequence

    def bytes_left(self, held: Held) -> int:
        """Return about how many bytes of segments a replica has not got."""
        name = SegmentName.parse(held.file)
        number, left = (name.number, -held.length) if name else (0, 0)
        for one in segment_names(self._storage.names()):
            if one.number < number:
                continue
            try:
                file = self._storage.open(str(one))
            except FileNotFoundError:  # packed or dropped since the look
                continue
            left += file.size()
            file.close()
        return max(0, left)

    def close(self) -> None:
        self.close_segment()
        self._cell.close()

    def __enter__(self) -> Outgoing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close_segment(self) -> None:
        if self._segment:
            self._segment.close()
        self._segment, self._name, self._offset = None, None, 0

    # --- inside -----------------------------------------------------------------------------------------------------

    def _follow_writer(self, record: Record) -> None:
        """Open the segment again where another writer goes on: a copy may have its name, and a former writer that wakes up
        writes into the file that we have open. Raises SourceUnavailable where the name is gone."""
        if record.writer == self._writer:
            return
        self._writer = record.writer
        if self._segment and self._name:
            former, name = self._segment, self._name
            try:
                self._segment = SegmentReader(self._storage, str(name))
            except FileNotFoundError:
                self.close_segment()
                what = f"segment {name} of the trail {self.directory} was packed or dropped while it was sent"
                raise SourceUnavailable(what, hint="this goes on by itself, behind what the replica has") from None
            former.close()

    def _is_end_older(self, held: Held, record: Record) -> bool:
        """Return whether the replica is behind the published end, and this trail's files have what it has."""
        name = SegmentName.parse(held.file)
        if name is None or (name.number, held.length) <= (record.number, record.end):
            return False
        if held.file not in self._storage.names():
            return False
        try:
            segment = SegmentReader(self._storage, held.file)
        except FileNotFoundError:
            return False
        try:
            offset, prefix = held.last
            frame = _frame_at(segment, offset, segment.size())
            found = segment.read(0, PREFIX_LENGTH).hex(), segment.read(offset, PREFIX_LENGTH).hex()
            is_same = frame is not None and offset + frame.length == held.length and found == (held.first, prefix)
            return is_same or not held.length
        finally:
            segment.close()

    def _start_history(self, held: Held, record: Record) -> None:
        """Go on behind the replica's history if it is the beginning of this one, else begin with the first byte."""
        data = read(self._storage)[: record.history]
        is_ours = held.history <= len(data) and zlib.crc32(memoryview(data)[: held.history]) == held.history_sum
        self._history, self._history_anew = (held.history, False) if is_ours else (0, True)

    def _history_pieces(self, record: Record) -> Iterator[Piece]:
        if self._history >= record.history and not self._history_anew:
            return
        data = read(self._storage)[: record.history]
        while self._history < len(data):
            piece = data[self._history : self._history + PIECE]
            yield HistoryPiece(self._history, piece, self._history_anew)
            self._history += len(piece)
        self._history_anew = False

    def _go_on(self, name: SegmentName, held: Held, limit: int) -> None:
        segment = SegmentReader(self._storage, str(name))
        offset, prefix = held.last
        frames = segment.read(0, PREFIX_LENGTH).hex(), segment.read(offset, PREFIX_LENGTH).hex()
        is_same = frames == (held.first, prefix) or not held.length
        if held.length > limit or not is_same:
            segment.close()
            what = f"ends at byte {limit}, before that of" if held.length > limit else "has other frames than"
            raise StateError(f"segment {name} of the trail {self.directory} {what} the replica", hint=AHEAD)
        self._segment, self._name, self._offset = segment, name, held.length
        self._number = name.number - 1

    def _advance(self, record: Record) -> bool:
        """Open the next published segment unless one is open. Returns whether one is."""
        while self._segment is None:
            names = segment_names(self._storage.names())
            name = next((one for one in names if self._number < one.number <= record.number), None)
            if name is None:
                return False
            try:
                self._segment, self._name, self._offset = SegmentReader(self._storage, str(name)), name, 0
            except FileNotFoundError:  # packed or dropped between the look and the opening
                continue
        return True

    def _limit(self, name: SegmentName, record: Record) -> int:
        """Return up to where a segment is published."""
        if name.number == record.number:
            return record.end
        before = ends_before(segment_names(self._storage.names()), name)
        if self._segment is not None:
            return _whole_end(self._segment, before)
        segment = SegmentReader(self._storage, str(name))
        try:
            return _whole_end(segment, before)
        finally:
            segment.close()


def _whole_end(segment: SegmentReader, before: int | None) -> int:
    """Return up to where a segment is good that nobody writes any more: to its end if it is sealed, else to where its writer
    died; both without what was not adopted (`ends_before`). Prefixes say so, whatever the frames hold."""
    size, at = segment.size(), 0
    is_sealed = _is_sealed(segment, size)
    if is_sealed and before is None:
        return size
    while (frame := _frame_at(segment, at, size)) is not None:
        if before is not None and frame.kind == FrameKind.CHUNK and frame.last >= before:
            return at
        at += frame.length
    return size if is_sealed else at


def _is_sealed(segment: SegmentReader, size: int) -> bool:
    trailer = segment.read(max(0, size - TRAILER_LENGTH), TRAILER_LENGTH)
    if len(trailer) < TRAILER_LENGTH or not trailer.endswith(TRAILER_MAGIC):
        return False
    at = int.from_bytes(trailer[:8], "little")
    frame = _frame_at(segment, at, size)
    return frame is not None and frame.kind == FrameKind.FOOTER and at + frame.length + TRAILER_LENGTH == size


def _frame_at(segment: SegmentReader, offset: int, size: int) -> Frame | None:
    """Return the frame at an offset; None where no whole one is."""
    found = decode_prefix(segment.read(offset, PREFIX_LENGTH))
    if found is None or found[0].length > size - offset:
        return None
    data = segment.read(offset, PREFIX_LENGTH + found[0].head_length)
    return found[0] if head_is_intact(data, *found) else None
