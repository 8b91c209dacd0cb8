"""Since when a table's rows have their columns and types, as the trail's history tells it, and what becomes of a table whose
messages are from before."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from anabranch.errors import NotTold, TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.rows.net import NOT_KNOWN, TargetTable
from anabranch.spark.work import Failure, Outcome
from anabranch.trail.history import Entry, SchemaHistory
from anabranch.verify import run
from anabranch.verify.plan import VerifyPiece, VerifyTable
from anabranch.verify.report import NO_TIME
from anabranch.verify.shapes import shaped

ID, KEY = TableId("s", "t"), Column("id", LogicalType(Kind.INT32), "int")


def v(kind: Kind, number: int = 0, **facts: Any) -> Column:
    return Column("v", LogicalType(kind, **facts), str(kind), number=number)


PRICE = v(Kind.DECIMAL, precision=10, scale=2)


def since(former: Column, now: Column, **facts: Any) -> int:
    history = SchemaHistory()
    first = TableSchema(ID, (KEY, former), ("id",))
    second = replace(first, columns=(KEY, now), version=2)
    last = replace(second, indexes=(Index("i", ("v",)),), version=3)
    history.add(Entry("schema", 1, ID, first, joined=True))
    history.add(Entry("schema", 7, ID, second, altered=True, **facts))
    history.add(Entry("schema", 9, ID, last, altered=True, statement="CREATE INDEX i ON t (v)"))
    assert shaped(history.of(ID), first) == -1, "the target is not there yet"
    assert shaped(history.of(ID)[1:], last) == NOT_KNOWN, "the beginning is not known"
    assert shaped([], last) == NOT_KNOWN
    return shaped(history.of(ID), last)


@pytest.mark.parametrize(
    ("former", "now", "facts"),
    [
        (PRICE, v(Kind.DECIMAL, precision=10, scale=4), {}),
        (v(Kind.INT32), PRICE, {}),
        (v(Kind.DATE), v(Kind.TIMESTAMP), {}),
        (v(Kind.BINARY), v(Kind.TEXT), {}),
        (v(Kind.TEXT, 2), v(Kind.TEXT, 3), {}),
        (v(Kind.TEXT), v(Kind.TEXT), {"statement": "ALTER TABLE t DROP v, ADD v TEXT"}),
        (v(Kind.TEXT), replace(v(Kind.TEXT), name="w"), {"renamed": (("v", "w"),)}),
        (v(Kind.TEXT), v(Kind.TEXT), {"dropped": True}),
    ],
)
def test_rows_of_another_shape_are_told_from_those_of_today(former: Column, now: Column, facts: dict[str, Any]) -> None:
    assert since(former, now, **facts) == 7


@pytest.mark.parametrize(
    ("former", "now"),
    [(PRICE, PRICE), (v(Kind.INT32), v(Kind.INT64)), (v(Kind.TEXT, length=20), v(Kind.TEXT, length=30))],
)
def test_rows_whose_texts_stay_what_they_are_need_no_place(former: Column, now: Column) -> None:
    assert since(former, now, statement="ALTER TABLE t MODIFY v x") == -1


def test_a_table_whose_messages_do_not_tell_its_rows_leaves_the_others_to_be_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = list[Outcome]()

    def through(spark: Any, outcomes: list[Outcome], take: Callable[[Outcome], None], is_over: Any) -> bool:
        for one in outcomes:
            take(one)
        return True

    monkeypatch.setattr(run.pieces, "run", through)
    tables = [
        VerifyTable(
            TableSchema(one, (KEY,), ("id",)), TargetTable(one, one, ("id",), (LogicalType(Kind.INT32),), ("id",))
        )
        for one in (ID, TableId("s", "u"))
    ]
    found = run._Run(lambda: cast(Any, None), [], lambda: False, math.inf)
    lost = Outcome(VerifyPiece(tables[0]), failure=Failure.of(NotTold("an earlier definition")))
    assert found._run(cast(Any, None), [lost, Outcome(VerifyPiece(tables[1]))], taken.append)
    assert [one.piece.one for one in taken] == tables[1:]
    why = [run._not_compared(one, found.untold).why for one in tables]
    assert why == ["an earlier definition", NO_TIME]
    with pytest.raises(TargetError, match="refused"):
        found._run(cast(Any, None), [replace(lost, failure=Failure.of(TargetError("refused")))], taken.append)
