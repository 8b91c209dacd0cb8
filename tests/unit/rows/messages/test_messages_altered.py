"""Tests of the decision whether messages go on behind a changed definition: the bytes of keys have to stay."""

from __future__ import annotations

import pytest

from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.altered import (
    AlteredTable,
    ColumnAdded,
    ColumnRenamed,
    ColumnRetyped,
    NullabilityChanged,
    Step,
)
from anabranch.rows.messages.altered import why_not_told
from anabranch.rows.messages.format import Settings
from anabranch.rows.net import TargetTable

INT, WIDE, HUGE = (LogicalType(kind) for kind in (Kind.INT32, Kind.INT64, Kind.UINT64))
WORD, LONGER = LogicalType(Kind.TEXT, length=10), LogicalType(Kind.TEXT, length=20)
ITEM = TableId("shop", "item")
Defined = tuple[TableSchema, TargetTable]


def defined(key: str | None = "id", type: LogicalType = INT, **more: LogicalType) -> Defined:
    columns = {key or "id": type, **more}
    names, types, keys = tuple(columns), tuple(columns.values()), (key,) if key else ()
    schema = TableSchema(ITEM, tuple(Column(name, one, "") for name, one in columns.items()), keys)
    return schema, TargetTable(ITEM, ITEM, names, types, keys, names)


def why(former: Defined, now: Defined, *steps: Step, schema: bool = False) -> str:
    settings = Settings("job", "mysql", "", lambda table: "topic", schema=schema)
    return why_not_told(AlteredTable(*former, *now, steps), settings)


def test_columns_beside_the_key_come_and_go() -> None:
    for schema in (False, True):
        assert not why(defined(), defined(v=WORD), ColumnAdded("v"), schema=schema)
        assert not why(defined(v=WORD), defined(w=LONGER), ColumnRenamed("v", "w"), ColumnRetyped("w"), schema=schema)


@pytest.mark.parametrize(("former", "now", "moves"), [(INT, WIDE, False), (WORD, LONGER, False), (INT, HUGE, True)])
def test_a_key_of_another_type_goes_on_where_its_texts_stay(former: LogicalType, now: LogicalType, moves: bool) -> None:
    assert bool(why(defined(type=former), defined(type=now), ColumnRetyped("id"))) is moves


def test_a_key_that_is_written_otherwise_would_find_another_partition() -> None:
    assert "id of its key is number by now" in why(defined(), defined("number"), ColumnRenamed("id", "number"))
    assert "another schema" in why(defined(type=INT), defined(type=WIDE), ColumnRetyped("id"), schema=True)
    assert not why(defined(type=WORD), defined(type=LONGER), ColumnRetyped("id"), schema=True)


def test_rows_without_a_key_are_told_by_all_of_their_columns() -> None:
    assert "no key" in why(defined(None), defined(None, v=WORD), ColumnAdded("v"))
    assert not why(defined(None), defined(None), NullabilityChanged("id"))
