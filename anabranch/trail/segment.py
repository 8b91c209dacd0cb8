"""A segment: writing frames one behind the other, and finding frames in it again."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.errors import TrailCorrupt
from anabranch.trail import keys, sealing
from anabranch.trail.format import (
    PREFIX_LENGTH,
    Frame,
    FrameKind,
    SegmentName,
    decode_prefix,
    encode_prefix,
    head_is_intact,
    to_json,
)
from anabranch.trail.storage import Data, Readable, Storage, Writable

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa

    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.rows.chunk import Chunk, TableRows
    from anabranch.trail.codec import TableFrame
    from anabranch.trail.sealing import Seal

_TRAILER = struct.Struct("<Q8s")  # behind the footer: its offset
_TRAILER_MAGIC = b"anabrEND"
TRAILER_LENGTH, TRAILER_MAGIC = _TRAILER.size, _TRAILER_MAGIC
_WINDOW = 64 * 1024
_GLANCE = 4096
RESTORE = "restore the file from a backup of the trail, or load again"


def _codec() -> ModuleType:
    """Import the codec late, because it loads Arrow: `status` and the supervisor only ask where a trail ends."""
    from anabranch.trail import codec

    return codec


class SegmentWriter:
    """Appends frames. A write that fails leaves `offset` where it was. In a trail that is encrypted the file is, too."""

    def __init__(
        self,
        storage: Storage,
        file: str,
        name: SegmentName,
        header: dict[str, Any],
        *,
        service: keys.KeyService | None = None,
    ) -> None:
        """Create the file. `service`: a key that has to encrypt it, whatever the trail does now. Raises TrailKeyMissing."""
        self.name = name
        self.offset = 0
        self.rows = 0
        self.lasts, self.offsets = array("q"), array("q")
        self._schemas: dict[tuple[Any, int], tuple[Any, int]] = {}
        self._storage, self._stamp = storage, keys.stamp(storage)
        self._seal, facts = sealing.begin(storage, header, service=service)
        self._file: Writable = storage.create(file)
        head = to_json(facts)
        try:
            self._put([encode_prefix(FrameKind.HEADER, head), head])  # as it is: whoever opens the file reads it first
        except OSError:
            self.close()
            storage.remove(file)
            raise

    @property
    def is_empty(self) -> bool:
        return not self.offsets

    def chunk(self, chunk: Chunk, fragment: int, table_frame: Any) -> int:
        """Write it, and the schemas that the segment does not hold yet. `table_frame(rows)` makes the missing ones.
        Returns the frame's offset."""
        for rows in chunk.tables:
            self._hold_schema(rows, table_frame)
        parts = _codec().encode_chunk(chunk, self._schema_offset, fragment)
        offset = self._write(parts)
        self.rows += chunk.row_count
        self.offsets.append(offset)
        self.lasts.append(chunk.last_sequence)
        return offset

    def heartbeat(self, native: str, resume: str, time: int) -> int:
        head = to_json({"native": native, "time": time, "resume": resume})
        return self._write([encode_prefix(FrameKind.HEARTBEAT, head), head])

    def note(self, kind: FrameKind, facts: dict[str, Any]) -> None:
        """Write a frame that is only a head."""
        head = to_json(facts)
        self._write([encode_prefix(kind, head), head])

    def seal(self) -> None:
        """Write the index at the end. Not synced here."""
        head = to_json({"chunks": len(self.offsets), "rows": self.rows})
        body = _little_endian(self.offsets) + _little_endian(self.lasts)
        prefix = encode_prefix(FrameKind.FOOTER, head, len(body), zlib.crc32(body))
        self._write([prefix, head, body], [_TRAILER.pack(self.offset, _TRAILER_MAGIC)])

    def sync(self) -> None:
        self._file.sync()

    def has_former_key(self) -> bool:
        """Return whether the trail has another key by now than the one that wraps this file's. Cheap while it has not."""
        if self._seal is None or self._stamp == (now := keys.stamp(self._storage)):
            return False
        self._stamp = now
        return sealing.is_former(self._storage, self._seal)

    def close(self) -> None:
        self._file.close()

    def _hold_schema(self, rows: TableRows, table_frame: Any) -> None:
        held = self._schemas.get((rows.table, rows.version))
        if held and (held[0] is rows.batch.schema or held[0].equals(rows.batch.schema)):
            return
        offset = self._write(_codec().encode_schema(table_frame(rows)))
        self._schemas[rows.table, rows.version] = rows.batch.schema, offset

    def _schema_offset(self, rows: TableRows) -> int:
        return self._schemas[rows.table, rows.version][1]

    def _write(self, parts: list[Data], trailer: Sequence[Data] = ()) -> int:
        if self._seal:
            parts = self._seal.frame(self.offset, parts)
        return self._put([*parts, *trailer])

    def _put(self, parts: list[Data]) -> int:
        self._file.write_at(self.offset, parts)
        at = self.offset
        self.offset += sum(map(len, parts))
        return at


