"""A segment of a replica while its bytes come, and the walk over its frames that says which transactions are whole.

Only prefixes and checksums of frames are looked at, never what they hold. A packed segment gets its name when it is whole:
before that readers could not tell which of its transactions are published.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.failpoints import reach
from anabranch.rows.chunk import Part
from anabranch.trail.failures import syncing, writing
from anabranch.trail.format import PREFIX_LENGTH, Frame, FrameKind, SegmentName, decode_prefix, head_is_intact
from anabranch.trail.headers import check_segment
from anabranch.trail.published import Record
from anabranch.trail.segment import TRAILER_LENGTH, SegmentReader
from anabranch.trail.storage import LocalStorage, Writable

PART = ".part"  # behind the name of a packed segment that is not whole yet
PIECE = 1 << 20
LARGEST = 1 << 36  # bytes of a frame; a length beyond is damage
AGAIN = "connect again: the bytes are sent once more; if this comes back, check the disk of the trail they come from"
GAP = "begin the replica anew in an empty directory"


class Walk:
    """Follows a trail frame by frame to where its whole transactions end. `place`: what may be published."""

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.place: Record | None = None
        self._fragments = 0

    def enter(self, name: SegmentName, is_first: bool, directory: Path) -> None:
        """Go on in the next segment. Raises TrailError where it does not begin where the former one ended."""
        if is_first:
            self.sequence = name.next - 1
        elif name.next != self.sequence + 1 or name.fragments not in (0, self._fragments):
            raise TrailError(
                f"segment {name} begins at {name.next}, the replica {directory} ends at {self.sequence}", hint=GAP
            )
        self._fragments = name.fragments

    def take(self, segment: SegmentReader, name: SegmentName, offset: int, frame: Frame) -> None:
        """Go over a frame whose checksums are right. Raises TrailCorrupt for one that does not follow."""
        if frame.kind == FrameKind.HEARTBEAT:
            self._publishable(name, offset, frame)
        if frame.kind != FrameKind.CHUNK:
            return
        if frame.first != self.sequence + 1:
            raise segment.damage(offset, f"sequence {frame.first} follows {self.sequence}", AGAIN)
        if frame.part is not Part.WHOLE and not frame.fragment:
            self._fragments = 0
        if frame.part is not Part.WHOLE and frame.fragment != self._fragments:
            what = f"fragment {frame.fragment} follows {self._fragments} fragments of its transaction"
            raise segment.damage(offset, what, AGAIN)
        if frame.part is Part.FRAGMENT:
            self._fragments += 1
            return
        self.sequence, self._fragments = frame.last, 0
        self._publishable(name, offset, frame)

    def _publishable(self, name: SegmentName, offset: int, frame: Frame) -> None:
        if not name.packed:  # the end of a trail is never in a packed segment
            end = offset + frame.length
            self.place = Record(0, name.number, name.epoch, name.next, name.fragments, offset, end, self.sequence)


class CopiedSegment:
    """`length` bytes came, of which `checked` are whole frames; `first`: prefix (hex) of the first one, `last`: offset and
    prefix of the last one."""

    def __init__(self, storage: LocalStorage, name: SegmentName, file: str, writable: Writable) -> None:
        self.name, self.name_text = name, str(name)
        self.length = self.checked = 0
        self.first, self.last = "", (0, "")
        self._storage, self._file, self._writable = storage, file, writable
        self._reader = SegmentReader(storage, file)
        self._is_synced, self._is_sealed, self.is_left = True, False, False

    @classmethod
    def make(cls, storage: LocalStorage, name: SegmentName) -> CopiedSegment:
        """Begin an empty one. Raises StorageFull."""
        file = str(name) + PART * name.packed
        with writing(f"segment {name}"):
            if file in storage.names():  # a former attempt had no room for more than its name
                os.unlink(storage.path(file))
            writable = storage.create(file)
        return cls(storage, name, file, writable)

    @classmethod
    def found(
        cls, storage: LocalStorage, name: SegmentName, file: str, walk: Walk, known: tuple[int, int], is_newest: bool
    ) -> CopiedSegment:
        """Go on with one that is there: whole frames count, and are durable on return. `known`: offsets of the last frame that
        is known to be whole and behind it; 0 and 0 where none is. The newest is cut where frames stop being right: after a
        power failure any of its bytes may be missing. Raises TrailCorrupt for others: they were whole before it was begun."""
        frame, end = known
        found = cls(storage, name, file, storage.reopen(file))
        found.length, found.checked = found._reader.size(), end
        if end:
            check_segment(storage, found._reader, name, is_opened=False)
            found.first = found._reader.read(0, PREFIX_LENGTH).hex()
            found.last = frame, found._reader.read(frame, PREFIX_LENGTH).hex()
        try:
            found._walk_on(walk)
        except TrailCorrupt:
            if not is_newest:
                raise
        if is_newest and found.length > found.checked:
            os.truncate(storage.path(file), found.checked)
            found.length = found.checked
        found._is_synced = False
        found.sync()
        return found

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes. Raises StorageFull: they do not count."""
        self._is_synced = False
        with writing(f"segment {self.name}"):
            reach("trail.replica.bytes")
            self._writable.write_at(self.length, [data])
        self.length += len(data)

    def check(self, walk: Walk) -> None:
        """Check the frames that came since. Raises TrailCorrupt for bytes that are none."""
        self._walk_on(walk)
        rest = self._reader.read(self.checked, PREFIX_LENGTH)
        if len(rest) < PREFIX_LENGTH:
            return
        found = decode_prefix(rest)
        if found and (self.length - self.checked) >= PREFIX_LENGTH + found[0].head_length:
            head = self._reader.read(self.checked, PREFIX_LENGTH + found[0].head_length)
            found = found if head_is_intact(head, *found) else None
        if found is None or found[0].length > LARGEST:
            raise self._reader.damage(self.checked, "a frame must begin here, and its checksum is wrong", AGAIN)

    def leave(self, walk: Walk) -> None:
        """Check that nothing is missing, make it durable, and give a packed one its name. Raises StorageFull: leave again."""
        self.check(walk)
        if self.length - self.checked not in (0, TRAILER_LENGTH * self._is_sealed):
            what = f"{self.length - self.checked} bytes at the end are no frame"
            raise self._reader.damage(self.checked, what, AGAIN)
        self.sync()
        if self._file != self.name_text:
            with writing(f"segment {self.name}"):
                self._storage.rename(self._file, self.name_text)
            self._file = self.name_text
            reach("trail.replica.packed")
        self.is_left = True
        self.close()

    def sync(self) -> None:
        if not self._is_synced:
            with syncing(f"segment {self.name}"):
                self._writable.sync()
            self._is_synced = True

    def close(self) -> None:
        self._reader.close()
        self._writable.close()

    def _walk_on(self, walk: Walk) -> None:
        for offset, frame, _ in self._reader.frames_as_written(self.checked, self.length):
            if not offset:
                check_segment(self._storage, self._reader, self.name, is_opened=False)
                self.first = self._reader.read(0, PREFIX_LENGTH).hex()
            if not self._is_body_whole(offset, frame):
                raise self._reader.damage(offset, "checksum of the frame's body is wrong", AGAIN)
            walk.take(self._reader, self.name, offset, frame)
            self.checked = offset + frame.length
            self.last = offset, self._reader.read(offset, PREFIX_LENGTH).hex()
            self._is_sealed = frame.kind == FrameKind.FOOTER

    def _is_body_whole(self, offset: int, frame: Frame) -> bool:
        """Compare the checksum of a frame's body, in pieces: it may be large."""
        at, end, crc = offset + PREFIX_LENGTH + frame.head_length, offset + frame.length, 0
        while at < end:
            piece = self._reader.read(at, min(PIECE, end - at))
            if not piece:
                return False
            crc, at = zlib.crc32(piece, crc), at + len(piece)
        return crc == frame.body_crc
