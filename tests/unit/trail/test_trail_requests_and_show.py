"""The mailbox for tables, and rows as people read them."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.rows.chunk import Barrier, BarrierKind
from anabranch.trail import repairs, requests
from anabranch.trail.reader import chunks
from anabranch.trail.show import ShownRow, show, shown_time


def test_table_is_asked_for_and_granted(tmp_path, samples):
    assert requests.pending(tmp_path) == [] and requests.answer(tmp_path, samples.NOTES) is None
    first = requests.request_table(tmp_path, samples.NOTES)
    assert requests.request_table(tmp_path, samples.NOTES) == first
    second = requests.request_table(tmp_path, samples.ORDERS)
    assert requests.pending(tmp_path) == [first, second]
    requests.done(tmp_path, samples.NOTES, 42)
    requests.refuse(tmp_path, samples.ORDERS, "no such table")
    assert requests.pending(tmp_path) == []
    granted, refused = requests.answer(tmp_path, samples.NOTES), requests.answer(tmp_path, samples.ORDERS)
    assert granted and (granted.sequence, granted.id) == (42, first.id)
    assert refused and refused.refusal == "no such table" and not refused.is_pending
    assert requests.request_table(tmp_path, samples.NOTES).id != first.id
    requests.withdraw(tmp_path, samples.NOTES)
    requests.withdraw(tmp_path, samples.NOTES)
    assert requests.pending(tmp_path) == []


def test_loads_are_asked_for_in_a_box_of_their_own(tmp_path, samples):
    asked = requests.request_table(tmp_path, samples.NOTES, requests.LOADS)
    assert requests.pending(tmp_path) == [] and requests.pending(tmp_path, requests.LOADS) == [asked]
    requests.done(tmp_path, samples.NOTES, 3, requests.LOADS)
    found = requests.answer(tmp_path, samples.NOTES, requests.LOADS)
    assert found is not None and found.sequence == 3 and requests.answer(tmp_path, samples.NOTES) is None
    requests.withdraw(tmp_path, samples.NOTES, requests.LOADS)
    assert requests.answer(tmp_path, samples.NOTES, requests.LOADS) is None


@pytest.mark.parametrize("box", [requests.FOLDER, requests.LOADS])
def test_a_long_name_of_a_table_has_a_file(tmp_path, box):
    """Letters beyond ASCII take six bytes and more of a file's name: such a table could not be loaded again."""
    tables = [TableId("商店", "订单" * 14 + end) for end in "ab"]
    asked = [requests.request_table(tmp_path, table, box) for table in tables]
    requests.done(tmp_path, tables[0], 7, box)
    assert requests.pending(tmp_path, box) == asked[1:]
    requests.withdraw(tmp_path, tables[1], box)
    assert requests.answer(tmp_path, tables[1], box) is None
    assert (found := requests.answer(tmp_path, tables[0], box)) is not None and found.sequence == 7


def test_a_file_that_a_release_before_could_make_has_its_name(tmp_path):
    """It may wait when the release changes."""
    table = TableId("商店", "订单" * 10)
    name = f"{quote(str(table), safe='')}.json"
    requests.request_table(tmp_path, table)
    repairs.ask(tmp_path / "repairs", table, [{"id": "1"}], [])
    assert len(name) > 200
    assert (tmp_path / requests.FOLDER / name).exists() and (tmp_path / "repairs" / name).exists()


def test_the_repair_of_a_table_with_a_long_name_has_a_file(tmp_path):
    tables = [TableId("商店", "订单" * 14 + end) for end in "ab"]
    for table in tables:
        repairs.ask(tmp_path / "repairs", table, [{"id": "1"}], [])
    assert {one.table for one in repairs.asked(tmp_path / "repairs")} == set(tables)


def test_nobody_asked(tmp_path, samples):
    with pytest.raises(TrailError, match="nobody asked"):
        requests.done(tmp_path, samples.ORDERS, 1)


def test_damaged_request_is_named(tmp_path, samples):
    requests.request_table(tmp_path, samples.ORDERS)
    (tmp_path / "requests" / "shop.orders.json").write_text("nothing")
    with pytest.raises(TrailCorrupt, match=r"shop\.orders"):
        requests.pending(tmp_path)


