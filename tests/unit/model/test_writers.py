"""Which tables come back to their source, over how many tables of both ends it may be."""

from __future__ import annotations

import pytest

from anabranch.model.ids import TableId
from anabranch.model.writers import SourceWriter, led_back, own_targets


def tables(text: str) -> list[tuple[TableId, TableId]]:
    """`a>b c>d`: what is read, and what it is written to."""
    return [(TableId("s", one), TableId("s", other)) for one, other in (pair.split(">") for pair in text.split())]


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ("a>x", "x>a", "a"),
        ("a>a b>b", "a>a", "a"),
        ("a>x", "x>b", ""),
        ("a>x", "y>a", ""),
        ("a>x b>y", "x>b y>a", "ab"),  # a to x to b to y to a
        ("a>x b>y c>z", "x>b y>b", "b"),  # a leads into a circle, and is in none
        ("a>x", "", ""),
    ],
)
def test_tables_that_are_led_back(ours: str, theirs: str, found: str) -> None:
    assert led_back(dict(tables(ours)), tables(theirs)) == {TableId("s", name) for name in found}


def test_own_targets_are_those_of_the_jobs_uuid() -> None:
    mine, other, nameless = (SourceWriter("the job shop", key, tuple(tables("a>b"))) for key in ("uuid", "more", ""))
    assert own_targets([other, mine], "uuid") == {TableId("s", "b")}
    assert own_targets([other, nameless], "uuid") == own_targets([nameless], "") == frozenset()
