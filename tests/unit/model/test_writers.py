"""Which tables come back to their source, over how many tables of both ends it may be."""

from __future__ import annotations

import pytest

from anabranch.model.cutover import held
from anabranch.model.ids import TableId
from anabranch.model.writers import SourceWriter, as_text, from_text, led_back, own_targets, passed_on, with_held


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


def test_who_writes_far_up_is_known_behind_each_job() -> None:
    """Three databases: `one` brings a to b, `two` b to c, `three` brings c back to a."""
    one = SourceWriter("the job one", "1", tuple(tables("a>b more>b2")))
    behind_two = from_text(as_text(passed_on([one], dict(tables("b>c x>y")))), "the job two")
    assert behind_two == [SourceWriter("the job one", "1", tuple(tables("a>c")), "the job two")]
    assert led_back(dict(tables("c>a")), behind_two[0].pairs) == {TableId("s", "c")}
    two = SourceWriter("the job two", "2", tuple(tables("b>c x>y")))
    behind_three = passed_on([two, *behind_two], dict(tables("c>a")))
    assert [(found.key, list(found.pairs)) for found in behind_three] == [("1", tables("a>a")), ("2", tables("b>a"))]
    assert own_targets(behind_two, "1") == frozenset()  # of a job that writes elsewhere


def test_what_comes_by_two_ways_is_passed_on_once() -> None:
    ways = [
        SourceWriter("the job one", "1", tuple(tables(pairs)), through)
        for pairs, through in (("a>b", ""), ("a>c", "x"))
    ]
    assert passed_on(ways, dict(tables("b>z c>z"))) == [SourceWriter("the job one", "1", tuple(tables("a>z")))]
    assert passed_on(ways, dict(tables("d>z"))) == []


def test_the_server_that_a_writer_reads_is_passed_on_with_it() -> None:
    """And what was kept before that was, is read."""
    one = SourceWriter("the job one", "1", tuple(tables("a>b")), source="4f0c")
    (found,) = from_text(as_text(passed_on([one], dict(tables("b>c")))), "the job two")
    assert found == SourceWriter("the job one", "1", tuple(tables("a>c")), "the job two", "4f0c")
    assert from_text('[["the job one", "1", [["s.a", "s.c"]]]]', "the job two")[0].source == ""


@pytest.mark.parametrize(
    ("steps", "is_held"),
    [
        ("begin:begins flip:begins flip:done", False),  # not through
        ("begin:begins flip:done report:done", True),
        ("begin:begins flip:done report:done abort:begins abort:done", False),  # somebody has returned
        ("begin:begins abort:done begin:begins flip:done report:done", True),
        ("begin:begins flip:done report:done begin:begins lag:done", False),  # another one is under way
    ],
)
def test_rule_24_a_job_is_held_by_a_cut_over_that_is_through(steps: str, is_held: bool) -> None:
    """It writes nothing then, nor does what comes over it; whatever else writes is not said to be held."""
    notes = [("shop", number, *step.split(":"), number) for number, step in enumerate(steps.split(), 1)]
    other = [("other", 1, "begin", "begins", 1)]
    jobs = held([*other, *notes])  # type: ignore[list-item]  # a step and its phase are split from one text
    assert jobs == ({"shop"} if is_held else set())
    pairs = tuple(tables("a>x"))
    writers = [
        SourceWriter("the job shop", "1", pairs),
        SourceWriter("the job far", "2", pairs, through="the job shop"),
        SourceWriter("the job other", "3", pairs),
        SourceWriter("the subscription shop", "4", pairs),
    ]
    assert [one.is_held for one in with_held(writers, jobs)] == [is_held, is_held, False, False]
