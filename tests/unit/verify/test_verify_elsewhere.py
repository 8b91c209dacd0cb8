"""Comparing with what another site tells: what can be told of no row leaves the table undecided, and the rest is compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.spark.work import Outcome
from anabranch.verify import source_side, told
from anabranch.verify.elsewhere import Elsewhere, _Judged
from anabranch.verify.plan import VerifyTable
from anabranch.verify.told import Told

NAME = TableId("shop", "orders")
ID = LogicalType(Kind.INT32)
TABLE = TargetTable(NAME, NAME, ("id",), (ID,), ("id",), ("id",))
ONE = VerifyTable(TableSchema(id=NAME, columns=(Column("id", "int", ID),), primary_key=("id",)), TABLE)
ROWS = [(b"%d" % number, bytes(16)) for number in range(3)]


class Read:
    """Read these rows of the target, and tell these of the source."""

    def __init__(self, here: list[tuple[bytes, bytes]], there: Callable[[], Told]) -> None:
        self.here, self.there = here, there

    def run(self, work: Any, bundles: Any, take: Callable[[Outcome], None], stop: Any) -> bool:
        take(Outcome(0, self.here))
        return True

    def ask(self, *asked: object) -> Told:
        return self.there()

    def reader(self, rules: ValueRules) -> Any:
        return SimpleNamespace(pieces=lambda table, rows: ["p"], close=lambda: None)


def settled(read: Read, monkeypatch: pytest.MonkeyPatch) -> _Judged:
    """Look at a bucket that differs."""
    ends: Any = read
    none: Any = None
    monkeypatch.setattr(Elsewhere, "_place", lambda *asked: (1, 0))
    found = _Judged(ONE, {0: 3})
    until = time.monotonic() + 600
    Elsewhere(ends, none, ends, ValueRules(), none, ends, 100, until)._settle(found, none, 0)
    return found


def test_too_many_rows_at_the_target_leave_a_table_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_side, "MOST_ROWS", 2)
    found = settled(Read(ROWS, lambda: Told(1, 1, rows=ROWS[:2])), monkeypatch)
    assert found.left == {0: 3} and found.why == "at the target: more than 2 rows would have to be told one by one"


def test_an_answer_that_is_too_long_leaves_a_table_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Told(1, 1, rows=ROWS).to_json()
    monkeypatch.setattr(told, "MOST_BYTES", 5)
    found = settled(Read(ROWS, lambda: Told.from_json(answer)), monkeypatch)
    assert found.left == {0: 3} and "it is cut, or too long" in found.why


def test_rows_that_are_the_same_leave_nothing_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settled(Read(ROWS, lambda: Told(1, 1, rows=ROWS)), monkeypatch)
    assert found.left == {} and not found.differences
