"""Logs recorded from real servers, read again: in blocks of any size, taken at any moment, the same comes out."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from anabranch.connectors.mysql.source import binlog, endings
from anabranch.connectors.mysql.source.positions import place_of
from anabranch.contracts import ValueRules
from anabranch.errors import LogLost, SchemaError, SourceUnavailable, UnknownLogEvent, ValueRefused
from anabranch.rows.chunk import BarrierKind, Part
from anabranch.rows.log_items import LogAbandoned, LogStatement

FAMILIES = ["mariadb", "mysql"]
RECORDINGS = [f"{family}-{what}" for family in FAMILIES for what in (
    "types-full", "types-minimal", "types-noblob", "transactions")]  # fmt: skip


def events(stream: bytes) -> list[bytes]:
    """The packets of a recording."""
    found, at = [], 0
    while at < len(stream):
        stop = at + 4 + int.from_bytes(stream[at : at + 3], "little")
        found.append(stream[at:stop])
        at = stop
    return found


def kind(packet: bytes) -> int:
    return packet[9]


def changed(packet: bytes, kind: int | None = None, flags: int | None = None, checksum: bool = True) -> bytes:
    """A packet with another event type or flags and a right checksum."""
    data = bytearray(packet)
    if kind is not None:
        data[9] = kind
    if flags is not None:
        data[22:24] = struct.pack("<H", flags)
    if checksum:
        data[-4:] = struct.pack("<I", zlib.crc32(data[5:-4]))
    return bytes(data)


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("size, eager", [(1 << 18, False), (4096, True), (97, True), (1, False)])
def test_mysql_replay_is_the_same_in_any_blocks(recording: Callable, told: Callable, name: str, size: int, eager: bool):
    found = recording(name)
    if size == 1:
        found = replace(found, stream=found.stream[:8000], expected=[])
        assert told(found.items(1)) == told(found.items())
        return
    assert told(found.items(size, eager=eager)) == found.expected


@pytest.mark.parametrize("name", ["mariadb-transactions", "mysql-transactions"])
def test_mysql_replay_from_every_mark(recording: Callable, told: Callable, name: str) -> None:
    """The mark of a chunk leads to the events that come after it, and to nothing before."""
    found = recording(name)
    items = found.items(97, eager=True)
    for place, item in enumerate(items):
        mark = place_of(item.mark.resume if isinstance(item, LogStatement) else item.resume)
        rest = told(items[place + 1 :])
        natives = [entry[0] for entry in rest if isinstance(entry, list)]
        order = [(n.rpartition(":")[0], int(n.rpartition(":")[2])) for n in natives]
        assert all(position > (mark.file, mark.offset) for position in order)
        assert mark.gtid


@pytest.mark.parametrize("family", FAMILIES)
def test_mysql_replay_fragments_of_a_large_transaction(
    recording: Callable, told: Callable, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    monkeypatch.setattr(endings, "FULL_IMAGES", 3)
    found = recording(f"{family}-types-full")
    items = found.items()
    parts = [item.part for item in items]
    assert Part.FRAGMENT in parts and parts.count(Part.LAST) >= 1
    images, open_images = [], []
    for item in items:
        told_now = told([item])
        if item.part is Part.WHOLE:
            assert not open_images
            images += told_now
        else:
            open_images += told_now[0][2]
            assert [t["rows"] for t in item.transactions.to_pylist()] == [item.row_count]
            if item.part is Part.LAST:
                images.append([*told_now[0][:2], open_images])
                open_images = []
    assert images == found.expected


@pytest.mark.parametrize("family", FAMILIES)
def test_pitfall_32_replay_of_zero_dates(recording: Callable, told: Callable, family: str) -> None:
    found = recording(f"{family}-zero-dates")
    assert told(found.items(rules=ValueRules(zero_date="null"))) == found.expected
    assembler = found.assembler()
    assembler.feed(found.stream)
    assembler.advance()
    first = assembler.ready.popleft()
    assert first.row_count == 1, "what is whole before the value comes first"
    with pytest.raises(ValueRefused) as refused:
        assembler.advance()
    assert "column d of the row with id=3 holds 2024-00-15" in str(refused.value)
    assert '[types] zero_date = "null"' in refused.value.hint


@pytest.mark.parametrize("family", FAMILIES)
def test_mysql_replay_a_wrong_checksum_is_a_lost_line(recording: Callable, family: str) -> None:
    found = recording(f"{family}-types-full")
    broken = bytearray(found.stream)
    broken[len(broken) // 2] ^= 1
    with pytest.raises((SourceUnavailable, UnknownLogEvent)) as lost:
        replace(found, stream=bytes(broken)).items()
    assert isinstance(lost.value, SourceUnavailable) and "checksum" in lost.value.message


@pytest.mark.parametrize("family", FAMILIES)
def test_pitfall_8_unknown_events_stop_unless_they_may_be_ignored(
    recording: Callable, told: Callable, family: str
) -> None:
    found = recording(f"{family}-transactions")
    packets = events(found.stream)
    place = next(i for i, packet in enumerate(packets) if kind(packet) == 16)
    odd = changed(packets[place], kind=99, flags=0)
    stream = b"".join([*packets[:place], odd])
    with pytest.raises(UnknownLogEvent, match="unknown type 99") as refused:
        replace(found, stream=stream).items()
    assert refused.value.position
    ignorable = changed(packets[place][:18] + bytes(4) + packets[place][22:], kind=99, flags=0x80 | 0x20)
    stream = b"".join([*packets[:place], ignorable, *packets[place:]])
    assert told(replace(found, stream=stream).items()) == found.expected


@pytest.mark.parametrize("number, name", [(40, "payload"), (6, "load"), (165, "compressed")])
@pytest.mark.parametrize("family", FAMILIES)
def test_pitfall_8_refused_events_stop_with_a_remedy(recording: Callable, family: str, number: int, name: str) -> None:
    found = recording(f"{family}-transactions")
    packets = events(found.stream)
    place = next(i for i, packet in enumerate(packets) if kind(packet) == 16)
    stream = b"".join([*packets[:place], changed(packets[place], kind=number)])
    with pytest.raises(UnknownLogEvent, match=name) as refused:
        replace(found, stream=stream).items()
    assert refused.value.hint and refused.value.position


def packet(kind: int, body: bytes) -> bytes:
    """An event that stands nowhere, with a checksum."""
    event = struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body) + 4, 0, 0) + body
    event += struct.pack("<I", zlib.crc32(event))
    return (len(event) + 1).to_bytes(3, "little") + b"\0\0" + event


def test_mysql_contract_a_group_that_changes_its_view_says_nothing_of_rows(recording: Callable, told: Callable) -> None:
    """Group replication logs it as a transaction of its own: GTID, BEGIN, the view (its name, a number, certification), COMMIT.
    https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1View__change__event.html"""
    found = recording("mysql-transactions")
    packets = events(found.stream)
    place = next(i for i, one in enumerate(packets) if kind(one) == 16) + 1
    group = bytes.fromhex("aaaaaaaabbbbccccddddeeeeeeeeeeee")
    gtid = packet(33, struct.pack("<B16sqBqq", 0, group, 7, 2, 0, 1) + bytes(7))
    begin, commit = (packet(2, struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0" + text) for text in (b"BEGIN", b"COMMIT"))
    view = packet(37, b"15918274:3".ljust(40, b"\0") + struct.pack("<QI", 9, 1) + b"\x01\0k\x01\0\0\0v")
    changed_log = replace(found, stream=b"".join([*packets[:place], gtid, begin, view, commit, *packets[place:]]))
    assert told(changed_log.items()) == found.expected
    gtids = place_of(changed_log.items()[-1].resume).gtid
    assert "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:7" in gtids


@pytest.mark.parametrize("number", sorted(binlog.HARMLESS))
def test_mysql_contract_events_that_carry_nothing_are_passed_over(
    recording: Callable, told: Callable, number: int
) -> None:
    found = recording("mysql-transactions")
    packets = events(found.stream)
    place = next(i for i, one in enumerate(packets) if kind(one) == 16)
    stream = b"".join([*packets[:place], packet(number, bytes(range(60))), *packets[place:]])
    assert told(replace(found, stream=stream).items()) == found.expected


def test_pitfall_26_an_incident_is_a_gap(recording: Callable) -> None:
    found = recording("mysql-transactions")
    packets = events(found.stream)
    place = next(i for i, packet in enumerate(packets) if kind(packet) == 16)
    with pytest.raises(LogLost, match="gap"):
        replace(found, stream=b"".join([*packets[:place], changed(packets[place], kind=26)])).items()


@pytest.mark.parametrize("family", FAMILIES)
def test_rule_18_a_file_that_was_begun_again_is_refused(recording: Callable, family: str) -> None:
    found = recording(f"{family}-transactions")
    place = place_of(found.resume)
    with pytest.raises(LogLost, match="its log was reset"):
        replace(found, resume=replace(place, created=4711).mark().resume).items()


@pytest.mark.parametrize("family", FAMILIES)
def test_rule_19_rows_that_the_definition_cannot_hold_park(recording: Callable, family: str) -> None:
    found = recording(f"{family}-transactions")
    (table,) = (schema for schema in found.tables.values())
    shorter = replace(table, columns=table.columns[:-1])
    assembler = found.assembler(select={table.id: shorter}.get)
    assembler.feed(found.stream)
    items = []
    assembler.advance()
    while assembler.ready:
        items.append(assembler.ready.popleft())
        assembler.advance()
    barriers = [b for item in items if not isinstance(item, LogStatement) for b in item.barriers]
    assert [(b.kind, b.table) for b in barriers] == [(BarrierKind.PARK, table.id)]
    assert "the log has 3 columns, the definition 2" in barriers[0].reason
    assert sum(item.row_count for item in items if not isinstance(item, LogStatement)) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_mysql_replay_rows_cut_short_are_a_schema_error(recording: Callable, family: str) -> None:
    found = recording(f"{family}-transactions")
    packets = events(found.stream)
    place = next(i for i, packet in enumerate(packets) if kind(packet) in (23, 30))
    data = bytearray(packets[place][:-6] + packets[place][-4:])
    data[0:3] = (len(data) - 4).to_bytes(3, "little")
    stream = b"".join([*packets[:place], changed(bytes(data))])
    with pytest.raises(SchemaError, match="the rows of an INSERT in the log do not fit") as refused:
        replace(found, stream=stream).items()
    assert refused.value.table and refused.value.position and "load again" in refused.value.hint


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("where", ["name", "columns"])
def test_mysql_replay_a_table_map_that_cannot_be_read_is_named(recording: Callable, family: str, where: str) -> None:
    found = recording(f"{family}-transactions")
    packets = events(found.stream)
    place = next(i for i, packet in enumerate(packets) if kind(packet) == 19)
    data = bytearray(packets[place])
    schema = 24 + 8  # the length of its name; the table's name comes behind it, then the number of columns
    table = schema + data[schema] + 2
    data[schema + 1 if where == "name" else table + data[table] + 2] = 0xFF
    stream = b"".join([*packets[:place], changed(bytes(data))])
    with pytest.raises(UnknownLogEvent, match="cannot be read") as refused:
        replace(found, stream=stream).items()
    assert refused.value.position and refused.value.hint
    assert (refused.value.table is None) is (where == "name")


@pytest.mark.parametrize("family", FAMILIES)
def test_mysql_replay_a_transaction_the_server_died_in_is_dropped(
    recording: Callable, told: Callable, family: str
) -> None:
    """A crash leaves the file's last transaction without an end; the next file begins with its own description."""
    found = recording(f"{family}-transactions")
    packets = events(found.stream)
    rotate = max(i for i, packet in enumerate(packets) if kind(packet) == 4 and packet[18:22] == b"\0\0\0\0")
    end = max(i for i, packet in enumerate(packets[:rotate]) if kind(packet) == 16)
    kept = [packet for i, packet in enumerate(packets) if not end <= i < rotate]
    items = told(replace(found, stream=b"".join(kept)).items())
    lost = [entry for entry in found.expected if entry not in items]
    assert len([entry for entry in lost if isinstance(entry, list)]) == 1 and items[-1] == found.expected[-1]