class _Window:
    """A piece of the file in memory, moved on as needed: small frames cost no read each."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self._size = read, size
        self._data, self._base = b"", 0

    def take(self, offset: int, length: int) -> bytes:
        at = offset - self._base
        if not 0 <= at <= len(self._data) - length:
            self._data, self._base, at = self._read(offset, max(length, self._size)), offset, 0
        return self._data[at : at + length]


def _frame_in(window: _Window, offset: int, limit: int) -> tuple[Frame, bytes] | None:
    found = decode_prefix(window.take(offset, PREFIX_LENGTH))
    if found is None or found[0].length > limit - offset:
        return None
    frame, crc = found
    data = window.take(offset, PREFIX_LENGTH + frame.head_length)
    return (frame, data[PREFIX_LENGTH:]) if head_is_intact(data, frame, crc) else None


class SegmentReader:
    """Finds and checks frames of one file. `index` grows with the segment."""

    def __init__(self, storage: Storage, file: str) -> None:
        self.file, self.path = file, storage.path(file)
        self._readable: Readable = storage.open(file)
        self._schemas: dict[int, TableFrame] = {}
        self._storage, self._format = storage, 0
        self._seal: Seal | None = None
        self._is_sealed: bool | None = None  # encrypted: not asked yet
        self.index = SegmentIndex(self)

    def read(self, offset: int, length: int) -> bytes:
        try:
            return self._readable.read(offset, length)
        except FileNotFoundError:
            self._reopen()
            return self._readable.read(offset, length)

    def size(self) -> int:
        try:
            return self._readable.size()
        except FileNotFoundError:
            self._reopen()
            return self._readable.size()

    def _reopen(self) -> None:
        """Go on in the copy that has the name now (`fencing.py`). Raises FileNotFoundError where the segment was packed."""
        former, self._readable = self._readable, self._storage.open(self.file)
        former.close()

    def header(self) -> dict[str, Any]:
        """Return the header as it is written; `headers.py` compares it."""
        if not self.size():
            raise self.damage(0, "the file is empty")
        frame, head = self._frame(0)
        if frame.kind != FrameKind.HEADER:
            raise self.damage(0, f"the header is missing, frame kind {frame.kind} is there")
        try:
            found = json.loads(head)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self.damage(0, "the header is no list of facts")
        return found

    @property
    def format(self) -> int:
        """The format of what is in it."""
        if not self._format:
            self._format = int(self.header()["format"])
        return self._format

    def frames(self, start: int, limit: int) -> Iterator[tuple[int, Frame, bytes]]:
        """Yield whole frames between two offsets with their heads, up to the first place where none is."""
        for offset, frame, head in self.frames_as_written(start, limit):
            yield offset, frame, self._open(offset, frame, head)

    def frames_as_written(self, start: int, limit: int) -> Iterator[tuple[int, Frame, bytes]]:
        """Yield the same with heads as they stand in the file, which needs no key."""
        window = _Window(self.read, _WINDOW)
        while start < limit:
            found = _frame_in(window, start, limit)
            if found is None:
                return
            yield start, *found
            start += found[0].length

    def frame(self, offset: int) -> tuple[Frame, bytes]:
        """Return the frame at an offset. Raises TrailCorrupt if there is none, or not the one that was written there."""
        frame, head = self._frame(offset)
        return frame, self._open(offset, frame, head)

    def seal(self) -> Seal | None:
        """Return what opens the file's frames, None where they are not encrypted. Raises TrailKeyMissing, TrailCorrupt."""
        if self._is_sealed is None:
            try:
                self._seal = sealing.opened(self._storage, self.header(), f"{self.file} ({self.path})")
            except sealing.Tampered as error:
                raise self.damage(0, str(error)) from None
            self._is_sealed = self._seal is not None
        return self._seal

    def _open(self, offset: int, frame: Frame, head: bytes) -> bytes:
        """Return the head as it was before it was encrypted."""
        if not offset or (seal := self.seal()) is None:
            return head
        try:
            return seal.head(offset, frame, head, is_later=frame.kind == FrameKind.DECIDED)
        except sealing.Tampered as error:
            raise self.damage(offset, str(error)) from None

    def _frame(self, offset: int) -> tuple[Frame, bytes]:
        found = _frame_in(_Window(self.read, _GLANCE), offset, self.size())
        if found is None:
            raise self.damage(offset, "a frame must be here and is not, or its checksum is wrong")
        return found

    def body(self, offset: int, frame: Frame) -> bytes:
        body = self.read(offset + PREFIX_LENGTH + frame.head_length, frame.body_length)
        if len(body) != frame.body_length or zlib.crc32(body) != frame.body_crc:
            raise self.damage(offset, "checksum of the frame's body is wrong")
        if not body or not offset or (seal := self.seal()) is None:
            return body
        try:
            return seal.body(offset, frame, body)
        except sealing.Tampered as error:
            raise self.damage(offset, str(error)) from None

    def chunk(self, offset: int) -> Chunk:
        """Read and decode the chunk at an offset. Raises TrailCorrupt when checksums or counts do not agree."""
        frame, head = self.frame(offset)
        if frame.kind != FrameKind.CHUNK:
            raise self.damage(offset, f"a chunk was expected, frame kind {frame.kind} found")
        body = self.body(offset, frame)
        chunk: Chunk = _codec().decode_chunk(frame, head, body, self.table_frame, self.format)
        if (chunk.transactions.num_rows, chunk.row_count) != (frame.transactions, frame.rows):
            raise self.damage(offset, "counts of transactions or rows do not agree")
        return chunk

    def transactions(self, offset: int) -> pa.RecordBatch:
        """Return transactions of the chunk there, without its rows (rows/chunk_schema.py, TRANSACTION_SCHEMA)."""
        frame, head = self.frame(offset)
        found: pa.RecordBatch = _codec().decode_transactions(head, self.body(offset, frame), self.format)
        return found

    def table_frame(self, offset: int) -> TableFrame:
        if offset not in self._schemas:
            frame, head = self.frame(offset)
            if frame.kind != FrameKind.SCHEMA:
                raise self.damage(offset, "a table schema was expected")
            self._schemas[offset] = _codec().decode_schema(head)
        return self._schemas[offset]

    def definition(self, table: TableId, version: int) -> TableSchema:
        """Return a definition whose schema frame was read before."""
        frames = (found.table for found in self._schemas.values())
        return next(t for t in frames if (t.id, t.version) == (table, version))

    def damage(self, offset: int, what: str, hint: str = RESTORE) -> TrailCorrupt:
        return TrailCorrupt(f"segment {self.file}, offset {offset}: {what} ({self.path})", hint=hint)

    def close(self) -> None:
        self._readable.close()


