"""Keys that somebody else wrote to, or that are set aside: what they may hold, what may be noted of them, and that everything
else is judged as ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.testing.torture.check import FINAL, WRONG
from anabranch.testing.torture.exempt import (
    ASIDE,
    DELETED,
    EXISTS,
    INSERTED,
    INTRUDER,
    MISSING,
    UPDATED,
    Commit,
    Noted,
    Story,
    Touch,
    wrong_notes,
)
from anabranch.testing.torture.history import Statement
from rigs.torture_history import LAST, Contents, checker, seen, state, with_lines
from rigs.torture_tables import delete, family, insert, update

Wrote = tuple[str, str, bytes | None]
CHANGED: Wrote = ("2", UPDATED, b"2\t9\t2")  # which the source never touches again
LEAVES: Wrote = ("1", UPDATED, b"1\t9\t\\N")  # which it removes in its second commit
GONE: Wrote = ("1", DELETED, None)
COMES: Wrote = ("4", INSERTED, b"4\t8\t8")  # which it inserts in its last one


def shown(wrote: Wrote, mends: str = "f") -> dict[str, bytes]:
    """What the target shows of one that was written to behind the first commit."""
    key, did, left = wrote
    line = "\\N" if left is None else f"\\\\x{left.hex()}"
    return {INTRUDER: f"parent\t{key}\t\\N\t{did}\t1\t{mends}\t{line}\n".encode()}


def holding(of: Contents, wrote: Wrote, line: bytes | None) -> Contents:
    rest = [one for one in of["parent"] if one.split(b"\t")[0] != wrote[0].encode()]
    return with_lines(of, "parent", *rest, *([line] if line is not None else []))


def kind(one: Contents, more: dict[str, bytes]) -> str:
    """The kind of failure that an observation with these keys comes to."""
    failure = checker().observed([replace(observation, more=more) for observation in seen(one)])
    return failure.kind if failure else ""


@pytest.mark.parametrize(
    ("place", "wrote", "right", "wrong"),
    [
        # The source has not touched it: what was left, and not the source's row either.
        (1, CHANGED, [b"2\t9\t2"], [b"2\t2\t2", b"2\t7\t2", None]),
        (6, CHANGED, [b"2\t9\t2"], [b"2\t2\t2", b"2\t7\t2", None]),
        (1, LEAVES, [b"1\t9\t\\N"], [b"1\t1\t\\N", None]),
        (1, GONE, [None], [b"1\t1\t\\N"]),
        (4, COMES, [b"4\t8\t8"], [b"4\t4\t4", None]),
        # It has.
        (2, LEAVES, [None], [b"1\t9\t\\N", b"1\t1\t\\N"]),
        (2, GONE, [None], [b"1\t1\t\\N"]),
        (6, COMES, [b"4\t4\t4"], [b"4\t8\t8", None]),
    ],
)
def test_a_key_holds_what_was_left_until_the_source_touches_it(
    place: int, wrote: Wrote, right: list[bytes | None], wrong: list[bytes | None]
) -> None:
    for line in right:
        assert kind(holding(state(place), wrote, line), shown(wrote)) == "", line
    for line in wrong:
        assert kind(holding(state(place), wrote, line), shown(wrote)) == WRONG, line


def test_a_key_that_is_being_made_equal_holds_either() -> None:
    for line, right in ((b"2\t9\t2", ""), (b"2\t2\t2", ""), (b"2\t7\t2", WRONG)):
        assert kind(holding(state(6), CHANGED, line), shown(CHANGED, mends="t")) == right


def test_other_rows_of_its_table_and_other_tables_are_judged() -> None:
    right = holding(state(4), CHANGED, b"2\t9\t2")
    assert kind(right, shown(CHANGED)) == ""
    assert kind(holding(right, ("3", "", None), None), shown(CHANGED)) == WRONG
    assert kind(holding(right, ("3", "", None), b"3\t4\t\\N"), shown(CHANGED)) == WRONG
    assert kind(with_lines(right, "child", b"1\t1"), shown(CHANGED)) == WRONG
    assert kind(right, {}) == WRONG


def test_a_row_that_is_set_aside_may_be_anything_and_no_other_may() -> None:
    more = {ASIDE: b"parent\t2\t\\N\n"}
    for line in (b"2\t2\t2", b"2\t7\t\\N", None):
        assert kind(holding(state(4), CHANGED, line), more) == ""
    assert kind(holding(state(4), CHANGED, None), {}) == WRONG
    assert kind(holding(state(4), ("3", "", None), None), more) == WRONG
    assert kind(with_lines(state(4), "parent", *state(4)["parent"], b"2\t7\t\\N"), more) == WRONG


def test_in_the_end_no_key_may_be_left() -> None:
    (last,) = seen(LAST)
    assert checker().final(last) is None
    for more in ({ASIDE: b"parent\t2\t\\N\n"}, shown(CHANGED), shown(CHANGED, mends="t")):
        failure = checker().final(replace(last, more=more))
        assert failure and failure.kind == FINAL


# --- the source's story -----------------------------------------------------------------------------------------------


def story(*transactions: Statement) -> Story:
    """Behind a first commit with the row 1, each statement a commit of its own."""
    statements = (insert("parent", ("1", "1", None)), *transactions)
    return Story(
        family(), "mysql", [Commit(((s, 0 if s.do == "truncate" else 1),), truncates=_truncated(s)) for s in statements]
    )


def _truncated(statement: Statement) -> frozenset[str]:
    return frozenset({statement.table} if statement.do == "truncate" else ())


TWO = Touch("parent", (b"2",), INSERTED, b"2\t8\t\\N", 1)
ONE = Touch("parent", (b"1",), UPDATED, b"1\t8\t\\N", 1)
WITHOUT = Touch("parent", (b"1",), DELETED, None, 1)


def test_what_came_and_went_may_have_met_nobody() -> None:
    comes, goes = insert("parent", ("2", "2", None)), delete("parent", "2")
    both = story(comes, goes)
    assert both.allowed(TWO, 1, 1) == {TWO.left}
    assert both.allowed(TWO, 1, 2) == {b"2\t2\t\\N"}
    assert both.allowed(TWO, 1, 3) == {TWO.left, None}
    assert not both.must_be_noted(TWO, 1, 1) and story(comes).must_be_noted(TWO, 1, 1)
    changed = story(delete("parent", "1"), insert("parent", ("1", "5", None)))
    assert changed.allowed(ONE, 1, 3) == {b"1\t5\t\\N"} and changed.must_be_noted(WITHOUT, 1, 1)


def test_an_update_to_what_is_there_is_not_in_the_log() -> None:
    same = story(update("parent", "1", v="1"))
    assert same.allowed(ONE, 1, 2) == {ONE.left, b"1\t1\t\\N"} and not same.must_be_noted(WITHOUT, 1, 1)
    other = story(update("parent", "1", v="2"))
    assert other.allowed(ONE, 1, 2) == {b"1\t2\t\\N"} and other.must_be_noted(WITHOUT, 1, 1)
    assert other.allowed(ONE, 2, 2) == {ONE.left} and not other.must_be_noted(WITHOUT, 2, 2)
    assert not other.must_be_noted(ONE, 1, 1)


def test_what_comes_and_goes_in_one_transaction_is_met_row_by_row_or_not_at_all() -> None:
    """Torture seed 72."""
    pair = Commit(((insert("parent", ("2", "2", None)), 1), (delete("parent", "2"), 1)))
    both = Story(family(), "mysql", [*story().commits, pair])
    assert both.allowed(TWO, 1, 2) == {TWO.left, None} and not both.must_be_noted(TWO, 1, 1)


def test_a_truncate_takes_everything_along_and_meets_nobody() -> None:
    empties = story(Statement("truncate", "parent"))
    assert empties.allowed(ONE, 1, 2) == {None}
    assert empties.allowed(TWO, 1, 2) == {None, TWO.left}
    assert not empties.must_be_noted(WITHOUT, 1, 1)


# --- what is noted ----------------------------------------------------------------------------------------------------


def test_every_difference_is_noted_once_and_none_that_nobody_caused() -> None:
    known = story(update("parent", "1", v="2"), insert("parent", ("2", "2", None)))
    found = {WITHOUT: (1, 1), TWO: (1, 1)}
    missing, exists = Noted("parent", MISSING, "source", (b"1",)), Noted("parent", EXISTS, "source", (b"2",))
    assert wrong_notes(known, found, [missing, exists]) == ""
    assert "happened and was not noted: parent 2 inserted" in wrong_notes(known, found, [missing])
    assert "happened and was not noted: parent 1 deleted" in wrong_notes(known, found, [exists])
    for more in (
        Noted("parent", MISSING, "source", (b"3",)),
        Noted("child", MISSING, "source", (b"1",)),
        replace(missing, kind=EXISTS),
    ):
        assert "nobody caused" in wrong_notes(known, found, [missing, exists, more])
    assert "twice" in wrong_notes(known, found, [missing, exists, missing])
    assert "nobody caused" in wrong_notes(known, found, [missing, replace(exists, decision="target")])
    assert "nobody caused" in wrong_notes(known, {replace(WITHOUT, did=UPDATED): (1, 1)}, [missing])


def test_a_row_that_is_missing_where_it_moves_to_a_key_that_is_there_is_one_conflict() -> None:
    """Torture seed 20790: a change is noted once."""
    found = {WITHOUT: (1, 1), TWO: (1, 1)}
    exists = Noted("parent", EXISTS, "source", (b"2",))
    for moves in ([update("parent", "1", id="2")], [update("parent", "1", id="3"), update("parent", "3", id="2")]):
        assert wrong_notes(story(*moves), found, [exists]) == ""
    others = story(update("parent", "1", id="3"), insert("parent", ("2", "2", None)))
    assert "happened and was not noted: parent 1 deleted" in wrong_notes(others, found, [exists])


def test_the_verdict_takes_them_from_what_was_seen() -> None:
    observations = [replace(observation, more=shown(COMES)) for observation in seen(state(1))]
    good = Noted("parent", EXISTS, "source", (b"4",))
    assert checker().noted([good], observations) is None
    for notes in ([], [good, replace(good, key=(b"1",))]):
        failure = checker().noted(notes, observations)
        assert failure and failure.kind == WRONG
