"""Recorded logs, packed here as servers pack them: the same comes out; damaged ones end in an error with its place.

The events are the servers' own, the packing follows their documentation; live tests read what the servers pack themselves.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.connectors.mysql.source import endings, inner_events
from anabranch.connectors.mysql.source.json_partial import patched
from anabranch.errors import AnabranchError, UnknownLogEvent
from anabranch.rows.chunk import Part

QUERY, ROTATE, FORMAT, XID, GTIDS, PAYLOAD = 2, 4, 15, 16, (33, 34), 40
PACKED_KINDS = (PAYLOAD, *range(165, 172))
BEGIN = b"\0BEGIN"
ZSTD, NONE = 0, 255


def packets_of(stream: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(stream):
        stop = at + 4 + int.from_bytes(stream[at : at + 3], "little")
        yield stream[at:stop]
        at = stop


def event_of(packet: bytes) -> bytes:
    """Without its checksum."""
    return packet[5:-4]


def packet_of(event: bytes) -> bytes:
    """With its length and a right checksum."""
    event = event[:9] + struct.pack("<I", len(event) + 4) + event[13:]
    event += struct.pack("<I", zlib.crc32(event))
    return (len(event) + 1).to_bytes(3, "little") + b"\0\0" + event


def number(value: int) -> bytes:
    """A length-encoded integer."""
    return bytes((value,)) if value < 251 else b"\xfc" + struct.pack("<H", value) if value < 1 << 16 else b"\xfd" + (
        value.to_bytes(3, "little")
    )  # fmt: skip


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def payload_of(packets: list[bytes], method: int) -> bytes:
    """A transaction's events, from behind its GTID on, as one; it stands where the last of them does."""
    events = [event_of(packet) for packet in packets]
    inner = b"".join(event[:9] + struct.pack("<I", len(event)) + event[13:] for event in events)
    packed = zstd(inner) if method == ZSTD else inner
    fields = b""
    for kind, value in ((2, method), (3, len(inner)), (1, len(packed))):
        fields += number(kind) + number(len(number(value))) + number(value)
    last = events[-1]
    return packet_of(last[:4] + bytes((PAYLOAD,)) + last[5:19] + fields + b"\0" + packed)


def as_payloads(packets: list[bytes], method: int = ZSTD) -> Iterator[tuple[bytes, list[bytes]]]:
    inside: list[bytes] = []
    former = 0
    for packet in packets:
        if inside or (former in GTIDS and packet[9] == QUERY and packet[-10:-4] == BEGIN):
            inside.append(packet)
            if packet[9] == XID:
                yield payload_of(inside, method), inside
                inside = []
        else:
            yield packet, [packet]
        former = packet[9]
    yield from ((packet, [packet]) for packet in inside)


def deflated(data: bytes) -> bytes:
    return b"\x82" + struct.pack(">H", len(data)) + zlib.compress(data)


