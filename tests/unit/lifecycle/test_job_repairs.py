"""What a repair leaves alone, and how the rows come in again then."""

from __future__ import annotations

from typing import Any, cast

import pytest

from anabranch.lifecycle.repairing import _why_not
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter
from anabranch.verify.plan import VerifyTable

INT, DOUBLE = LogicalType(Kind.INT32), LogicalType(Kind.FLOAT64)
ID = TableId("shop", "t")


def table(type: LogicalType, key: tuple[str, ...] = ("id",), filter: Filter | None = None) -> VerifyTable:
    schema = TableSchema(ID, (Column("id", type, str(type), nullable=False),), key)
    return VerifyTable(schema, TargetTable(ID, TableId("public", "t"), ("id",), (type,), key), filter)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (table(INT), ""),
        (table(INT, key=()), "it has no key"),
        (table(INT, filter=Filter("id > 0", ("id",))), "it has a filter"),
        (table(DOUBLE), "values of its key have several forms"),
    ],
)
def test_what_has_no_key_that_finds_its_rows_at_both_ends_is_loaded_again(one: VerifyTable, why: str) -> None:
    found = _why_not(cast(Any, None), one)
    assert found == (why and f"{why}: anabranch load JOB --table shop.t brings it in again")
