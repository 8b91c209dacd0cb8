"""`[target] form` of the job file: what a job that keeps changes may say, and what goes with rows alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.config import JobConfig, describe_change, load_job
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.errors import ConfigError
from anabranch.model.column_changes import OWN_KEY_ALONE, ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rules.rule_set import RuleSet

JOB = """\
name = "shop"
[source]
url = "mysql://a@127.0.0.1"
[target]
url = "postgresql://b@127.0.0.1/shop"
form = "change_tables"
[[rules]]
include = ["shop.*"]
target = "sales.{table}"
"""


def load(tmp_path: Path, text: str) -> JobConfig:
    (tmp_path / "job.toml").write_text(text)
    return load_job(tmp_path / "job.toml", {})


def test_a_change_table_is_named_by_what_the_rules_say(tmp_path: Path) -> None:
    config = load(tmp_path, JOB)
    assert config.keeps_changes and config.fingerprint()["form"] == "change_tables"
    assert RuleSet(config, PostgresTypes()).target_of(TableId("shop", "orders")) == TableId("cdc", "sales_orders_CT")
    assert config.followed_changes(TableId("shop", "orders")) == frozenset(), "a changed table parks"
    rows = load(tmp_path, JOB.replace('form = "change_tables"\n', ""))
    assert not rows.keeps_changes and "form" not in rows.fingerprint()
    for before, after in ((config, rows), (rows, config)):
        (change,) = describe_change(before.fingerprint(), after.fingerprint())
        assert change.what == "[target] form"


MESSAGES = JOB.replace('"postgresql://b@127.0.0.1/shop"', '"kafka://127.0.0.1"').replace('form = "change_tables"\n', "")


def test_messages_follow_columns_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    table, columns = TableId("shop", "orders"), set(ColumnChange) - OWN_KEY_ALONE
    assert load(tmp_path, MESSAGES).followed_changes(table) == columns
    said = load(tmp_path, MESSAGES + '[ddl]\nadd_column = "ignore"\ndrop_column = "park"\nchange_type = "stop"\n')
    assert said.followed_changes(table) == columns - {ColumnChange.DROP}


@pytest.mark.parametrize(
    "line", ["drop_column = 'keep'", "add_column = 'ask'", "create_table = 'apply'", "indexes = 'apply'"]
)
def test_what_messages_cannot_follow_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"{MESSAGES}[ddl]\n{line}\n")
    assert line.replace("'", '"') in "\n".join(map(str, refused.value.problems)) + str(refused.value)


def test_zero_characters_are_not_taken_out_of_first_rows_alone(tmp_path: Path) -> None:
    text = MESSAGES + '[types]\nnul = "strip"\n[target.options]\n'
    load(tmp_path, text + "partitions = 2\n")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text + "initial_load = true\n")
    assert 'nul = "strip" beside' in "\n".join(map(str, refused.value.problems)) + str(refused.value)


MISFITS = {
    "several": ('[[targets]]\nname = "b"\nurl = "mysql://b@127.0.0.1"\n', "[[targets]] beside"),
    "reverse": ("[reverse]\nenabled = true\n", "[reverse] enabled beside"),
    "load": ('[load]\nexisting = "empty"\n', 'existing = "empty" beside'),
    "policy": ('[apply]\non_conflict = "source_wins"\n', "on_conflict beside"),
    "policy of a table": ('[[tables]]\nname = "shop.t"\non_conflict = "target_wins"\n', "on_conflict beside"),
    "park": ('[apply]\non_error = "park"\n', 'on_error = "park" beside'),
    "mode": ('[apply]\nmode = "transaction"\n', 'mode = "transaction" beside'),
    "appliers": ('[apply]\nmode = "transaction"\nappliers = 2\n', "appliers = 2 beside"),
    "ddl": ('[ddl]\nadd_column = "ignore"\n', 'add_column = "ignore" beside'),
    "dropped": ('[ddl]\ndrop_column = "apply"\n', 'drop_column = "apply" beside'),
    "types": ('[ddl]\naction = "apply"\n', "change_type"),
    "tables": ('[ddl]\ndrop_table = "keep"\n', "drop_table"),
}


@pytest.mark.parametrize(("text", "words"), MISFITS.values(), ids=MISFITS)
def test_what_goes_with_rows_alone_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, JOB + text)
    found = "\n".join(map(str, refused.value.problems)) + str(refused.value)
    assert words in found and "change_tables" in found


def test_change_tables_follow_columns_that_come_and_go_where_the_file_says_so(tmp_path: Path) -> None:
    said = load(tmp_path, JOB + '[ddl]\nadd_column = "apply"\ndrop_column = "keep"\nnullability = "stop"\n')
    kinds = {ColumnChange.ADD, ColumnChange.DROP, ColumnChange.NULLABILITY}
    assert said.followed_changes(TableId("shop", "orders")) == kinds


ENTRY = '[[tables]]\nname = "shop.orders"\ninstances = '


def test_instances_are_those_of_the_file_and_come_to_a_job_that_has_begun(tmp_path: Path) -> None:
    config = load(tmp_path, JOB + ENTRY + '[{ name = "all" }, { name = "some", columns = ["b", "id"] }]\n')
    assert not describe_change(load(tmp_path, JOB).fingerprint(), config.fingerprint())
    columns = tuple(Column(name, LogicalType(Kind.INT32), "int", True) for name in ("id", "a", "b"))
    schema = TableSchema(TableId("shop", "orders"), columns, ("id",))
    rules = RuleSet(config, PostgresTypes())
    whole, some = rules.instances(schema)
    assert (whole.target, whole.columns) == (TableId("cdc", "all_CT"), ("id", "a", "b"))
    assert (some.target, some.columns, some.key) == (TableId("cdc", "some_CT"), ("id", "b"), ("id",))
    (alone,) = rules.instances(replace(schema, id=TableId("shop", "items")))
    assert alone.target == TableId("cdc", "sales_items_CT")
    with pytest.raises(ConfigError, match="do not fit the table") as refused:
        rules.instances(replace(schema, columns=columns[:2]), strict=True)
    assert "instance some: shop.orders has no column b that is replicated" in str(refused.value)


@pytest.mark.parametrize(
    ("instances", "why"),
    [
        ('[{ name = "a" }, { name = "b" }, { name = "c" }]', "3 instances"),
        ('[{ name = "a" }, { name = "a" }]', "two instances of shop.orders are called a"),
        ('[{ name = "a", columns = ["x", "x"] }]', "x: named twice"),
    ],
)
def test_instances_that_cannot_be_are_refused(tmp_path: Path, instances: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(tmp_path, JOB + ENTRY + instances + "\n")


def test_a_target_with_rows_has_no_instances(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"instances of shop\.orders"):
        load(tmp_path, JOB.replace('form = "change_tables"\n', "") + ENTRY + '[{ name = "a" }]\n')