def as_compressed_rows(packets: list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Rows (v1) and statements of MariaDB."""
    for packet in packets:
        event, kind, packed = event_of(packet), packet[9], packet
        if kind in (23, 24, 25):
            at = 28 + (event[27] + 7) // 8 * (2 if kind == 24 else 1)
            packed = packet_of(event[:4] + bytes((kind + 143,)) + event[5:at] + deflated(event[at:]))
        elif kind == QUERY and packet[-10:-4] != BEGIN:
            *_, schema, _, status = struct.unpack_from("<IIBHH", event, 19)
            at = 19 + 13 + status + schema + 1
            packed = packet_of(event[:4] + b"\xa5" + event[5:at] + deflated(event[at:]))
        yield packed, [packet]


def placed(parts: Iterator[tuple[bytes, list[bytes]]]) -> list[bytes]:
    """Each event stands where the one before it ends, in its file."""
    found, lost = [], 0
    for packet, former in parts:
        lost += sum(len(one) - 5 for one in former) - (len(packet) - 5)
        (after,) = struct.unpack_from("<I", packet, 18)
        if after and lost and packet[9] not in (FORMAT, ROTATE):
            event = event_of(packet)
            packet = packet_of(event[:13] + struct.pack("<I", after - lost) + event[17:])
        elif packet[9] == ROTATE:
            event = packet[5:]
            packet = packet[:18] + struct.pack("<I", after - lost if after else 0) + packet[22:]
            if after:
                packet = packet_of(event_of(packet))
                lost = 0
        found.append(packet)
    return found


PACKED: dict[str, Callable[[list[bytes]], Iterator[tuple[bytes, list[bytes]]]]] = {
    "mysql": as_payloads,
    "mysql-plain": lambda packets: as_payloads(packets, NONE),
    "mariadb": as_compressed_rows,
}


def packed(how: str, stream: bytes) -> list[bytes]:
    return placed(PACKED[how](list(packets_of(stream))))


def without_places(told: list[Any]) -> list[Any]:
    return [entry[1:] if isinstance(entry, list) else entry for entry in told]


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("what", ["transactions", "types-full", "types-minimal"])
@pytest.mark.parametrize("block", [inner_events.BLOCK, 100])
def test_mysql_contract_what_is_packed_is_read_as_if_it_were_not(
    recording: Callable, told: Callable, monkeypatch: pytest.MonkeyPatch, how: str, what: str, block: int
) -> None:
    monkeypatch.setattr(inner_events, "BLOCK", block)
    found = recording(f"{how.partition('-')[0]}-{what}")
    packets = packed(how, found.stream)
    assert any(packet[9] in PACKED_KINDS for packet in packets)
    items = told(replace(found, stream=b"".join(packets)).items(97, eager=True))
    assert without_places(items) == without_places(found.expected)


def test_mysql_contract_a_payload_larger_than_a_chunk_comes_in_fragments(
    recording: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "FULL_IMAGES", 3)
    monkeypatch.setattr(inner_events, "BLOCK", 200)
    found = recording("mysql-types-full")
    plain = [(item.part, item.row_count) for item in found.items()]
    same = replace(found, stream=b"".join(packed("mysql", found.stream)))
    assert [(item.part, item.row_count) for item in same.items()] == plain
    assert Part.FRAGMENT in [part for part, _ in plain]


def damaged(draw: random.Random, packet: bytes) -> bytes:
    """With a right checksum: as if the log had none."""
    event = bytearray(event_of(packet))
    for _ in range(draw.choice((1, 1, 3))):
        at = draw.randrange(19, len(event))
        match draw.randrange(4):
            case 0:
                event[at] ^= 1 << draw.randrange(8)
            case 1:
                event[at] = draw.choice((0, 0x7F, 0x80, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF))
            case 2:
                del event[at : at + draw.randrange(1, 9)]
            case 3:
                event[at:at] = draw.randbytes(draw.randrange(1, 9))
    return packet_of(bytes(event))


@pytest.mark.parametrize("how", PACKED)
def test_mysql_contract_damaged_packed_events_end_in_an_error_of_ours(recording: Callable, how: str) -> None:
    found = recording(f"{how.partition('-')[0]}-transactions")
    packets = packed(how, found.stream)
    places = [place for place, packet in enumerate(packets) if packet[9] in PACKED_KINDS]
    draw, errors = random.Random(40), 0
    for _ in range(150):
        place = draw.choice(places)
        stream = b"".join([*packets[:place], damaged(draw, packets[place]), *packets[place + 1 :]])
        try:
            replace(found, stream=stream).items()
        except AnabranchError as error:
            assert error.position and error.hint
            errors += 1
    assert errors > 40


def test_mysql_contract_a_payload_that_claims_more_than_it_has_takes_no_memory(recording: Callable) -> None:
    found = recording("mysql-transactions")
    packets = packed("mysql", found.stream)
    place = next(place for place, packet in enumerate(packets) if packet[9] == PAYLOAD)
    head = event_of(packets[place])[:13] + bytes(6)  # it stands nowhere
    tracemalloc.start()
    for inner in (struct.pack("<IBIIIH", 0, 30, 1, 0xFFFFFFF0, 0, 0) + bytes(50), bytes(100), b"", bytes(9)):
        data = zstd(inner)
        for size in (len(inner), 1 << 60) if inner else (1 << 60,):
            fields = b"\x02\x01\0\x03\x09\xfe" + struct.pack("<Q", size) + b"\x01\x01" + number(len(data)) + b"\0"
            stream = b"".join([*packets[:place], packet_of(head + fields + data)])
            with pytest.raises(UnknownLogEvent, match="transaction payload") as refused:
                replace(found, stream=stream).items()
            assert refused.value.position and refused.value.hint
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize(
    ("before", "differences", "after"),
    [
        (b'{"a": 1}', b"", b'{"a": 1}'),
        (b'{"bb": -0.0, "ccc": 1e100}', b"\x01\x03$.a\x02\x04\x01", b'{"a": true, "bb": -0.0, "ccc": 1e100}'),
        (b"[1, 2]", b"\x00\x04$[1]\x03\x0c\x01z\x01\x04$[9]\x02\x04\x00", b'[1, "z", null]'),
        (b'{"a b": [[], {}]}', b'\x02\x0a$."a b"[1]', b'{"a b": [[]]}'),
    ],
)
def test_mysql_contract_differences_of_documents(before: bytes, differences: bytes, after: bytes) -> None:
    assert patched(before, differences) == after


@pytest.mark.parametrize(
    "differences",
    [
        b"\x00\x03$.x\x02\x04\x01", b"\x01\x03$.a\x02\x04\x01", b"\x02\x01$", b"\x02\x04$[0]",
        b"\x05\x03$.a\x02\x04\x01", b"\x00\x09$",
    ],
)  # fmt: skip
def test_mysql_contract_differences_that_lead_nowhere_are_refused(differences: bytes) -> None:
    with pytest.raises((ValueError, LookupError)):
        patched(b'{"a": 1}', differences)


def test_damaged_differences_are_refused_or_give_a_document() -> None:
    draw: Any = random.Random(39)
    whole = b'\x00\x04$[1]\x03\x0c\x01z\x01\x04$[9]\x02\x04\x00\x01\x08$[0]."q"\x02\x04\x01'
    for _ in range(2000):
        damaged_ones = bytearray(whole)
        damaged_ones[draw.randrange(len(whole))] = draw.randrange(256)
        try:
            assert patched(b'[{"p": 1}, 2]', bytes(damaged_ones))[:1] in b'[{"0123456789tfn-'
        except (ValueError, LookupError, struct.error):
            continue