@pytest.mark.parametrize("family", FAMILIES)
def test_mysql_replay_fragments_of_a_transaction_the_server_died_in_are_taken_back(
    recording: Callable, told: Callable, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """They have left already: what comes behind them says that they do not count, and where the log goes on."""
    monkeypatch.setattr(endings, "FULL_IMAGES", 1)
    found = recording(f"{family}-transactions")
    packets = events(found.stream)
    rotate = max(i for i, packet in enumerate(packets) if kind(packet) == 4 and packet[18:22] == b"\0\0\0\0")
    end = max(i for i, packet in enumerate(packets[:rotate]) if kind(packet) == 16)
    kept = b"".join(packet for i, packet in enumerate(packets) if not end <= i < rotate)
    items = replace(found, stream=kept).items()
    (place,) = (i for i, item in enumerate(items) if isinstance(item, LogAbandoned))
    assert items[place - 1].part is Part.FRAGMENT and items[place + 1].part is not Part.LAST
    gone, next_file = place_of(items[place].mark.resume), place_of(items[-1].resume).file
    assert (gone.file, gone.gtid) == (next_file, place_of(items[place - 1].resume).gtid) and gone.offset < 1000
    rest = [entry for entry in told(items[place + 1 :]) if isinstance(entry, list)]
    assert [entry[0] for entry in rest if entry[0]] == [found.expected[-1][0]]


@pytest.mark.parametrize("family", FAMILIES)
def test_mysql_replay_a_prepared_transaction_decided_inside_another_is_refused(
    recording: Callable, family: str
) -> None:
    """Rows that wait for an end would count for the wrong one."""
    found = recording(f"{family}-transactions")
    packets = events(found.stream)
    end = next(i for i, packet in enumerate(packets) if kind(packet) == 16)
    assembler = replace(found, stream=b"").assembler()
    assembler.feed(b"".join(packets[:end]))
    assembler.advance()
    for verb in ("COMMIT", "ROLLBACK"):
        body = struct.pack("<IIBHH", 0, 0, 0, 0, 0) + b"\0XA " + verb.encode() + b" X'61',X'',1"
        with pytest.raises(UnknownLogEvent, match="inside another") as refused:
            assembler._endings.query(body, 0)
        assert refused.value.position
