"""Which target type a job chooses for a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.config import load_job
from anabranch.config.sections.types_at_target import Types
from anabranch.connectors.kafka.target.typemap import KafkaTypes
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import TypeMap, ValueRules
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column
from anabranch.rules.choices import TypeChoices
from anabranch.rules.values import value_rules

JOB = """
name = "shop"
[source]
url = "mysql://a@127.0.0.1"
[target]
url = "postgresql://a@127.0.0.1/b"
[[rules]]
include = ["shop.*"]
target = "public.{table}"
"""
MAP = {
    "tinyint": "integer",
    "TINYINT(1)": "boolean",
    "char(36)": "uuid",
    "datetime": "timestamptz",
    "int* unsigned": "integer",
    "varchar(*)": "text",
    "bigint unsigned": "bigint",
    "numeric()": "double precision",
    "bit()": "boolean",
    "bit": "text",
}


def type_choices(**types: Any) -> TypeChoices:
    rules = ValueRules(geometry=types.get("geometry", "bytea"), vector=types.get("vector", "real[]"))
    return TypeChoices(Types(map=types.get("map", {})), PostgresTypes(), rules)


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        ("tinyint(1)", "boolean"),
        ("tinyint(4)", "integer"),
        ("tinyint", "integer"),
        ("tinyint(1) unsigned", ""),
        ("char(36)", "uuid"),
        ("char(35)", ""),
        ("datetime(6)", "timestamptz"),
        ("datetime", "timestamptz"),
        ("int(10) unsigned", "integer"),
        ("int unsigned", "integer"),
        ("bigint(20) unsigned", "bigint"),
        ("varchar(20)", "text"),
        ("varchar(100) /*M!100301 COMPRESSED*/", "text"),
        ("blob", ""),
        ("numeric", "double precision"),
        ("numeric(12,2)", ""),
        ("bit", "boolean"),
        ("bit(3)", "text"),
    ],
)
def test_the_map(native: str, expected: str) -> None:
    column = Column("c", LogicalType(Kind.TEXT), native)
    found = type_choices(map=MAP).of(column)
    assert found is not None and found.target == expected
    assert type_choices(map=MAP).of(column, "json").target == "json"


def test_patterns_that_match_nothing() -> None:
    columns = [Column("c", LogicalType(Kind.TEXT), native) for native in ("tinyint(1)", "int(10) unsigned")]
    unused = type_choices(map=MAP).unused(columns)
    assert unused == ["char(36)", "datetime", "varchar(*)", "bigint unsigned", "numeric()", "bit()", "bit"]


def test_geometry_and_vectors_have_settings_of_their_own() -> None:
    choices = type_choices(geometry="geometry")
    assert choices.of(Column("g", LogicalType(Kind.GEOMETRY), "point")).at_target.text is TextForm.BARE_DIGITS
    assert choices.of(Column("g", LogicalType(Kind.GEOMETRY), "point")).target == "geometry"
    assert choices.of(Column("v", LogicalType(Kind.VECTOR), "vector(3)")).target == ""
    assert type_choices(vector="vector").of(Column("v", LogicalType(Kind.VECTOR), "vector(3)")).target == "vector"
    assert choices.of(Column("r", None, "xmltype")) is None


def test_a_choice_for_a_domain_is_one_for_the_text_that_the_source_prints() -> None:
    domain = LogicalType(Kind.DECIMAL, None, 10, 2, native="public.amount", base="numeric(10,2)", printed=True)
    choices = TypeChoices(Types(map={"public.amount": "bigint"}), MysqlTypes(), ValueRules(uuid="binary"))
    chosen = choices.of(Column("m", domain, "public.amount"))
    assert chosen == LogicalType(Kind.NATIVE, native="public.amount", target="bigint") and chosen.kind is Kind.NATIVE
    assert MysqlTypes().fit(chosen, ValueRules()).native == "bigint"
    uuid = LogicalType(Kind.UUID, native="public.token", base="uuid", printed=True)
    by_setting = choices.of(Column("u", uuid, "public.token"))
    assert by_setting and by_setting.kind is Kind.UUID and by_setting.target == "binary(16)"


@pytest.mark.parametrize(
    ("types", "keeps"),
    [(MysqlTypes("mysql"), True), (MysqlTypes("mariadb"), True), (KafkaTypes(), True), (PostgresTypes(), False)],
    ids=["mysql", "mariadb", "kafka", "postgresql"],
)
def test_each_target_says_whether_its_text_has_zero_characters(types: TypeMap, keeps: bool, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    assert value_rules(load_job(tmp_path / "job.toml", {}), types).keeps_nul is keeps
