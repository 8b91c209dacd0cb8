"""The published end: one small record in place, written after the fsync of what it points at, read in a poll loop.

Two slots are written in turn, each with its checksum, so that a reader always finds a whole one. The record itself is
not fsynced: after a power failure it may be older than the data, never newer.
"""

from __future__ import annotations

import errno
import struct
import time
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

from anabranch.errors import TrailCorrupt
from anabranch.model.position import Position
from anabranch.trail.format import SegmentName
from anabranch.trail.storage import Readable, Storage, Writable

FILE = "published"
WRITER_SHIFT = 40  # a writer begins with its epoch above so many bits: its versions are larger than all former ones
_RECORD = struct.Struct("<QQQQQQQQQ")
_CRC = struct.Struct("<I")
_SLOT = 128
SIZE = 2 * _SLOT
PAUSES = (0.001, 0.01, 0.0)  # seconds: the first record may be on its way into the file
MEND = "start capture: it finds the end in the segments, and writes the file anew"


@dataclass(frozen=True, slots=True)
class TrailEnd:
    """The last published place: its position, the source's text to resume from, and when it was committed there
    (microseconds, 0 if unknown). `version` grows with every publication, also those without transactions."""

    position: Position
    resume: str
    commit_time: int
    version: int = field(default=0, compare=False)


class Record(NamedTuple):
    """`number epoch next fragments` name the segment (number 0: none yet), `frame` and `end` are the offsets of its
    last published frame and behind it; `history` is the published length of the schema history."""

    version: int = 0
    number: int = 0
    epoch: int = 0
    next: int = 0
    fragments: int = 0
    frame: int = 0
    end: int = 0
    sequence: int = 0
    history: int = 0

    @property
    def writer(self) -> int:
        """Return the epoch of who has published it: another one may have put copies in the place of files (`fencing.py`)."""
        return self.version >> WRITER_SHIFT

    @property
    def segment(self) -> SegmentName:
        return SegmentName(self.number, self.epoch, self.next, self.fragments)


class Cell:
    """The file, opened for reading. A writer that has taken a shared trail over puts another one in its place (`fencing.py`):
    what was read counts only where the name was still this file's afterwards."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._file = storage, storage.open(FILE)

    def read(self, offset: int, length: int) -> bytes:
        while True:
            try:
                data = self._file.read(offset, length)
                if not self._file.is_replaced():
                    return data
            except OSError as error:
                if error.errno != errno.ESTALE:  # over a network: the file that we have open is gone
                    raise
            former, self._file = self._file, self._storage.open(FILE)
            former.close()

    def size(self) -> int:
        return self._file.size()

    def is_replaced(self) -> bool:
        return False

    def close(self) -> None:
        self._file.close()


def opened(storage: Storage) -> Readable:
    """Open the file, which every trail has before it gets its name. Raises TrailCorrupt if it is missing."""
    try:
        return Cell(storage)
    except FileNotFoundError:
        raise damage(storage.path(FILE), "the file is missing") from None


def write(cell: Writable, record: Record) -> None:
    data = _RECORD.pack(*record)
    cell.write_at(record.version % 2 * _SLOT, [data + _CRC.pack(zlib.crc32(data))])


def read(cell: Readable) -> Record:
    """Return the newest whole record; the empty one where there is none."""
    return _newest(cell.read(0, SIZE))


def _newest(data: bytes) -> Record:
    return max(_slot(data, 0), _slot(data, _SLOT))


def read_whole(cell: Readable, path: str) -> Record:
    """Read the newest record for readers: one that was there and cannot be read is damage. Raises TrailCorrupt."""
    for pause in PAUSES:
        data = cell.read(0, SIZE)
        record = _newest(data)
        if len(data) == SIZE and (record.version or not any(data)):
            return record
        time.sleep(pause)
    raise damage(path, f"neither of its two records is whole, of {len(data)} bytes")


def damage(path: str, what: str) -> TrailCorrupt:
    return TrailCorrupt(f"{path}: where the trail ends cannot be read: {what}", hint=MEND)


def _slot(data: bytes, offset: int) -> Record:
    if len(data) < offset + _RECORD.size + _CRC.size:
        return Record()
    (crc,) = _CRC.unpack_from(data, offset + _RECORD.size)
    if zlib.crc32(data[offset : offset + _RECORD.size]) != crc:
        return Record()
    return Record(*_RECORD.unpack_from(data, offset))
