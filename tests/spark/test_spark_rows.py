"""Spark's view of values: exact for every type, the same from lines as from the trail's arrays."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import ConfigError, ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows import arrow
from anabranch.rows.lines import lines, texts, unescape
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter
from anabranch.spark.rows import columns_of, evaluate, to_spark
from anabranch.verify.filtering import Filtering
from anabranch.verify.plan import VerifyTable

UTC = UTC
SAMPLES: list[tuple[LogicalType, list[Any], list[Any], str]] = [
    (
        LogicalType(Kind.UINT64),
        [2**64 - 1, None, 0],
        [Decimal(2**64 - 1), None, Decimal(0)],
        "c = 18446744073709551615",
    ),
    (LogicalType(Kind.INT64), [-(2**63), 5], [-(2**63), 5], "c = -9223372036854775808"),
    (LogicalType(Kind.UINT32), [2**32 - 1], [2**32 - 1], "c > 4294967294"),
    (LogicalType(Kind.BIT, length=64), [2**63], [Decimal(2**63)], "c = 9223372036854775808"),
    (LogicalType(Kind.DECIMAL, precision=38, scale=2), [10**37 + 1], [Decimal("1" + "0" * 35 + ".01")], "c > 1"),
    (LogicalType(Kind.TEXT), [b"A\tb\\", b""], ["A\tb\\", ""], r"c = 'A\tb\\'"),
    (LogicalType(Kind.BINARY), [b"\x00\xff"], [b"\x00\xff"], "c = X'00FF'"),
    (LogicalType(Kind.DATE), [0, None], [date(1970, 1, 1), None], "c = DATE'1970-01-01'"),
    (LogicalType(Kind.TIMESTAMP), [1], [datetime(1970, 1, 1, 0, 0, 0, 1)], "c < TIMESTAMP_NTZ'1970-01-01 00:00:01'"),
    (
        LogicalType(Kind.INSTANT),
        [10**6],
        [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)],
        "c = TIMESTAMP'1970-01-01 01:00:01+01:00'",
    ),
    (LogicalType(Kind.DURATION), [-90_000_000], [timedelta(seconds=-90)], "c = INTERVAL '-00:01:30' HOUR TO SECOND"),
    (LogicalType(Kind.FLOAT64), [0.1], [0.1], "c = 0.1D"),
    (LogicalType(Kind.YEAR), [2155], [2155], "c = 2155"),
]


@pytest.mark.parametrize(("type", "raw", "expected", "passing"), SAMPLES, ids=lambda v: str(v)[:20])
def test_a_type_is_exact_in_spark(
    spark: Any, type: LogicalType, raw: list[Any], expected: list[Any], passing: str
) -> None:
    stored = arrow.array(type, raw)
    assert to_spark(type, stored).to_pylist() == expected
    passes = evaluate(spark, passing, {"c": type}, pa.table({"c": stored}))
    assert passes.to_pylist() == [True] + [False] * (len(raw) - 1)


@pytest.mark.parametrize(("type", "raw", "expected", "passing"), SAMPLES, ids=lambda v: str(v)[:20])
def test_lines_give_what_the_trail_gives(type: LogicalType, raw: list[Any], expected: list[Any], passing: str) -> None:
    stored = arrow.array(type, raw)
    rows = lines([LogicalType(Kind.TEXT), type], [pa.array(["x"] * len(raw)), stored]).split(b"\n")[:-1]
    assert columns_of(rows, [1], {"c": type})[0].equals(to_spark(type, stored))
    assert [
        None if t is None else unescape(r.split(b"\t")[1]).decode() for t, r in zip(raw, rows, strict=True)
    ] == texts(type, stored).to_pylist()


def test_null_does_not_pass_and_rows_keep_their_order(spark: Any) -> None:
    values = [None if i % 5 == 0 else i for i in range(30_000)]
    passes = evaluate(spark, "c % 2 = 0", {"c": LogicalType(Kind.INT32)}, pa.table({"c": pa.array(values, pa.int32())}))
    assert passes.to_pylist() == [v is not None and v % 2 == 0 for v in values]


def test_a_column_may_have_the_name_that_rows_are_numbered_by(spark: Any) -> None:
    """The filter saw the rows' numbers in its place, and chose rows by them."""
    columns = {name: LogicalType(Kind.INT64) for name in ("__row", "__ROW", "___row")}
    for name in columns:
        values = pa.array([7, 0, 7, 1], pa.int64())
        passes = evaluate(spark, f"`{name}` = 7", {name: columns[name]}, pa.table({name: values}))
        assert passes.to_pylist() == [True, False, True, False], name


def test_what_does_not_fit_is_refused(spark: Any) -> None:
    wide = LogicalType(Kind.DECIMAL, precision=65, scale=0)
    with pytest.raises(ConfigError, match="38 digits"):
        evaluate(spark, "c > 1", {"c": wide}, pa.table({"c": arrow.array(wide, [1])}))
    number = LogicalType(Kind.INT32)
    with pytest.raises(ConfigError, match="Spark refuses the filter"):
        evaluate(spark, "nosuch > 1", {"c": number}, pa.table({"c": arrow.array(number, [1])}))
    with pytest.raises(ConfigError, match="Spark refuses the filter"):
        evaluate(spark, "1 / c > 1", {"c": number}, pa.table({"c": arrow.array(number, [0])}))
    with pytest.raises(ValueRefused, match="column c"):
        columns_of([b"12x"], [0], {"c": number})


def test_verification_filters_single_rows_as_whole_tables(spark: Any) -> None:
    """NULL does not pass, and the columns that only the filter names are cut off."""
    text, number = LogicalType(Kind.TEXT), LogicalType(Kind.INT64)
    columns = Column("id", number, "bigint"), Column("a", number, "bigint"), Column("b", text, "text")
    schema = TableSchema(TableId("shop", "t"), columns, ("id",))
    table = TargetTable(schema.id, schema.id, ("id", "b"), (number, text), ("id",), ("id", "b"))
    one, filtering = VerifyTable(schema, table, Filter("a > 0 AND b <> 'no'", ("a", "b"))), Filtering(lambda: spark)
    rows = [b"1\tx\t5", b"2\t\\N\t5", b"3\tno\t5", b"4\ttab\\t\t0", b"5\ttab\\t\t1"]
    assert filtering(one, rows) == [b"1\tx", None, None, None, b"5\ttab\\t"]
    assert filtering(VerifyTable(schema, table), [b"1\tx"]) == [b"1\tx"] and filtering(one, []) == []
