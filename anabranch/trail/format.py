"""Bytes of the trail: frames and names of segments. What chunks look like inside a frame is `codec.py`'s.

A segment is a run of frames. A frame is a fixed prefix, a head (JSON: small, always checked) and a body (Arrow IPC,
checked when it is loaded). Checksums are CRC-32 as in zlib (not CRC-32C, which would need one more dependency).
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from anabranch.rows.chunk import Part

FORMAT = 2  # what is written; 1 is read: its transactions have no origin
ENCRYPTED = 3  # the same, of encrypted files
NEWEST = ENCRYPTED
MAGIC = b"\xabT"
_PREFIX = struct.Struct(
    "<2sBBIQQIIII"
)  # magic kind part head_length body_length first transactions rows fragment body_crc
_CHECK = struct.Struct("<I")  # CRC of prefix and head
PREFIX_LENGTH = _PREFIX.size + _CHECK.size

PARTS = (Part.WHOLE, Part.FRAGMENT, Part.LAST)


class FrameKind(IntEnum):
    HEADER = 1  # first in a segment: job, source identity, writer epoch, where the segment begins
    SCHEMA = 2  # a table's definition and its Arrow schema; chunks point at it
    CHUNK = 3
    HEARTBEAT = 4  # the source's position moved on without transactions of ours
    FOOTER = 5  # last in a sealed segment: index of its chunks
    PREPARED = 6  # in a staged transaction: its rows are complete
    DECIDED = 7  # behind it: where in the log it ended
    KEPT = 8  # in a part of an open transaction: its rows are complete


class Frame(NamedTuple):
    """A frame's prefix. `first` is the sequence of its first transaction, `fragment` counts from 0 inside a large
    one."""

    kind: int
    part: Part
    head_length: int
    body_length: int
    first: int
    transactions: int
    rows: int
    fragment: int
    body_crc: int

    @property
    def length(self) -> int:
        return PREFIX_LENGTH + self.head_length + self.body_length

    @property
    def last(self) -> int:
        return self.first + self.transactions - 1


def encode_prefix(
    kind: FrameKind,
    head: bytes,
    body_length: int = 0,
    body_crc: int = 0,
    *,
    part: Part = Part.WHOLE,
    first: int = 0,
    transactions: int = 0,
    rows: int = 0,
    fragment: int = 0,
) -> bytes:
    frame = Frame(kind, part, len(head), body_length, first, transactions, rows, fragment, body_crc)
    return encode_frame(frame, head)


def encode_frame(frame: Frame, head: bytes) -> bytes:
    """Return the prefix of a frame, with the checksum of it and the head."""
    prefix = pack_prefix(frame)
    return prefix + _CHECK.pack(zlib.crc32(head, zlib.crc32(prefix)))


def pack_prefix(frame: Frame) -> bytes:
    """Return the prefix without that checksum."""
    kind, part, *numbers = frame
    return _PREFIX.pack(MAGIC, kind, PARTS.index(part), *numbers)


def decode_prefix(data: bytes) -> tuple[Frame, int] | None:
    """Return the frame and the CRC of its prefix and head; None where no frame begins."""
    if len(data) < PREFIX_LENGTH:
        return None
    magic, kind, part, *numbers = _PREFIX.unpack_from(data)
    if magic != MAGIC or part >= len(PARTS):
        return None
    return Frame(kind, PARTS[part], *numbers), _CHECK.unpack_from(data, _PREFIX.size)[0]


def head_is_intact(data: bytes, frame: Frame, crc: int) -> bool:
    """Return whether the CRC fits. `data` is prefix and head."""
    head = memoryview(data)[PREFIX_LENGTH : PREFIX_LENGTH + frame.head_length]
    return zlib.crc32(head, zlib.crc32(data[: _PREFIX.size])) == crc


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


_NAME = re.compile(r"(\d{8,})-(\d{4,})-(\d+)(?:\+(\d+))?\.(segment|packed)")


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """`00000012-0003-4711+2.segment`: twelfth segment, written by the third writer; sequence 4711 comes next in it, and
    two fragments of that transaction came before it. `.packed`: the same transactions in larger frames."""

    number: int
    epoch: int
    next: int
    fragments: int = 0
    packed: bool = False

    def __str__(self) -> str:
        begun = f"+{self.fragments}" if self.fragments else ""
        suffix = "packed" if self.packed else "segment"
        return f"{self.number:08d}-{self.epoch:04d}-{self.next}{begun}.{suffix}"

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        found = _NAME.fullmatch(name)
        if not found:
            return None
        number, epoch, following, fragments, suffix = found.groups()
        return cls(int(number), int(epoch), int(following), int(fragments or 0), suffix == "packed")

    @property
    def first_whole(self) -> int:
        """The first sequence that can be read from this segment on."""
        return self.next + (1 if self.fragments else 0)


def segment_names(names: list[str]) -> list[SegmentName]:
    """Return segments in order; where both forms are there, the packed one."""
    found = {s.number: s for s in sorted(filter(None, map(SegmentName.parse, names)))}
    return [found[number] for number in sorted(found)]


def ends_before(names: list[SegmentName], name: SegmentName) -> int | None:
    """Return the sequence before which a segment's readable part ends, if another writer followed on it: what the one that
    died left behind that was not adopted. None: the segment is good to its end."""
    following = next((n for n in names if n.number > name.number), None)
    return following.next if following and following.epoch != name.epoch else None
