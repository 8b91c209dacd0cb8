"""The protocol: messages of a bounded size, each a fixed prefix, a JSON head and bytes.

A peer may be wrong or hostile: what it announces is compared with the limits before anything is kept. Version 1; the first
message of each side says its version, and a later one adds kinds: those from OPTIONAL on are ignored by who does not know
them (mail in both directions will be of that kind).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa

VERSION = 1
MAGIC = b"\xabH"
PREFIX = struct.Struct(
    "<2sBBIII"
)  # magic, kind, flags, bytes of the head, bytes of the body, the same before compression
HEAD_LIMIT = 256 * 1024
BODY_LIMIT = 1 << 20
FIRST_LIMIT = 16 * 1024  # bytes of a message of a peer that has not said yet who it is
COMPRESSED = 1
WORTHWHILE = 512  # bytes; less is not worth compressing
OPTIONAL = 128


class Kind(IntEnum):
    HELLO = 1  # who sends: version, trail, identity, hops
    WELCOME = 2  # who receives: version, hops, held
    REFUSED = 3  # code, message, hint, retry; the connection ends behind it
    IDENTITY = 4  # the first trail says something else of itself now
    HISTORY = 5  # offset, anew; bytes of the schema history
    SEGMENT = 6  # name, offset; bytes of a segment
    OFFER = 7  # files of a load: [name, size, sum]
    WANT = 8  # places of those in the offer that are not there yet
    FILE = 9  # name, size, offset; bytes of such a file
    SYNC = 10  # make what came durable, and say so; number
    ACK = 11  # number, held, behind
    PING = 12  # number
    PONG = 13  # number, hops: [name, seconds from there to the receiver and back]
    WAITING = 14  # the receiver is alive and takes nothing: reason
    ASKED = 128  # the receiver asks for loads of tables: loads, as [table, id, seconds since 1970 UTC]
    CHECK = 129  # the receiver asks for sums or digests of rows of a table: table, id, asked, and what exactly


class ProtocolError(Exception):
    """A peer said what cannot be said here."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `kind` may be a number that this release does not know, from OPTIONAL on."""

    kind: int
    head: dict[str, Any] = field(default_factory=dict)
    body: bytes | memoryview = b""


def encode(kind: Kind, head: dict[str, Any] | None = None, body: bytes = b"", *, compress: bool = False) -> bytes:
    """Return the bytes of a message."""
    text = json.dumps(head or {}, separators=(",", ":")).encode()
    flags, sent = 0, body
    if compress and len(body) >= WORTHWHILE:
        packed = pa.compress(body, codec="zstd", asbytes=True)
        if len(packed) < len(body) * 15 // 16:
            flags, sent = COMPRESSED, packed
    if len(text) > HEAD_LIMIT or len(body) > BODY_LIMIT:
        raise ProtocolError(f"a message of {len(text)} and {len(body)} bytes is too large")
    return b"".join((PREFIX.pack(MAGIC, kind, flags, len(text), len(sent), len(body)), text, sent))


class Decoder:
    """Cuts a stream of bytes into messages. `limit`: bytes that a message may have."""

    def __init__(self, limit: int = FIRST_LIMIT) -> None:
        self.limit = limit
        self._data = bytearray()
        self._start = 0

    def feed(self, data: bytes | memoryview) -> None:
        if self._start > BODY_LIMIT or self._start == len(self._data):
            del self._data[: self._start]
            self._start = 0
        self._data += data

    @property
    def waiting(self) -> int:
        """Bytes that are no whole message yet, or were not asked for."""
        return len(self._data) - self._start

    def next(self) -> Message | None:
        """Return the next whole message. Raises ProtocolError for what is none."""
        found = self.frame()
        return None if found is None else decoded(found)

    def frame(self) -> bytes | None:
        """Return the bytes of the next whole message, whatever it says. Raises ProtocolError for one that is none."""
        if self.waiting < PREFIX.size:
            return None
        length = frame_length(self._data, self._start, self.limit)
        if self.waiting < length:
            return None
        found = bytes(memoryview(self._data)[self._start : self._start + length])
        self._start += length
        return found


def frame_length(data: bytes | bytearray, start: int, limit: int) -> int:
    """Return how long the message is that begins there. Raises ProtocolError."""
    magic, _, _, head, body, raw = PREFIX.unpack_from(data, start)
    if magic != MAGIC:
        raise ProtocolError("the other side speaks another protocol")
    if head > min(limit, HEAD_LIMIT) or body > min(limit, BODY_LIMIT) or raw > BODY_LIMIT:
        raise ProtocolError(f"a message of {head} and {body} bytes is announced, more than may come here")
    return int(PREFIX.size + head + body)


def kind_of(frame: bytes) -> int:
    return frame[2]


def decoded(frame: bytes) -> Message:
    """Return what a whole message says. Raises ProtocolError."""
    _, kind, flags, head_length, _, raw = PREFIX.unpack_from(frame)
    view = memoryview(frame)
    body: bytes | memoryview = view[PREFIX.size + head_length :]
    text = bytes(view[PREFIX.size : PREFIX.size + head_length])
    try:
        head = json.loads(text)
        if b"\\u" in text or not text.isascii():  # half a character is none, and could be neither stored nor passed on
            json.dumps(head, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ProtocolError("the head of a message is no JSON") from None
    if not isinstance(head, dict):
        raise ProtocolError("the head of a message is no object")
    if flags & COMPRESSED:
        try:
            body = pa.decompress(body, decompressed_size=raw, codec="zstd", asbytes=True)
        except (OSError, ValueError, pa.ArrowException):
            raise ProtocolError("the body of a message cannot be decompressed") from None
    if len(body) != raw:
        raise ProtocolError("the body of a message has another length than it says")
    if kind not in Kind._value2member_map_ and kind < OPTIONAL:
        raise ProtocolError(f"a message of kind {kind}, which this release does not know")
    return Message(kind, head, body)
