"""Recorded logs with events that were damaged: an error that says where, never a wrong row, never a hang.

Seeded: a failing case comes again. With checksums every damage is seen. Events that were damaged before their checksum was
made stand for logs without any: what their structure can tell is refused.
"""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest

from anabranch.connectors.mysql.source import fields
from anabranch.connectors.mysql.source.json_binary import to_text
from anabranch.errors import AnabranchError, SourceUnavailable, UnknownLogEvent, ValueRefused

SMALL = ["mariadb-transactions", "mysql-transactions"]
WIDE = ["mariadb-types-full", "mysql-types-full", "mysql-types-minimal"]
HEADER, BODY = 5, 24  # where an event begins in its packet, and its body
NEXT = 12  # packets that come after the damaged one: enough for a transaction to end
ROTATE, FORMAT, TABLE_MAP = 4, 15, 19
LONGEST, LARGEST = 60.0, 64 << 20  # seconds, bytes that one case may take
NUMBERS = (0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)  # what lengths and counts break at


def packets_of(stream: bytes) -> list[bytes]:
    sizes = []
    while sum(sizes) < len(stream):
        at = sum(sizes)
        sizes.append(4 + int.from_bytes(stream[at : at + 3], "little"))
    ends = list(accumulate(sizes))
    return [stream[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def framed(data: bytes, checksum: bool = True) -> bytes:
    """With the packet's length, and a checksum, as they should be."""
    data = (len(data) - 4).to_bytes(3, "little") + data[3:]
    return data[:-4] + struct.pack("<I", zlib.crc32(data[HEADER:-4])) if checksum and len(data) > BODY + 4 else data


# --- ways to damage an event ------------------------------------------------------------------------------------------


def flip(r: random.Random, data: bytes, first: int = BODY, last: int = -4) -> bytes:
    at = r.randrange(first, max(first, len(data) + last) + 1) % len(data)
    return data[:at] + bytes((data[at] ^ 1 << r.randrange(8),)) + data[at + 1 :]


def number(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(BODY, len(data))
    return data[:at] + bytes((r.choice(NUMBERS),)) + data[at + 1 :]


def huge(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(BODY, len(data))
    return (data[:at] + b"\xff" * r.choice((2, 3, 4, 8)))[: len(data)].ljust(len(data), b"\0")


def cut(r: random.Random, data: bytes) -> bytes:
    return data[: r.randrange(BODY, max(BODY + 1, len(data) - 4))] + data[-4:]


def inserted(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(BODY, len(data) - 3)
    return data[:at] + r.randbytes(r.randrange(1, 9)) + data[at:]


def removed(r: random.Random, data: bytes) -> bytes:
    at = r.randrange(BODY, len(data) - 3)
    return data[:at] + data[at + r.randrange(1, 9) :]


def other_header(r: random.Random, data: bytes) -> bytes:
    return flip(r, data, HEADER, BODY - 1 - len(data))


DAMAGES = (flip, number, huge, cut, inserted, removed, other_header)


# --- what comes of it -------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A recording in packets, what comes of all of it, and how much of that is complete before each packet."""

    found: Any
    told: Callable[[Any], list[Any]]
    packets: list[bytes]
    expected: list[Any]
    before: list[int]

    @classmethod
    def of(cls, found: Any, told: Callable[[Any], list[Any]]) -> Case:
        packets = packets_of(found.stream)
        assembler, counts, all_told = found.assembler(), [0], []
        for packet in packets:
            assembler.feed(packet)
            all_told += told(drained(assembler))
            counts.append(len(all_told))
        return cls(found, told, packets, all_told, counts)

    def run(self, stream: bytes) -> tuple[list[Any], AnabranchError | None]:
        """What was given, and the error, of our tree and with its place; anything else fails."""
        assembler, given, error = self.found.assembler(), [], None
        begun = time.monotonic()
        assembler.feed(stream)
        try:
            for item in steps(assembler):
                given += self.told([item])
        except AnabranchError as raised:
            error = raised
            assert error.position and error.message and error.exit_code == 5
        assert time.monotonic() - begun < LONGEST
        return given, error

    def around(self, place: int, *instead: bytes, skipped: int = 1) -> bytes:
        return b"".join((*self.packets[:place], *instead, *self.packets[place + skipped : place + NEXT]))

    def check(self, place: int, *instead: bytes, skipped: int = 1) -> AnabranchError | None:
        """What is complete before the damaged packet was given, and is right; or less of it, where a value that is none
        was on its way into the same chunk."""
        given, error = self.run(self.around(place, *instead, skipped=skipped))
        count = len(given) if isinstance(error, ValueRefused) else self.before[place]
        assert given[:count] == self.expected[:count]
        return error


def steps(assembler: Any) -> Iterator[Any]:
    assembler.advance()
    while assembler.ready:
        yield assembler.ready.popleft()
        assembler.advance()
    assembler.flush()
    yield from drained(assembler)


def drained(assembler: Any) -> list[Any]:
    assembler.advance()
    assembler.flush()
    found = list(assembler.ready)
    assembler.ready.clear()
    return found


@pytest.fixture
def case(recording: Callable, told: Callable) -> Callable[[str], Case]:
    return lambda name: Case.of(recording(name), told)


@pytest.mark.parametrize("name", SMALL)
def test_mysql_replay_with_checksums_every_flip_is_seen(case: Callable, name: str) -> None:
    """Nothing of the event or after it is given."""
    one, r = case(name), random.Random(1)
    for _ in range(60):
        place = r.randrange(len(one.packets))
        given, error = one.run(one.around(place, flip(r, one.packets[place], HEADER, 0)))
        assert error is not None and given == one.expected[: one.before[place]], one.packets[place].hex()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", SMALL)
def test_mysql_replay_damaged_events(case: Callable, name: str, damage: Callable) -> None:
    one, r = case(name), random.Random(2)
    for _ in range(15):
        place = r.randrange(len(one.packets))
        one.check(place, framed(damage(r, one.packets[place])))


@pytest.mark.parametrize("name", WIDE)
def test_mysql_replay_damaged_events_of_all_types(case: Callable, name: str) -> None:
    one, r = case(name), random.Random(3)
    for _ in range(8):
        place = r.randrange(len(one.packets))
        one.check(place, framed(r.choice(DAMAGES)(r, one.packets[place])))


@pytest.mark.parametrize("name", SMALL)
def test_mysql_replay_events_in_another_order(case: Callable, name: str) -> None:
    """Twice, or before the one they come after; on MySQL, which sends all it has, also one that is not there."""
    one = case(name)
    first = 1 + max(i for i, packet in enumerate(one.packets[:8]) if packet[9] in (FORMAT, ROTATE))
    for place in range(first, len(one.packets) - 2):
        here, after = one.packets[place], one.packets[place + 1]
        if any(packet[18:20] == b"\0\0" or packet[9] in (ROTATE, FORMAT) for packet in (here, after)):
            continue  # stands nowhere, or begins a file
        assert one.check(place, here, here) is not None
        assert one.check(place, after, here, skipped=2) is not None
        if name.startswith("mysql"):
            assert one.check(place) is not None


@pytest.mark.parametrize("name", SMALL)
def test_mysql_replay_huge_lengths_take_no_memory(case: Callable, name: str) -> None:
    """4 GB, at every place of every kind of event, is neither waited for nor made room for."""
    one = case(name)
    kinds = {packet[9]: place for place, packet in enumerate(one.packets) if packet[9] != FORMAT}
    tracemalloc.start()
    try:
        for place in kinds.values():
            data = one.packets[place]
            for at in range(BODY, len(data) - 4, 17):
                one.check(
                    place, framed((data[:at] + b"\xff" * 4)[: len(data) - 4] + data[at + 4 :][: len(data) - at - 4])
                )
        assert tracemalloc.get_traced_memory()[1] < LARGEST
    finally:
        tracemalloc.stop()


# --- parts by themselves ----------------------------------------------------------------------------------------------


def test_mysql_replay_damaged_json(recording: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    documents: list[bytes] = []
    monkeypatch.setattr(fields, "to_text", lambda data: documents.append(data) or to_text(data))
    recording("mysql-types-full").items()
    documents = sorted(set(documents), key=len)
    assert len(documents) >= 4
    documents += [nested(3, 1), nested(20, 1)]
    r = random.Random(4)
    for _ in range(2000):
        data = bytearray(r.choice(documents))
        for _ in range(r.randrange(1, 4)):
            data[r.randrange(len(data))] = r.choice((*NUMBERS, r.randrange(256)))
        with suppress(ValueError):
            assert len(to_text(bytes(data[: r.randrange(1, len(data) + 1)]))) <= 20 * len(data)


def nested(depth: int, references: int) -> bytes:
    """Arrays in arrays, each holding the next `references` times without holding its bytes more than once."""
    inner = b"\0\0\4\0"
    for _ in range(depth):
        head = 4 + 3 * references
        entries = b"\2" + head.to_bytes(2, "little")
        inner = (
            references.to_bytes(2, "little") + (head + len(inner)).to_bytes(2, "little") + entries * references + inner
        )
    return b"\2" + inner


def test_mysql_contract_json_that_would_never_end() -> None:
    assert to_text(nested(90, 1)) == b"[" * 91 + b"]" * 91
    begun = time.monotonic()
    with pytest.raises(ValueError, match="share their bytes"):
        to_text(nested(90, 2))
    with pytest.raises(ValueError, match="contains itself"):
        to_text(b"\2" + b"\1\0\7\0" + b"\2\0\0")
    with pytest.raises(ValueError, match="five bytes"):
        to_text(b"\x0c" + b"\xff" * 50_000)
    assert time.monotonic() - begun < LONGEST


def payload(events: bytes, whole: int | None = None) -> bytes:
    """A transaction payload with these events, as a packet that stands nowhere."""
    data = pa.compress(events, codec="zstd", asbytes=True)
    head = b"".join(
        bytes((field, 9, 0xFE)) + value.to_bytes(8, "little")
        for field, value in ((2, 0), (1, len(data)), (3, len(events) if whole is None else whole))
    )
    body = head + b"\0" + data
    header = struct.pack("<IBIIIH", 0, 40, 1, 19 + len(body) + 4, 0, 0)
    return framed(bytes(5) + header + body + bytes(4))


@pytest.mark.parametrize("length", [0, 18, 19, 1 << 28, 0xFFFFFFFF])
def test_mysql_contract_a_payload_that_would_fill_the_memory(case: Callable, length: int) -> None:
    """64 MB of zeros in two kilobytes, as one event of that length or many of none."""
    one = case("mysql-transactions")
    place = max(i for i, packet in enumerate(one.packets) if packet[9] == 16)
    bomb = payload(struct.pack("<IBIIIH", 0, 99, 1, length, 0, 0x80) + bytes(64 << 20))
    assert len(bomb) < 10_000
    error = one.check(place, bomb)
    assert isinstance(error, UnknownLogEvent)


def test_mysql_contract_a_wrong_checksum_is_the_lines_fault(case: Callable) -> None:
    one, r = case("mysql-transactions"), random.Random(5)
    place = max(i for i, packet in enumerate(one.packets) if packet[9] == TABLE_MAP)
    _, error = one.run(one.around(place, flip(r, one.packets[place])))
    assert isinstance(error, SourceUnavailable)
