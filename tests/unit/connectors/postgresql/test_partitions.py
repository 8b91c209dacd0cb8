"""Which partitions a table gets at the target, what they are called, and what of a trail of before is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.target.partitions import plan_partitions
from anabranch.connectors.postgresql.target.script import script
from anabranch.connectors.postgresql.verbatim import DIALECT
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, Partition, TableSchema
from anabranch.rows.net import TargetTable

INT = LogicalType(Kind.INT32)
SALES = TableSchema(
    TableId("shop", "sales"),
    (Column("id", INT, "integer", nullable=False), Column("day", INT, "integer", nullable=False)),
    ("id", "day"),
    (Index("by_day", ("day",)),),
    dialect=DIALECT,
    partitions=(
        Partition("shop.sales_1", TableId("shop", "sales_1"), "", "FOR VALUES FROM (1) TO (9)", "LIST (id)"),
        Partition("old.sales_0", TableId("old", "sales_0"), "", "FOR VALUES FROM (0) TO (1)"),
        Partition("shop.sales_1a", TableId("shop", "sales_1a"), "shop.sales_1", "DEFAULT"),
    ),
    partition_key="RANGE (day)",
)
HERE = TargetTable(SALES.id, TableId("public", "sold"), ("id", "day"), (INT, INT), ("id", "day"), ("id", "day"))


def test_partitions_are_those_of_the_source_and_one_for_the_rest() -> None:
    assert [part.sql for part in plan_partitions(SALES, HERE)] == [
        'CREATE TABLE "public"."sales_1" PARTITION OF "public"."sold" FOR VALUES FROM (1) TO (9) PARTITION BY LIST (id)',
        'CREATE TABLE "old"."sales_0" PARTITION OF "public"."sold" FOR VALUES FROM (0) TO (1)',
        'CREATE TABLE "public"."sales_1a" PARTITION OF "public"."sales_1" DEFAULT',
        'CREATE TABLE "public"."sold_default" PARTITION OF "public"."sold" DEFAULT',
    ]


def test_what_is_divided_by_hash_has_no_partition_for_the_rest() -> None:
    parts = tuple(
        Partition(f"shop.{n}", TableId("shop", str(n)), "", f"FOR VALUES WITH (modulus 2, remainder {n})")
        for n in (0, 1)
    )
    assert len(plan_partitions(replace(SALES, partitions=parts, partition_key="HASH (id)"), HERE)) == 2


def test_a_partition_whose_name_is_taken_gets_another_under_which_its_own_parts_are() -> None:
    beside = {TableId("public", "sales_1"), TableId("public", "sold_default")}
    planned = plan_partitions(SALES, HERE, beside)
    assert not beside & {part.name for part in planned}
    assert planned[0].name.name.startswith("sales_1_") and planned[2].parent == planned[0].name
    assert planned == plan_partitions(SALES, HERE, beside)


@pytest.mark.parametrize(
    "parts", [("shop.sales_1", "shop.sales_2"), tuple({"name": f"shop.{n}", "table": None} for n in (1, 2))]
)
def test_a_trail_of_before_has_names_only_and_makes_a_plain_table(parts: tuple[object, ...]) -> None:
    read = TableSchema.from_json({**replace(SALES, partition_key="").to_json(), "partitions": parts})
    assert len(read.partitions) == 2 and plan_partitions(read, HERE) == []
    assert TableSchema.from_json(SALES.to_json()).partitions == SALES.partitions


def test_printed_statements_make_partitions_and_no_index_concurrently() -> None:
    steps = [step.sql for step in script([(SALES, HERE)], ValueRules()) if step.sql]
    assert steps[:2] == ['CREATE SCHEMA IF NOT EXISTS "public"', 'CREATE SCHEMA IF NOT EXISTS "old"']
    assert steps[2].endswith(") PARTITION BY RANGE (day)")
    assert steps[-1] == 'CREATE INDEX "by_day" ON "public"."sold" ("day")'
