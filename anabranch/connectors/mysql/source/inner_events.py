"""Events that hold other events, compressed: MariaDB's compressed rows and statements, MySQL's transaction payload. Pure.

They become packets as the loop of `assemble.py` reads them. Inner events have no checksum of their own and stand nowhere:
their place is that of the event around them.
https://mariadb.com/kb/en/compressing-events-to-reduce-size-of-the-binary-log/
https://dev.mysql.com/doc/refman/8.0/en/binary-log-transaction-compression.html
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source.binlog import packed_integer

BLOCK = 1 << 18  # bytes of inner events that are in memory at once; an event that is larger comes alone
LARGEST = 1 << 30  # bytes of an event: max_allowed_packet ends there
_PIECE = 1 << 20  # bytes asked of the decompressor at once
_ROWS = range(166, 172)  # compressed write, update, delete rows: v1, v2
_PLAIN_ROWS = dict(zip(_ROWS, (*(kinds[0] for kinds in b.ROWS), *(kinds[1] for kinds in b.ROWS)), strict=True))
_ZLIB = 0  # MariaDB's only algorithm
_END, _SIZE, _METHOD, _WHOLE = 0, 1, 2, 3  # fields of a payload's head
_ZSTD, _NONE = 0, 255  # its methods
_NOT_INSIDE = frozenset((b.FORMAT, b.ROTATE, b.PAYLOAD, b.HEARTBEAT, b.HEARTBEAT_V2, b.STOP, b.INCIDENT, *b.GTIDS))

Packets = Iterator[tuple[bytes, bool]]
"""Blocks of whole packets; True: a single one, of any length, whose own word about its length does not count."""


def inflate(data: bytes) -> bytes:
    """Decompress what MariaDB compressed: a byte with algorithm and width of the length, the length, a zlib stream.
    Raises ValueError.
    """
    if not data or not data[0] & 0x80:
        raise ValueError("no compressed data")
    if data[0] >> 4 & 7 != _ZLIB:
        raise ValueError(f"compression algorithm {data[0] >> 4 & 7} is unknown")
    width = data[0] & 7
    length = int.from_bytes(data[1 : 1 + width], "big")
    if length > LARGEST:
        raise ValueError(f"it would decompress to {length} bytes")
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data[1 + width :], length + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    if len(found) != length or not stream.eof:
        raise ValueError(f"it decompresses to {len(found)} bytes, not {length}")
    return found


def inflated_query(body: bytes) -> Iterator[bytes]:
    """Yield the body of a compressed QUERY event as that of a plain one: only the statement's text is compressed."""
    at = b.sql_place(body)
    yield body[:at] + inflate(body[at:])


def inflated_rows(kind: int, event: bytes) -> Packets:
    """Return a compressed rows event (with its header) as a plain one: table, flags, columns and bitmaps are not compressed."""
    at = _values_place(kind, event)
    values = inflate(event[at:])
    length = (at + len(values)).to_bytes(4, "little")
    header = b"".join((event[:4], bytes((_PLAIN_ROWS[kind],)), event[5:9], length, bytes(4), event[17 : b.HEADER]))
    yield b"".join((b.NO_PACKET, header, event[b.HEADER : at], values)), True


def _values_place(kind: int, event: bytes) -> int:
    """Find where the values begin: behind the present columns, one bitmap or for an update two."""
    plain = _PLAIN_ROWS[kind]
    at = b.HEADER + 8
    if plain >= b.WRITE[1]:
        at += int.from_bytes(event[at : at + 2], "little")
    columns, at = packed_integer(event, at)
    at += (columns + 7) // 8 * (2 if plain in b.UPDATE else 1)
    if at >= len(event):
        raise ValueError("it ends before its values")
    return at


def payload(body: bytes) -> Packets:
    """Return the events of a transaction payload, decompressed block by block. ValueError for bytes that are none."""
    facts, at = _payload_head(body)
    data, whole = body[at:], facts[_WHOLE]
    if len(data) != facts[_SIZE]:
        raise ValueError(f"it has {len(data)} bytes, its head says {facts[_SIZE]}")
    source = pa.BufferReader(data)
    if facts[_METHOD] == _ZSTD:
        source = pa.CompressedInputStream(source, "zstd")
    elif facts[_METHOD] != _NONE:
        raise ValueError(f"compression method {facts[_METHOD]} is unknown")
    yield from _packets(_Bytes(source.read), whole if facts[_METHOD] == _ZSTD else len(data))


def _payload_head(body: bytes) -> tuple[dict[int, int], int]:
    """Return the fields up to the end mark (number, length of the value, value: all packed integers), and the place
    behind it.
    """
    facts = {_METHOD: _NONE, _SIZE: -1, _WHOLE: -1}
    at = 0
    while (found := packed_integer(body, at))[0] != _END:
        length, at = packed_integer(body, found[1])
        facts[found[0]] = packed_integer(body[at : at + length], 0)[0]
        at += length
    return facts, found[1]


class _Bytes:
    """A stream read in pieces: a length that is wrong asks for no memory."""

    def __init__(self, read: Callable[[int], Any]) -> None:
        self._read = read
        self.count = 0

    def take(self, wanted: int) -> bytes:
        """Read `wanted` bytes, fewer only at the end."""
        pieces, left = [], wanted
        try:
            while left and (piece := self._read(min(left, _PIECE))):
                pieces.append(piece)
                left -= len(piece)
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"it cannot be decompressed: {error}") from error
        self.count += wanted - left
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _packets(stream: _Bytes, whole: int) -> Packets:
    rest = b""
    while block := rest + stream.take(BLOCK):
        packets, at = _framed(block)
        rest = block[at:]
        if packets:
            yield packets, False
        elif len(block) < b.HEADER:
            raise ValueError("its last event is cut short")
        else:
            length = b.event_length(block, 0)
            event = block[:length] if length <= len(block) else block + stream.take(length - len(block))
            if len(event) < length:
                raise ValueError("its last event is cut short")
            yield b.NO_PACKET + _placeless(event), True
            rest = block[length:]
    if stream.count != whole:
        raise ValueError(f"it decompresses to {stream.count} bytes, not {whole}")


def _framed(block: bytes) -> tuple[bytes, int]:
    """Return the whole events at the beginning of `block` as packets, and the place behind them."""
    parts: list[bytes] = []
    at = 0
    while at + b.HEADER <= len(block):
        length = b.event_length(block, at)
        if block[at + 4] in _NOT_INSIDE:
            raise ValueError(f"it holds an event of type {block[at + 4]}")
        if not b.HEADER <= length <= LARGEST:
            raise ValueError(f"it holds an event of {length} bytes")
        if at + length > len(block) or length >= b.GIANT:
            break
        parts.append((length + 1).to_bytes(3, "little") + b"\0\0" + _placeless(block[at : at + length]))
        at += length
    return b"".join(parts), at


def _placeless(event: bytes) -> bytes:
    """Set an event's position to 0: it has no place in the file."""
    return b"".join((event[:13], bytes(4), event[17:]))
