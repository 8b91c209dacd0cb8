"""GTIDs with tags: sets as text and as bytes, and the event, as a MySQL 9.7.4 wrote them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.mysql.source.gtid_bytes import parse_tagged_gtid
from anabranch.connectors.mysql.source.positions import BinlogOrder, MysqlGtids, Place
from anabranch.connectors.mysql.source.snapshot import owned
from anabranch.errors import LogLost

OURS, GIVEN = "e8b5e9cf-e5d3-11f1-b084-02fc00000001", "3e11fa47-71ca-11e1-9e33-c80aa9429562"
LONG = "a_rather_long_tag_of_32_chars_xx"
SOURCES = [OURS, f"{OURS}:blue", f"{OURS}:{LONG}", GIVEN, f"{GIVEN}:blue"]
MEMBERS = st.sets(st.tuples(st.sampled_from(SOURCES), st.integers(1, 20)), max_size=40)

# Bodies of events, without header and checksum.
EVENTS = {
    f"{OURS}:blue:1": (
        "027800000002a103d502a5033d0395034d0322c503c102110204f1030000000204040608626c756508040a080c7f22b4b8ffcc600610a1"
        "041283120b",
        1_795_283_440_153_634,
    ),
    f"{OURS}:{LONG}:1": (
        "02b000000002a103d502a5033d0395034d0322c503c102110204f1030000000204040640615f7261746865725f6c6f6e675f7461675f6f"
        "665f33325f63686172735f787808040a100c7f36bab8ffcc60061011051283120b",
        1_795_283_440_155_190,
    ),
    f"{GIVEN}:green:9223372036854775000": (
        "0284000000027c22e9038ee22903228503790266210314a502845502c404ffb0f9ffffffffffff060a677265656e08040a200c7f46c1b8"
        "ffcc600610cd041283120b",
        1_795_283_440_156_998,
    ),
}
PREVIOUS = bytes.fromhex(
    "01060000000000013e11fa4771ca11e19e33c80aa9429562000100000000000000d8fcffffffffff7fd9fcffffffffff7f3e11fa4771ca11e1"
    "9e33c80aa942956208626c756501000000000000004d000000000000004e000000000000003e11fa4771ca11e19e33c80aa94295620a677265"
    "656e0100000000000000d8fcffffffffff7fd9fcffffffffff7fe8b5e9cfe5d311f1b08402fc00000001000100000000000000010000000000"
    "00000600000000000000e8b5e9cfe5d311f1b08402fc0000000140615f7261746865725f6c6f6e675f7461675f6f665f33325f63686172735f"
    "7878010000000000000001000000000000000200000000000000e8b5e9cfe5d311f1b08402fc0000000108626c756501000000000000000100"
    "0000000000000300000000000000"
)
PREVIOUS_TEXT = f"{GIVEN}:9223372036854775000:blue:77:green:9223372036854775000,{OURS}:1-5:{LONG}:1:blue:1-2"


@pytest.mark.parametrize("gtid", EVENTS)
def test_mysql_replay_tagged_events(gtid: str) -> None:
    body, time = EVENTS[gtid]
    source, number, committed = parse_tagged_gtid(bytes.fromhex(body))
    assert (f"{source}:{number}", committed) == (gtid, time)


def test_mysql_replay_a_set_with_tags() -> None:
    """Text and bytes as the server writes them."""
    found = MysqlGtids.decode(PREVIOUS)
    assert str(found) == PREVIOUS_TEXT and found.encode() == PREVIOUS
    assert MysqlGtids(PREVIOUS_TEXT.upper().replace(",", ",\n")).encode() == PREVIOUS
    assert found.contains(f"{OURS}:blue:2") and not found.contains(f"{OURS}:blue:3")
    assert found.contains(f"{OURS}:5") and not found.contains(f"{OURS}:green:1")


@given(MEMBERS, MEMBERS)
def test_rule_18_a_tag_counts_by_itself(ours: set[tuple[str, int]], theirs: set[tuple[str, int]]) -> None:
    mine, other = (MysqlGtids(",".join(f"{source}:{number}" for source, number in one)) for one in (ours, theirs))
    assert MysqlGtids(str(mine)).encode() == mine.encode() == MysqlGtids.decode(mine.encode()).encode()
    assert {(s, n) for s in SOURCES for n in range(1, 21) if mine.contains(f"{s}:{n}")} == ours
    missing = MysqlGtids(mine.missing_from(str(other)))
    assert {(s, n) for s in SOURCES for n in range(1, 21) if missing.contains(f"{s}:{n}")} == ours - theirs
    other.update(str(mine))
    assert mine.missing_from(str(other)) == ""


def test_mysql_contract_a_set_without_tags_is_written_as_before_them() -> None:
    assert MysqlGtids(f"{OURS}:1-3").encode()[:8] == (1).to_bytes(8, "little")
    assert len(MysqlGtids(f"{OURS}:1-3").encode()) == 8 + 16 + 8 + 16


def test_rule_18_a_mark_that_is_a_set_knows_tags() -> None:
    low = Place("server", "mysql", "binlog.000001", 900, gtid=f"{OURS}:1-5:blue:7", gtid_only=True).mark()
    asked = [f"{OURS}:7", f"{OURS}:blue:7", f"{OURS}:5", f"{OURS}:blue:5"]
    assert [BinlogOrder().includes(low, "binlog.000001:4", gtid) for gtid in asked] == [False, True, True, False]


@pytest.mark.parametrize(
    "data", [PREVIOUS[:-1], PREVIOUS[:7], PREVIOUS + b"\0", b"\xff" * 8, (1 << 55).to_bytes(8, "little")]
)
def test_pitfall_8_a_set_that_cannot_be_read_is_refused(data: bytes) -> None:
    """A count that the bytes cannot hold neither takes long nor much memory."""
    with pytest.raises(ValueError, match=r"cut short|behind a set"):
        MysqlGtids.decode(data)


@pytest.mark.parametrize("at", range(0, 60, 3))
def test_pitfall_8_a_tagged_event_cut_short_is_refused(at: int) -> None:
    body = bytes.fromhex(EVENTS[f"{OURS}:blue:1"][0])
    with pytest.raises(ValueError):
        parse_tagged_gtid(body[:at])


def test_rule_02_gtids_that_sessions_own() -> None:
    assert owned("") == frozenset()
    expected = {f"{OURS}:22", f"{OURS}:23", f"{GIVEN}:5", f"{GIVEN}:blue:1"}
    assert owned(f"{OURS}:22#61:23#7,\n{GIVEN}:5#8:blue:1#9") == expected


def test_rule_18_text_that_is_no_set_is_refused() -> None:
    for text in (f"{OURS}:1-5:no tag:3", f"{OURS}:{LONG}x:3", "nonsense:-"):
        with pytest.raises(ValueError):
            MysqlGtids(text)
    with pytest.raises(LogLost):
        BinlogOrder().mark("no json")
