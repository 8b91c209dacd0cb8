"""Enums of a PostgreSQL: which ones become an enum(…), and what a column lacks of the labels that the source has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.connectors.mysql.target.enums import are_fit, is_enum, merged
from anabranch.connectors.mysql.target.labels import _lacking, may_be_unknown, renamed
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable

TABLE = TableId("public", "t")
WHOSE = "other jobs write to shop.t, too"
SHOWN = """CREATE TABLE `t` (
  `id` int NOT NULL,
  `m` enum('sad','it''s, ok') COLLATE utf8mb4_0900_bin NOT NULL DEFAULT 'sad' COMMENT 'how, he feels',
  `n` longtext,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB"""


@pytest.mark.parametrize(
    "labels",
    [
        (),
        ("1",),
        ("a", " -2 "),
        ("a", "b "),
        ("",),
        ("a\n",),
        ("😀",),
        tuple(f"label {n:04}" for n in range(700)),
        ("a\x85b",),
        ("a\u2028",),
    ],
)
def test_labels_that_an_enum_would_take_for_others_or_not_show_are_text(labels: tuple[str, ...]) -> None:
    assert not are_fit(labels)
    assert not is_enum(logical_type("public.mood", labels=labels))


def test_labels_that_are_an_enum() -> None:
    assert are_fit(("a", "A", " a", "it's", "a,b", "a\\b", "{0}", "zé", "2nd", "1.5", "0x1", "次"))
    assert is_enum(logical_type("public.mood", labels=("a",))) and is_enum(
        logical_type("public.d", "public.mood", labels=("a",))
    )
    assert not is_enum(replace(logical_type("public.mood", labels=("a",)), target="varchar(20)"))


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (("new", "sad", "it's, ok"), "'new','sad','it''s, ok'"),
        (("sad", "ne'w", "it's, ok"), "'sad','ne''w','it''s, ok'"),
        (("sad", "it's, ok", "new"), "'sad','it''s, ok','new'"),
        (("it's, ok", "sad"), ""),
    ],
)
def test_a_label_is_added_at_its_place_and_the_rest_of_the_column_stays(labels: tuple[str, ...], wanted: str) -> None:
    type = logical_type("public.mood", labels=labels)
    table = TargetTable(TABLE, TableId("shop", "t"), ("m",), (type,), ())
    found = [lack.statement for lack in _lacking(SHOWN, {"m": type, "n": type}, table, lambda: WHOSE)]
    rest = "COLLATE utf8mb4_0900_bin NOT NULL DEFAULT 'sad' COMMENT 'how, he feels'"
    assert found == ([f"ALTER TABLE `shop`.`t` MODIFY `m` enum({wanted}) {rest}"] if wanted else [])


def test_labels_that_cannot_be_are_named_and_not_added() -> None:
    type = logical_type("public.mood", labels=("sad", "it's, ok", "2"))
    (lack,) = _lacking(SHOWN, {"m": type}, TargetTable(TABLE, TABLE, ("m",), (type,), ()), lambda: "")
    assert not lack.statement and "'2'" in lack.words and "--recreate" in lack.words


@pytest.mark.parametrize("labels", [("it's, ok", "new"), ("new", "it's, ok", "sad"), ("sad", "new")])
def test_labels_are_not_added_where_those_that_stand_are_others_or_in_another_order(labels: tuple[str, ...]) -> None:
    type = logical_type("public.mood", labels=labels)
    (lack,) = _lacking(SHOWN, {"M": type}, TargetTable(TABLE, TABLE, ("M",), (type,), ()), lambda: "")
    assert not lack.statement and lack.labels == ("new",)


@pytest.mark.parametrize(
    ("labels", "by_hand"),
    [
        (("it's, ok", "new"), "MODIFY `m` enum('sad','it''s, ok','new') COLLATE"),
        (("first", "sad", "new", "last"), "MODIFY `m` enum('first','sad','it''s, ok','new','last') COLLATE"),
        (("it's, ok", "sad", "new"), "MODIFY `m` varchar(63) COLLATE"),
        (("sad", "it's, ok", "2"), "plan JOB --execute, and ALTER TABLE `shop`.`t` MODIFY `m` varchar(63) COLLATE"),
    ],
)
def test_labels_that_other_jobs_have_not_are_added_by_hand_and_no_table_of_theirs_is_made_anew(
    labels: tuple[str, ...], by_hand: str
) -> None:
    type = logical_type("public.mood", labels=labels)
    table = TargetTable(TABLE, TableId("shop", "t"), ("m",), (type,), ())
    (lack,) = _lacking(SHOWN, {"m": type}, table, lambda: WHOSE)
    assert not lack.statement and by_hand in lack.words and "--recreate" not in lack.words


def test_labels_of_two_jobs_stand_each_in_its_order() -> None:
    assert merged("abx", "ayb") == ["a", "y", "b", "x"] and merged("ab", "cd") == ["a", "b", "c", "d"]
    assert merged("ab", "ba") == [] and merged("", "ab") == ["a", "b"]
    assert merged("acx", "abcd") == ["a", "b", "c", "x", "d"]


def test_a_label_that_is_gone_was_renamed() -> None:
    then, now = (
        TableSchema(TABLE, (Column("m", logical_type("public.mood", labels=labels), "public.mood"),))
        for labels in (("a", "b"), ("a", "c", "d"))
    )
    assert "were renamed" in renamed(then, now) and renamed(then, then) == ""


def test_only_a_table_with_an_enum_asks_for_labels() -> None:
    some = TargetTable(TABLE, TABLE, ("m",), (logical_type("public.mood", labels=("a",)),), ())
    none = TargetTable(TABLE, TABLE, ("m",), (logical_type("text"),), ())
    assert may_be_unknown("insert: Data truncated for column 'm' at row 1 [1265]", some)
    assert not may_be_unknown("insert: … [1265]", none) and not may_be_unknown("a duplicate key [1062]", some)