@pytest.fixture
def reader(open_writer, open_reader, samples):
    writer = open_writer()
    barrier = Barrier(2, 9, BarrierKind.TRUNCATE, samples.ORDERS, statement="TRUNCATE orders")
    writer.append(samples.chunk(1, 6, barriers=(barrier,)))
    for fragment in samples.large(7):
        writer.append(fragment)
    writer.flush()
    return open_reader()


def test_rows_in_the_order_of_the_log(reader, samples):
    rows = list(show(reader, after=0))
    shown = [(r.position.sequence, str(r.table), r.values.get("id")) for r in rows if r.operation == "insert"]
    expected = samples.expected_rows(1, 7, with_large=True)
    assert shown == [(n, name, str(key)) for n, found in expected.items() for name, key, _ in found]
    assert {r.position for r in rows if r.position.sequence == 7} == {Position(7, "log:7")}
    assert str(rows[0]) == f"1@log:1  1970-01-01T00:00:00.001000Z  {rows[0].table}  insert  id='10' note='note 1/0 ü'"
    third = next(r for r in rows if r.values.get("id") == "32")
    assert "note" not in third.values
    truncate = next(r for r in rows if r.operation == "truncate")
    assert (truncate.position.sequence, truncate.note) == (3, "TRUNCATE orders")


def test_rows_by_position_table_and_key(reader, samples):
    assert {r.position.sequence for r in show(reader, after=4, upto=5)} == {5}
    assert {r.table for r in show(reader, after=0, table=samples.NOTES)} == {samples.NOTES}
    (row,) = show(reader, after=0, key={"id": "73"})
    assert (row.position.sequence, row.table) == (7, samples.ORDERS)
    assert list(show(reader, after=0, table=samples.NOTES, key={"id": "73"})) == []


def test_rule_01_an_image_of_a_session_with_foreign_keys_off_says_so(open_writer, open_reader, samples):
    chunk = samples.chunk(2, 3)
    off = replace(chunk.tables[0], shapes=tuple(replace(s, keys_off=True) for s in chunk.tables[0].shapes))
    writer = open_writer()
    writer.append(replace(chunk, tables=(off, *chunk.tables[1:])))
    writer.flush()
    reader = open_reader()
    (read,) = chunks(reader, 0)
    assert [[s.keys_off for s in rows.shapes] for rows in read.tables] == [[True, True], [False, False]]
    assert [s.present for s in read.tables[0].shapes] == [s.present for s in off.shapes]
    assert {(r.table, r.note) for r in show(reader, after=0)} == {
        (off.table, "(foreign keys were off)"), (chunk.tables[1].table, ""),
    }  # fmt: skip


def test_null_is_told_from_the_text_null():
    values = {"id": "1", "a": None, "b": "NULL", "c": "it's"}
    shown = str(ShownRow(Position(1, "log:1"), None, 0, 0, TableId("shop", "notes"), "insert", values))
    assert shown.endswith("insert  id='1' a=NULL b='NULL' c=\"it's\"")


def test_unknown_time_is_empty():
    assert shown_time(0) == ""


def test_whoever_shares_a_request_asks_for_itself_when_that_is_withdrawn(tmp_path, samples):
    """The second one waited for ever for an answer to a request that nobody saw any more."""
    north, south = (requests.Asking(tmp_path, samples.NOTES, requests.LOADS) for _ in range(2))
    assert len(requests.pending(tmp_path, requests.LOADS)) == 1
    south.withdraw()  # it is the other one's
    (first,) = requests.pending(tmp_path, requests.LOADS)
    north.withdraw()
    assert requests.pending(tmp_path, requests.LOADS) == []
    assert south.answer() is None
    (second,) = requests.pending(tmp_path, requests.LOADS)
    assert second.id != first.id
    requests.done(tmp_path, samples.NOTES, 4, requests.LOADS)
    answered = south.answer()
    assert answered is not None and answered.sequence == 4
    north = requests.Asking(tmp_path, samples.NOTES, requests.LOADS)
    assert north.answer() is None and south.answer() is None  # asked anew before that one looked: both wait for this
    requests.refuse(tmp_path, samples.NOTES, "no", requests.LOADS)
    assert [one and one.refusal for one in (north.answer(), south.answer())] == ["no", "no"]
