"""Sets of GTIDs and places in a log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.mysql.source.positions import (
    BinlogOrder,
    MariadbGtids,
    MysqlGtids,
    Place,
    file_number,
    place_of,
)
from anabranch.errors import LogLost
from anabranch.model.position import LogMark

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563"
NUMBERS = st.lists(st.integers(1, 60), max_size=40)


@given(NUMBERS, NUMBERS)
def test_rule_18_mysql_sets_are_sets(ours: list[int], theirs: list[int]) -> None:
    mine, other = MysqlGtids(), MysqlGtids()
    for number in ours:
        mine.add(f"{A}:{number}")
    for number in theirs:
        other.add_interval(A, number, number)
    assert str(MysqlGtids(str(mine))) == str(mine)
    assert str(MysqlGtids.decode(mine.encode())) == str(mine)
    assert [n for n in range(1, 61) if mine.contains(f"{A}:{n}")] == sorted(set(ours))
    assert not mine.contains(f"{B}:1")
    missing = MysqlGtids(mine.missing_from(str(other)))
    assert [n for n in range(1, 61) if missing.contains(f"{A}:{n}")] == sorted(set(ours) - set(theirs))
    other.update(str(mine))
    assert mine.missing_from(str(other)) == ""


def test_rule_18_mysql_sets_are_normalised() -> None:
    text = f"{B.upper()}:5,\n{A}:7-9:1-3,{A}:4-6"
    assert str(MysqlGtids(text)) == f"{A}:1-9,{B}:5"
    assert str(MysqlGtids("")) == ""


def test_rule_18_mariadb_sets_are_positions_per_domain() -> None:
    ours = MariadbGtids("1-5-7,0-1-100")
    assert str(ours) == "0-1-100,1-5-7"
    assert ours.contains("0-9-100") and not ours.contains("0-1-101") and not ours.contains("2-1-1")
    ours.add("0-2-101")
    assert str(ours) == "0-2-101,1-5-7"
    assert ours.missing_from("0-1-200") == "1-5-7"
    assert ours.missing_from("0-1-101,1-1-7") == ""


def mark(file: str, offset: int, **facts: object) -> LogMark:
    return Place("server", "mysql", file, offset, **facts).mark(5)


def test_pitfall_25_order_is_the_files_number_not_its_text() -> None:
    order = BinlogOrder()
    at = mark("binlog.1000000", 500)
    assert order.includes(at, "binlog.999999:90000", None)
    assert order.includes(at, "binlog.1000000:500", None)
    assert not order.includes(at, "binlog.1000000:501", None)
    assert not order.includes(at, "binlog.1000001:4", None)
    with pytest.raises(LogLost, match="changed its name"):
        order.includes(at, "mysql-bin.000001:4", None)
    assert file_number("a.b-c.000012") == ("a.b-c", 12)
    with pytest.raises(LogLost):
        file_number("binlog")


def test_rule_18_a_set_says_what_it_lacks_of_where_a_trail_begins() -> None:
    order, whole = BinlogOrder(), f"{A}:1-60,{B}:5"
    begun = mark("binlog.000001", 4, gtid=whole)
    for gtid, lacking in (
        (f"{A}:1-80,{B}:1-9", ""),
        (f"{A}:1-50:52-80,{B}:5", f"{A}:51"),
        (f"{A}:1-80", f"{B}:5"),
    ):
        assert order.lacks(mark("binlog.000002", 4, gtid=gtid, gtid_only=True), begun) == lacking
    for unknown in (mark("binlog.000001", 4), mark("binlog.000001", 4, gtid=whole, anonymous=True)):
        with pytest.raises(ValueError, match="give file and offset"):
            order.lacks(mark("binlog.000002", 4, gtid=whole, gtid_only=True), unknown)
    now = Place("server", "mariadb", "log.000002", 4, gtid="0-1-7", gtid_only=True).mark()
    assert order.lacks(now, Place("server", "mariadb", "log.000001", 4, gtid="0-1-5,1-1-3").mark()) == "1-1-3"


def test_rule_18_a_mark_that_is_a_set_goes_by_membership() -> None:
    order = BinlogOrder()
    low = mark("binlog.000001", 900, gtid=f"{A}:1-5:9", gtid_only=True)
    assert order.is_set(low) and not order.is_set(mark("binlog.000001", 4))
    assert [n for n in range(1, 12) if order.includes(low, "binlog.000001:4", f"{A}:{n}")] == [1, 2, 3, 4, 5, 9]
    ends = [order.includes(low, f"binlog.{number}:{end}", None) for number, end in ((1, 900), (1, 901), (2, 4))]
    assert ends == [True, False, False], "what has no GTID goes by its place"


def test_mysql_marks_survive_their_text() -> None:
    one = mark("binlog.000001", 900, gtid=f"{A}:1-5", created=77)
    again = BinlogOrder().mark(one.resume)
    assert (again.native, again.resume) == (one.native, one.resume) == ("binlog.000001:900", one.resume)
    for nonsense in ("", "{}", "[1]", '{"lsn": 5}'):
        with pytest.raises(LogLost):
            place_of(nonsense)


SIZES = {"bin.000009": 500, "bin.000010": 70, "bin.999999": 1, "bin.1000000": 8, "other.000001": 3}


@pytest.mark.parametrize(
    ("native", "file", "expected"),
    [
        ("bin.000010:4", "bin.000010", 8),
        ("bin.000009:100", "bin.000010", 400 + 12),
        ("bin.999999:1", "bin.1000000", 12),
        ("bin.000008:100", "bin.000010", None),
        ("bin.000010:4", "bin.000012", None),
        ("bin.000010:4", "bin.000009", None),
        ("other.000001:0", "bin.000010", None),
    ],
)
def test_bytes_between_two_places_are_counted_over_the_files(native: str, file: str, expected: int | None) -> None:
    later = Place("server", "mysql", file, 12).mark()
    assert BinlogOrder().bytes_between(native, later, SIZES) == expected
    assert BinlogOrder().bytes_between(native, later) == (8 if native.startswith(file) else None)


@pytest.mark.parametrize(
    ("family", "known", "part"), [("mysql", f"{A}:1-9", f"{A}:1-4"), ("mariadb", "0-1-9", "0-1-4")]
)
def test_a_place_is_a_file_s_or_a_set_of_what_the_server_has(family: str, known: str, part: str) -> None:
    now = Place("here", family, "b.000003", 500, known).mark()
    assert place_of(BinlogOrder().place("b.000002:900", now).resume) == Place("here", family, "b.000002", 900)
    found = BinlogOrder().place(part, now)
    assert place_of(found.resume) == Place("here", family, "b.000003", 500, part, gtid_only=True)
    assert BinlogOrder().includes(found, "b.000003:400", None) and BinlogOrder().is_set(found)
    for wrong, why in (
        ("b.000003:501", "has not come to"),
        ("c.000001:4", "has not come to"),
        ("somewhere", "neither a place"),
        (f"{A}:10" if family == "mysql" else "0-1-10", "does not have"),
    ):
        with pytest.raises(ValueError, match=why):
            BinlogOrder().place(wrong, now)
    mixed = Place("here", family, "b.000003", 500, known, anonymous=True).mark()
    with pytest.raises(ValueError, match="transactions without GTIDs"):
        BinlogOrder().place(part, mixed)
