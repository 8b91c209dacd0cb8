"""Tell what DDL has done to tables behind a fence, by their definitions before and now."""

from __future__ import annotations

from anabranch.connectors.postgresql.source.fence_definitions import compared

NOTED = {"17": ["public.b", "100", "x"], "9": ["public.a", "90", "y"]}


def test_rule_24_each_table_that_is_not_what_it_was_is_named_once() -> None:
    assert compared(NOTED, {**NOTED, "5": ["public.new", "5", "z"]}) == []
    assert compared({}, NOTED) == [], "notes of a release that kept no definitions"
    found = compared(NOTED, {"17": ["public.c", "101", "z"]})
    assert [line.split(" (")[0] for line in found] == [
        "public.a was dropped, or made anew",
        "public.b was renamed: public.c",
    ]
    found = compared(NOTED, {"17": ["public.b", "101", "x"], "9": ["public.a", "91", "z"]})
    assert [line.split(" (")[0] for line in found] == [
        "columns of public.a were changed, or labels of their enums",
        "public.b was rewritten",
    ]
