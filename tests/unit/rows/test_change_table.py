"""Rows of a change table: places that sort as the log does, masks, and images that lack something."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.appended import TableChanges
from anabranch.rows.change_table import change_rows, lsns
from anabranch.rows.chunk import Op
from anabranch.rows.net import TargetTable

TYPES = (LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=100))
TABLE = TargetTable(TableId("shop", "a"), TableId("cdc", "shop_a_CT"), ("id", "word"), TYPES, ("id",), ("id", "word"))
Image = tuple[Op, int, str | None]


def changes(*images: Image, carries: Sequence[tuple[bool, bool]] = (), first: int = 0) -> TableChanges:
    """All in transaction 5, one behind the other; `carries`: which columns each image has."""
    op, key, word = (list(column) for column in zip(*images, strict=True))
    rows = pa.table({"id": pa.array(key, pa.int64()), "word": pa.array(word, pa.string())})
    count = len(images)
    presence = np.array(carries or [(True, True)] * count)
    numbers = np.full(count, 5, np.int64), np.arange(first, first + count, dtype=np.int64)
    return TableChanges(TABLE, np.array(op, np.int8), *numbers, np.arange(count, dtype=np.int16), presence, rows)


@given(st.lists(st.integers(0, (1 << 56) - 1), min_size=2, max_size=20))
def test_places_are_ten_bytes_that_sort_as_transactions_do(sequences: list[int]) -> None:
    places = lsns(np.array(sequences, dtype=np.int64)).to_pylist()
    assert {len(place) for place in places} == {10}
    assert sorted(places) == [place for _, place in sorted(zip(sequences, places, strict=True))]
    assert bytes(10) not in places, "that is none"


def test_an_update_is_two_rows_of_one_place_with_what_changed() -> None:
    made = change_rows(
        changes(
            (Op.INSERT, 1, "a"),
            (Op.BEFORE, 1, "a"),
            (Op.AFTER, 1, None),
            (Op.BEFORE, 1, None),
            (Op.AFTER, 2, None),
            (Op.DELETE, 2, None),
            first=3,
        )
    )
    assert made.operation.to_pylist() == [2, 3, 4, 3, 4, 1]
    assert [mask[0] for mask in made.mask.to_pylist()] == [3, 2, 2, 1, 1, 3]
    assert made.command.to_pylist() == [4, 5, 5, 7, 7, 9]
    assert [int.from_bytes(one) for one in made.seqval.to_pylist()] == [4, 5, 5, 7, 7, 9]
    assert made.values[1].to_pylist() == ["a", "a", None, None, None, None]
    assert len(set(made.lsn.to_pylist())) == 1


def test_what_the_new_image_leaves_out_is_as_before() -> None:
    made = change_rows(changes((Op.BEFORE, 1, "long"), (Op.AFTER, 2, None), carries=[(True, True), (True, False)]))
    assert made.values[1].to_pylist() == ["long", "long"]
    assert [mask[0] for mask in made.mask.to_pylist()] == [1, 1]


@pytest.mark.parametrize(
    ("images", "carries"),
    [
        ([(Op.BEFORE, 1, None), (Op.AFTER, 1, "b")], [(True, False), (True, True)]),
        ([(Op.DELETE, 1, None)], [(True, False)]),
        ([(Op.AFTER, 1, "b")], [(True, True)]),
        ([(Op.INSERT, 1, "a"), (Op.AFTER, 1, "b")], [(True, True), (True, True)]),
    ],
)
def test_an_image_that_lacks_something_is_refused(images: list[Image], carries: list[tuple[bool, bool]]) -> None:
    with pytest.raises(RowRefused, match=r"whole rows|FULL"):
        change_rows(changes(*images, carries=carries))


def test_a_mask_is_as_wide_as_the_table() -> None:
    names = tuple(f"c{number}" for number in range(11))
    table = TargetTable(TABLE.source, TABLE.target, names, (TYPES[0],) * 11, ("c0",), names)
    rows = pa.table({name: pa.array([1, 2 if name in ("c8", "c10") else 1], pa.int64()) for name in names})
    op = np.array([Op.BEFORE, Op.AFTER], np.int8)
    one = TableChanges(
        table, op, np.array([1, 1]), np.array([0, 1]), np.zeros(2, np.int16), np.ones((1, 11), bool), rows
    )
    assert change_rows(one).mask.to_pylist() == [b"\x05\x00", b"\x05\x00"]