class SegmentIndex:
    """Offset and last sequence of every chunk frame, in order: from the footer, or by reading the heads so far."""

    def __init__(self, segment: SegmentReader) -> None:
        self._segment = segment
        self.offsets, self.lasts = array("q"), array("q")
        self.rows = 0
        self.end = 0  # behind the last frame that was indexed
        self.is_sealed = False
        self.is_complete = False

    def grow(self, limit: int) -> None:
        """Index the frames before `limit`, which is a published end."""
        if self.is_complete or self.end >= limit:
            return
        for offset, frame, _ in self._segment.frames(self.end, limit):
            self._take(offset, frame)
        if self.end < limit:
            raise self._segment.damage(self.end, "a published frame is damaged")

    def complete(self, before: int | None) -> None:
        """Index all of a segment that nobody writes any more.

        From its footer, or up to where its writer died; both without what was not adopted (`ends_before`).
        """
        if self.is_complete:
            return
        if not self._from_footer():
            for offset, frame, _ in self._segment.frames(self.end, self._segment.size()):
                self._take(offset, frame)
        while before is not None and self.lasts and self.lasts[-1] >= before:  # its writer may have sealed it unadopted
            self._drop_last()
            self.is_sealed = False
        self.is_complete = True

    def after(self, sequence: int) -> int:
        """Return the place of the first chunk that holds something behind `sequence`."""
        return bisect_right(self.lasts, sequence)

    def _take(self, offset: int, frame: Frame) -> None:
        if frame.kind == FrameKind.CHUNK:
            self.offsets.append(offset)
            self.lasts.append(frame.last)
            self.rows += frame.rows
        self.end = offset + frame.length

    def _drop_last(self) -> None:
        self.lasts.pop()
        self.end = self.offsets.pop()
        self.rows -= self._segment.frame(self.end)[0].rows

    def _from_footer(self) -> bool:
        size = self._segment.size()
        trailer = self._segment.read(max(0, size - _TRAILER.size), _TRAILER.size)
        if len(trailer) < _TRAILER.size or _TRAILER.unpack(trailer)[1] != _TRAILER_MAGIC:
            return False
        offset = _TRAILER.unpack(trailer)[0]
        frame, _ = self._segment.frame(offset)
        if frame.kind != FrameKind.FOOTER:
            raise self._segment.damage(offset, "the index of a sealed segment must be here and is not")
        body = self._segment.body(offset, frame)
        middle = len(body) // 2
        self.offsets, self.lasts = _from_little_endian(body[:middle]), _from_little_endian(body[middle:])
        self.rows, self.end, self.is_sealed = _footer_rows(self._segment, offset), offset, True
        return True


def _footer_rows(segment: SegmentReader, offset: int) -> int:
    return int(json.loads(segment.frame(offset)[1])["rows"])


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array("q", numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _from_little_endian(data: bytes) -> array[int]:
    numbers = array("q", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
