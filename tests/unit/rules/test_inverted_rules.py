"""Rules turned round: every table comes back to where it came from, no other is read, and turned twice they say the same."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.config import load_job
from anabranch.config.toml_text import text_of
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.model.ids import TableId
from anabranch.rules.inverted import InvertedRule, inverted
from anabranch.rules.rule_set import RuleSet

HEAD = 'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
# letters of globs, templates, quotes and TOML among them; braces are no letters of a target's name
NAMES = st.text(st.sampled_from("aB1_ .*?[]\"'\\-é🦆"), min_size=1, max_size=4)
TABLES = st.builds(TableId, NAMES, NAMES)
PAIRS = st.dictionaries(TABLES, TABLES, min_size=1, max_size=8).filter(lambda d: len({*d.values()}) == len(d))


def rule_set(rules: list[InvertedRule]) -> RuleSet:
    text = HEAD + "".join(
        f"[[rules]]\ninclude = {text_of(rule.include)}\ntarget = {text_of(rule.target)}\n" for rule in rules
    )
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return RuleSet(load_job(Path(file.name), {}), PostgresTypes())


@given(PAIRS)
def test_turned_twice_rules_lead_where_they_led(pairs: Mapping[TableId, TableId]) -> None:
    there = rule_set(inverted(pairs.items()))
    assert {table: there.target_of(table) for table in pairs} == pairs
    back = rule_set(inverted((written, read) for read, written in pairs.items()))
    assert {table: back.target_of(table) for table in pairs.values()} == {w: r for r, w in pairs.items()}
    others = {*pairs} - {*pairs.values()}
    assert [table for table in others if back.includes(table)] == []


def test_tables_of_a_schema_that_keep_their_names_share_a_rule() -> None:
    pairs = [(TableId("public", name), TableId("shop", name)) for name in ("orders", "customers")]
    found = inverted([*pairs, (TableId("public", "shop_items"), TableId("shop", "items"))])
    assert found == [
        InvertedRule(("public.customers", "public.orders"), "shop.{table}"),
        InvertedRule(("public.shop_items",), "shop.items"),
    ]


@pytest.mark.parametrize(
    "pairs",
    [
        {TableId("public", "a"): TableId("shop", "x"), TableId("public", "b"): TableId("shop", "x")},
        {TableId("public", "a"): TableId("shop", "a{b}")},
    ],
)
def test_what_no_rule_can_say_is_refused(pairs: Mapping[TableId, TableId]) -> None:
    with pytest.raises(ValueError, match="shop"):
        inverted(pairs.items())


@given(st.dictionaries(st.text(min_size=1), st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1))))
def test_values_are_read_as_they_were_written(values: Mapping[str, object]) -> None:
    read = tomllib.loads(f"found = {text_of(values)}\nlisted = {text_of(list(values))}\n")
    assert read == {"found": values, "listed": list(values)}
