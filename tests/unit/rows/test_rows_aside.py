"""What is done at the end for all changes of one row that wait, where values of some could not be converted."""

from __future__ import annotations

import pytest

from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.rows.aside import AsideChange, carried_out

VISIT = TableId("shop", "visit")
KEY = {"id": "1"}
NO_DATE = {"d": "0000-00-00, which is no date"}


def insert(**values: str) -> AsideChange:
    return AsideChange(1, "", 0, VISIT, VISIT, KEY, "insert", None, {**KEY, **values}, "")


def update(**values: str) -> AsideChange:
    return AsideChange(2, "", 0, VISIT, VISIT, KEY, "update", KEY, {**KEY, **values}, "")


def without_date(change: AsideChange) -> AsideChange:
    return AsideChange(**{**_fields(change), "unconverted": NO_DATE})


def _fields(change: AsideChange) -> dict[str, object]:
    return {name: getattr(change, name) for name in AsideChange.__slots__}


DELETE = AsideChange(3, "", 0, VISIT, VISIT, KEY, "delete", KEY, None, "")


def test_rule_26_changes_of_a_row_come_to_what_it_is_in_the_end() -> None:
    (one,) = carried_out([without_date(insert(v="a")), update(d="2024-01-01", v="b")])
    assert (one.operation, one.after) == ("insert", {"id": "1", "v": "b", "d": "2024-01-01"})
    (one,) = carried_out([without_date(update()), DELETE, insert(d="2024-01-01")])
    assert (one.operation, one.after) == ("update", {"id": "1", "d": "2024-01-01"})
    (one,) = carried_out([without_date(update()), DELETE])
    assert (one.operation, one.after) == ("delete", None)
    with pytest.raises(RowRefused, match="column d holds 0000-00-00"):
        carried_out([update(d="2024-01-01"), without_date(update()), update(v="c")])


def test_rule_26_a_row_that_came_and_went_leaves_nothing_behind() -> None:
    assert carried_out([without_date(insert()), DELETE]) == []
    there_already = insert(d="2024-01-01")  # the target refused it: the row in its place has to go first
    assert carried_out([there_already, without_date(update()), DELETE]) == [there_already, DELETE]
