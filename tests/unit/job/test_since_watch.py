"""A result of `verify --watch` at the fence of a cut-over: the digest of what was compared, and what is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.errors import ConfigError, NotCaughtUp
from anabranch.job.at_fence import STRAYS, UNREAD, Choice, Known, but_strays, told
from anabranch.job.watched import compared_as
from anabranch.model.cutover import Verifies
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.value_rules import ValueRules
from anabranch.rows.net import TargetTable
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.touched import Parent

NUMBER = LogicalType(Kind.INT32)
SCHEMA = TableSchema(TableId("shop", "item"), (Column("id", NUMBER, "int", False), Column("v", NUMBER, "int")), ("id",))
TABLE = TargetTable(SCHEMA.id, TableId("public", "item"), ("id", "v"), (NUMBER, NUMBER), ("id",), ("id", "v"))
ONE = VerifyTable(SCHEMA, TABLE)
PARENTS = {SCHEMA.id: Parent(SCHEMA, frozenset(("id", "v", "w", "x")))}
PRINTED = "import runpy, sys; here = runpy.run_path(sys.argv[1]); print(here['digest']())"


def digest() -> str:
    return compared_as(ONE, ValueRules(), PARENTS)


def test_the_digest_of_what_is_compared_is_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", PRINTED, __file__]
    found = {
        subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{digest()}\n"}


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, schema=replace(SCHEMA, version=2)),
        replace(ONE, table=replace(TABLE, target=TableId("public", "items"))),
        replace(ONE, table=replace(TABLE, types=(NUMBER, LogicalType(Kind.INT64)))),
        replace(ONE, is_shared=True),
    ],
    ids=["another version", "another table", "another type", "shared"],
)
def test_whatever_decides_what_is_compared_is_in_the_digest(other: VerifyTable) -> None:
    assert compared_as(other, ValueRules(), {}) != compared_as(ONE, ValueRules(), {})


def test_rules_for_values_and_tables_that_act_are_in_the_digest() -> None:
    plain = compared_as(ONE, ValueRules(), {})
    assert plain not in (compared_as(ONE, ValueRules(nul="strip"), {}), compared_as(ONE, ValueRules(), PARENTS))


def test_a_cut_over_that_goes_on_compares_what_was_asked_for_by_either() -> None:
    nothing, since, whole = Verifies
    assert [Verifies.of(asked) for asked in (False, "since-watch", True)] == [nothing, since, whole]
    assert [Verifies.noted(one.facts) for one in Verifies] == [nothing, since, whole]
    assert Verifies.noted({"verify": True}) == whole, "as releases before have noted it"
    assert since.or_more(whole) == whole.or_more(nothing) == whole and nothing.or_more(since) == since


def test_a_word_that_no_way_to_compare_has_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="verify='watch'") as refused:
        Verifies.of("watch")
    assert '"since-watch" or "whole"' in str(refused.value.hint)


PENDING = TableResult("shop.item", "public.item", 3, 3, False, pending=1, why="it changed")
DIFFERENT = TableResult("shop.draft", "public.draft", 3, 3, False, missing=2)


def test_what_nobody_can_tell_at_the_fence_is_no_difference() -> None:
    with pytest.raises(NotCaughtUp, match=r"nobody can tell .* PENDING +shop.item .* it changed") as undecided:
        told("shop", [], Verification((PENDING,)), {})
    assert "--repair" not in str(undecided.value.hint)
    differing, _ = told("shop", [], Verification((PENDING, DIFFERENT)), {})
    assert differing.index("shop.draft") < differing.index("PENDING"), "what differs comes first"


def test_a_table_that_somebody_else_has_written_to_at_the_target_is_compared_whole() -> None:
    """By its name there; all of them where nobody knows who has written."""
    tables = [SimpleNamespace(table=SimpleNamespace(source=TableId("a", n), target=TableId("b", n))) for n in "xyz"]
    known = tuple(Known(cast(Any, one), 5, "5@p") for one in tables)
    choice = Choice(known[:2], {TableId("a", "z"): "why"})
    assert but_strays(choice, frozenset) == choice
    found = but_strays(choice, lambda: {TableId("b", "x"), TableId("a", "y")})
    assert found == Choice(known[1:2], {TableId("a", "x"): STRAYS, TableId("a", "z"): "why"})
    found = but_strays(choice, lambda: None)
    assert found == Choice((), {TableId("a", "x"): UNREAD, TableId("a", "y"): UNREAD, TableId("a", "z"): "why"})
