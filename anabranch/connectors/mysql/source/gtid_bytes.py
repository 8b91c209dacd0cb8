"""MySQL's GTIDs as bytes: sets, with and without tags, and the event that gives a transaction a tagged id. Pure.

Tags came with 8.3: https://dev.mysql.com/doc/refman/9.0/en/replication-gtids-concepts.html. A source is `uuid` or
`uuid:tag`. Set: https://dev.mysql.com/doc/dev/mysql-server/latest/classGtid__set.html. Event:
https://dev.mysql.com/doc/dev/mysql-server/latest/PageLibsMysqlSerialization.html: version, size and the last field that a
reader has to know, then (number of the field, value) in ascending order, all integers of variable length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_LAST_NUMBER = (1 << 63) - 2
_TAGGED = 1  # format of a set; without tags it is 0
_VERSION = 1  # of the serialization
_UUID, _NUMBER, _TAG, _TIME = 1, 2, 3, 6  # fields of a tagged GTID's event
# Fields before the time, and how their values are read; those after it do not matter here.
_SIGNED = frozenset((_NUMBER, 4, 5))
_KNOWN = 11  # the last field that is known


def uuid_text(data: bytes) -> str:
    """Write 16 bytes as the server spells a uuid."""
    h = data.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


# --- sets -----------------------------------------------------------------------------------------------------------------


def encode_set(sources: Mapping[str, Sequence[Sequence[int]]]) -> bytes:
    """Encode a set for COM_BINLOG_DUMP_GTID: count, then per source its uuid, its tag if any source has one, and
    half-open intervals.

    A set without tags is written as servers before 8.3 read it.
    """
    is_tagged = any(":" in source for source in sources)
    count = len(sources) << 8 | _TAGGED << 56 | _TAGGED if is_tagged else len(sources)
    parts = [count.to_bytes(8, "little")]
    for source, intervals in sorted(sources.items()):
        uuid, _, tag = source.partition(":")
        parts.append(bytes.fromhex(uuid.replace("-", "")))
        if is_tagged:
            parts += [_packed(len(tag)), tag.encode()]
        parts.append(len(intervals).to_bytes(8, "little"))
        for first, last in intervals:
            parts += [first.to_bytes(8, "little"), (last + 1).to_bytes(8, "little")]
    return b"".join(parts)


def decode_set(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Decode a set, or the body of a PREVIOUS_GTIDS event: (source, first, last). Raises ValueError for other bytes."""
    count, at = _fixed(data, 0)
    is_tagged = count >> 56 == _TAGGED
    if is_tagged:
        count = count >> 8 & 0xFFFFFFFFFFFF
    for _ in range(count):
        source, at = uuid_text(_bytes(data, at, 16)), at + 16
        if is_tagged:
            tag, at = _text(data, at)
            source = _named(source, tag)
        intervals, at = _fixed(data, at)
        for _ in range(intervals):
            first, at = _fixed(data, at)
            end, at = _fixed(data, at)
            if not 0 < first < end <= _LAST_NUMBER + 1:
                raise ValueError(f"no interval of GTIDs: {first} to {end}")
            yield source, first, end - 1
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes behind a set of GTIDs")


def _named(uuid: str, tag: str) -> str:
    if tag and not TAG.fullmatch(tag):
        raise ValueError(f"no tag of a GTID: {tag!r}")
    return f"{uuid}:{tag}" if tag else uuid


def _fixed(data: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(_bytes(data, at, 8), "little"), at + 8


def _bytes(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("GTIDs are cut short")
    return data[at : at + size]


# --- the event ------------------------------------------------------------------------------------------------------------


def parse_tagged_gtid(body: bytes) -> tuple[str, int, int]:
    """Return (source, number, commit time in microseconds) of an event without header and checksum. Raises ValueError."""
    version, at = _unsigned(body, 0)
    size, at = _unsigned(body, at)
    needed, at = _unsigned(body, at)
    if version != _VERSION or size != len(body) or needed > _KNOWN:
        raise ValueError(f"a tagged GTID of version {version}, {size} bytes, fields up to {needed}")
    values: dict[int, int] = {}
    uuid, tag = b"", ""
    while at < len(body) and _TIME not in values:
        number, at = _unsigned(body, at)
        if number == _UUID:
            uuid, at = _small_bytes(body, at, 16)
        elif number == _TAG:
            tag, at = _text(body, at)
        elif number > _TIME:
            break
        else:
            values[number], at = (_signed if number in _SIGNED else _unsigned)(body, at)
    if not uuid or not 0 < values.get(_NUMBER, 0) <= _LAST_NUMBER:
        raise ValueError("a tagged GTID without source or number")
    return _named(uuid_text(uuid), tag), values[_NUMBER], values.get(_TIME, 0)


def _small_bytes(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    """Return bytes that are written as an integer each."""
    found = bytearray()
    for _ in range(count):
        value, at = _unsigned(data, at)
        found.append(value)
    return bytes(found), at


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _unsigned(data, at)
    return _bytes(data, at, size).decode("ascii"), at + size


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer, which has as many more bytes as its first has ones in the low bits; a zero and the value follow
    these ones.
    """
    if at >= len(data):
        raise ValueError("GTIDs are cut short")
    first = data[at]
    more = (~first & (first + 1)).bit_length() - 1
    value = int.from_bytes(_bytes(data, at, more + 1), "little")
    return value >> min(more + 1, 8), at + more + 1


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """Read a signed integer: the sign is the lowest bit; negative numbers are written as their complement."""
    value, at = _unsigned(data, at)
    return (~(value >> 1) if value & 1 else value >> 1), at


def _packed(number: int) -> bytes:
    """Write what `_unsigned` reads, for numbers below 64 (longest tag: 32)."""
    return bytes((number << 1,))
