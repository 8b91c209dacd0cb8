"""Places in a PostgreSQL's log, and what a snapshot contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.positions import (
    Place,
    Snapshot,
    WalOrder,
    began,
    left_at,
    lsn_of,
    lsn_text,
    place_of,
)

ORDER = WalOrder()


@given(st.integers(0, 2**64 - 1))
def test_positions_are_read_back(lsn: int) -> None:
    assert lsn_of(lsn_text(lsn)) == lsn == lsn_of(lsn_text(lsn).lower())


@pytest.mark.parametrize("text", ["", "16", "16/", "1/2/3", "G/1", "123456789/0"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no LSN"):
        lsn_of(text)


@pytest.mark.parametrize("resume", ["{}", '{"identity": "x", "offset": 1}', "[]", "no json"])
def test_what_is_no_place_is_refused(resume: str) -> None:
    with pytest.raises(ValueError):
        place_of(resume)


def test_order_is_the_number_s_and_not_the_text_s() -> None:
    mark = Place("here", lsn_of("A/0")).mark()
    assert ORDER.mark(mark.resume) == mark and not ORDER.is_set(mark)
    assert ORDER.includes(mark, "9/FFFFFFFF", None) and ORDER.includes(mark, "A/0", "5")
    assert not ORDER.includes(mark, "A/1", None) and not ORDER.includes(mark, "10/0", None)
    assert ORDER.bytes_between("9/FFFFFF00", mark) == 256 and ORDER.bytes_between("B/0", mark) == 0


def test_rule_14_a_snapshot_says_which_transactions_it_has() -> None:
    mark = Place("here", lsn_of("A/0"), "10:20:12,15").mark()
    assert ORDER.is_set(mark)
    seen = [xid for xid in range(3, 30) if ORDER.includes(mark, "A/0", str(xid))]
    assert seen == [*range(3, 12), 13, 14, *range(16, 20)]
    assert ORDER.includes(mark, "A/0", None) and not ORDER.includes(mark, "A/1", None)  # where all of it is before
    assert not ORDER.includes(mark, "A/1", "11")  # an id that the server gave out only later


@given(st.integers(2**31, 2**63), st.integers(-(2**31) + 1, 2**31 - 1))
def test_rule_14_ids_are_read_near_the_snapshot_also_where_they_begin_anew(xmax: int, distance: int) -> None:
    """Of 64 bits messages carry 32."""
    snapshot = Snapshot(xmax, xmax)
    assert snapshot.sees((xmax + distance) & 0xFFFFFFFF) == (distance < 0)


@given(st.integers(3, 2**40), st.sets(st.integers(0, 50)), st.integers(0, 60))
def test_snapshots_are_read_back(xmin: int, some: set[int], more: int) -> None:
    snapshot = Snapshot(xmin, xmin + 51 + more, frozenset(xmin + one for one in some))
    assert Snapshot.parse(str(snapshot)) == snapshot


def test_a_timeline_has_its_beginning_beside_its_number() -> None:
    history = [(1, lsn_of("0/A0")), (2, lsn_of("0/B0")), (4, lsn_of("0/C0"))]  # of a server that is on timeline 5
    assert [began(history, one) for one in (1, 2, 4, 5)] == ["", "1@0/A0", "2@0/B0", "4@0/C0"]
    assert began([], 2) == "" and left_at(history, 2) == lsn_of("0/B0") and left_at(history, 3) is None
    place = Place("here", 7, timeline=2, began="1@0/A0")
    assert place_of(place.at(9).mark().resume) == Place("here", 9, timeline=2, began="1@0/A0")
    assert "began" not in Place("here", 7, timeline=1).mark().resume
    assert place_of(ORDER.place("0/5", place.mark()).resume).began == "1@0/A0"


def test_a_place_is_an_lsn_or_a_snapshot_up_to_now() -> None:
    now = Place("here", lsn_of("A/0"), timeline=2, newest=20).mark()
    assert "newest" not in Place("here", lsn_of("A/0")).mark().resume  # an earlier release reads marks that are kept
    assert place_of(ORDER.place("9/1", now).resume) == Place("here", lsn_of("9/1"), timeline=2)
    assert place_of(ORDER.place("10:20:12,15", now).resume) == Place("here", lsn_of("A/0"), "10:20:12,15", 2)
    wrongs = {
        "A/1": "has not come to A/1",
        "20:10:": "no snapshot",
        "10:21:": "not come to transaction 21",
        "b.1:4": "no LSN",
    }
    for wrong, why in wrongs.items():
        with pytest.raises(ValueError, match=why):
            ORDER.place(wrong, now)
