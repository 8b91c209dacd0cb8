"""Partitions that were known are compared with those that a catalogue shows now (no server)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.postgresql.source.definitions import Attached
from anabranch.connectors.postgresql.source.partitions import Look, what_went, why_came
from anabranch.contracts import Divided, RowsWent
from anabranch.model.ids import TableId
from anabranch.model.schema import Partition, TableSchema

NOBODY: Any = None  # is asked
A, B = (Partition(name, TableId("s", name), oid=n, joined=700 + n) for n, name in enumerate("ab", 1))
TOLD = Partition("s.c", TableId("s", "c"), oid=3, told_by=9)
OLD = Partition("a", TableId("s", "a"))  # of a trail of before


def _of(*parts: Partition) -> TableSchema:
    return TableSchema(TableId("s", "item"), (), partitions=parts)


def _look(*unseen: int, before: tuple[int, ...] = ()) -> Look:
    return Look(NOBODY, Attached({*before}), frozenset(unseen))


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        ([A, B], [A, B], None),
        ([A, B], [B, A], None),
        ([A], [A, B], Divided(_of(A, B))),
        ([OLD], [A], Divided(_of(A))),
        (
            [A],
            [replace(A, name="z", table=TableId("s", "z"))],
            Divided(_of(replace(A, name="z", table=TableId("s", "z")))),
        ),
        ([A, TOLD], [A, replace(TOLD, joined=4, told_by=0)], Divided(_of(A, replace(TOLD, joined=4, told_by=0)))),
        ([A, B], [A], RowsWent(_of(A, B), (B,))),
        ([A, TOLD], [A], RowsWent(_of(A, TOLD), (TOLD,))),
        ([A], [replace(A, oid=5)], RowsWent(_of(A), (A,))),
    ],
)
def test_partitions_are_told_apart_by_what_they_are(then: list[Partition], now: list[Partition], told: Any) -> None:
    found = what_went(_of(*then), _of(*now), True, _look())
    assert found == told
    if isinstance(told, Divided | RowsWent) and isinstance(found, Divided | RowsWent):
        assert found.schema.partitions == told.schema.partitions  # which no comparison of definitions looks at
    if isinstance(told, RowsWent):
        assert "was detached or dropped" in str(what_went(_of(*then), _of(*now), False, _look()))


def test_one_whose_transaction_is_not_seen_yet_has_not_gone() -> None:
    assert what_went(_of(A, TOLD), _of(A), True, _look(9)) is None
    assert isinstance(what_went(_of(A, B, TOLD), _of(A), True, _look(9)), RowsWent)


def test_rows_come_with_a_table_that_is_attached_or_attached_again() -> None:
    assert why_came(_of(A), _of(A, B), _look()) == ""
    assert "the table b was attached" in why_came(_of(A), _of(A, B), _look(before=(2,)))
    assert why_came(_of(A, B), _of(A, B), _look(before=(1, 2))) == ""  # its load had them
    assert why_came(_of(OLD), _of(A), _look(before=(1,))) == ""
    assert "attached" in why_came(_of(TOLD), _of(replace(TOLD, joined=4, told_by=0)), _look(before=(3,)))
    assert "a was detached and attached again" in why_came(_of(A), _of(replace(A, joined=9)), _look())
