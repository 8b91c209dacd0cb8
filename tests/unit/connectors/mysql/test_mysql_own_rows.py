"""Names of the form in which rows go unread between servers of the family: equal exactly where values stay what they are."""

from __future__ import annotations

import pytest

from anabranch.connectors.mysql.own_rows import form_of, ways_of


def test_a_form_says_how_each_column_is_read() -> None:
    form = form_of(
        [("int(10) unsigned", ""), ("varchar(20)", "utf8mb3"), ("longblob", ""), ("float", ""), ("datetime(6)", "")]
    )
    assert ways_of(form) == ["n", "w", "b", "f", "d"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "bigint(20) unsigned zerofill"),
        ("varchar(5)", "longtext"),
        ("enum('a','b')", "text"),
        ("binary(4)", "longblob"),
    ],
)
def test_types_that_take_each_other_s_values_or_refuse_them_are_alike(one: str, other: str) -> None:
    assert form_of([(one, "utf8mb4")]) == form_of([(other, "utf8mb4")]) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("datetime(6)", "datetime(3)"),
        ("datetime", "timestamp"),
        ("date", "datetime"),
        ("time(1)", "time"),
        ("decimal(10,4)", "decimal(10,2)"),
        ("decimal(10,0)", "int"),
        ("float", "double"),
        ("year(4)", "int"),
        ("varchar(10)", "varbinary(40)"),
    ],
)
def test_types_of_which_one_may_change_a_value_without_a_word_are_not(one: str, other: str) -> None:
    assert form_of([(one, "utf8mb4")]) != form_of([(other, "utf8mb4")])


@pytest.mark.parametrize(
    "column",
    [
        ("bit(8)", ""), ("geometry", ""), ("uuid", ""), ("inet6", ""), ("vector(3)", ""), ("year(2)", ""), ("float(7,3)", ""),
        ("double(7,3)", ""), ("varchar(10)", "latin1"), ("text", "gbk"), ("char(3)", "binary"), ("varchar(3)", ""),
    ],
)  # fmt: skip
def test_types_of_another_sense_have_no_form_nor_has_their_table(column: tuple[str, str]) -> None:
    assert form_of([column]) == form_of([("int", ""), column]) == ""


def test_a_table_without_columns_has_none() -> None:
    assert form_of([]) == ""
