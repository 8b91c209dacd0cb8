"""The torture kit's verdict: everything that a target can show wrongly is found, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from anabranch.testing.torture.check import BACK, FINAL, MODEL, TORN, UNKNOWN, WRONG, Checker
from anabranch.testing.torture.sources import Commits
from anabranch.testing.torture.speaker import COMMITTED, Outcome, Result
from anabranch.testing.torture.speaker import UNKNOWN as UNTOLD
from anabranch.testing.torture.tables import LEDGER
from rigs.torture_history import HISTORY, LAST, ORDER, OUTCOMES, Contents, checker, seen, state, with_lines


def verdict(*states: Mapping[str, list[bytes]], **options: int) -> str:
    """The kind of failure, "" for none; the last state counts as the end."""
    judge, observations = checker(**options), seen(*states)
    failure = judge.source(state(len(ORDER))) or judge.observed(observations) or judge.final(observations[-1])
    return failure.kind if failure else ""


def test_every_prefix_is_right_and_may_be_seen_twice_or_passed_over() -> None:
    assert verdict(*(state(place) for place in range(len(ORDER) + 1))) == ""
    assert verdict(state(1), state(1), state(3), LAST) == ""
    judge = checker()
    assert judge.observed(seen(state(1), state(4), LAST)) is None and judge.prefixes == {1, 4, 6}


def test_the_rows_before_changes_are_those_in_front_of_the_first_that_came_or_had_to_come() -> None:
    judge = checker()
    for place, number in enumerate(ORDER):
        before = {table: list(rows) for table, rows in judge.rows_before([*ORDER[place:], 99]).items()}
        assert before == {table: sorted(rows) for table, rows in state(place).items()}, number
    assert judge.rows_before([])[LEDGER] == judge.rows_before([99])[LEDGER] == sorted(LAST[LEDGER])


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        # A transaction is there without one that was committed before it.
        (TORN, [with_lines(state(3), LEDGER, b"1", b"4"), LAST]),
        (TORN, [state(2), with_lines(state(4), LEDGER, b"1", b"2", b"3"), LAST]),
        # Half of one: its ledger without its rows, its rows without its ledger, one table of two, one row of two.
        (WRONG, [with_lines(state(2), "parent", *state(1)["parent"]), LAST]),
        (WRONG, [with_lines(state(2), LEDGER, b"1"), LAST]),
        (WRONG, [with_lines(state(1), "child"), LAST]),
        (WRONG, [with_lines(state(3), "loose", b"1\t\\N"), LAST]),
        # Twice; a cascade that was left out; a value of before.
        (WRONG, [with_lines(state(3), "loose", *state(3)["loose"], b"1\t\\N"), LAST]),
        (WRONG, [with_lines(state(2), "child", b"1\t1"), LAST]),
        (WRONG, [with_lines(state(4), "parent", b"2\t1\t2", b"3\t3\t\\N"), LAST]),
        (WRONG, [with_lines(state(4), LEDGER, b"1", b"2", b"3", b"3", b"4"), LAST]),
        # Older than what was seen before; what was rolled back, or is not of this history.
        (BACK, [state(4), state(3), LAST]),
        (UNKNOWN, [with_lines(state(4), LEDGER, b"1", b"2", b"3", b"4", b"5"), LAST]),
        (UNKNOWN, [with_lines(state(4), LEDGER, b"1", b"2", b"3", b"4", b"99"), LAST]),
        # A state of the source, but not its last: a transaction is missing for ever, or a TRUNCATE.
        (FINAL, [state(1), state(5)]),
        (FINAL, [state(1), state(4)]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(kind: str, states: list[Contents]) -> None:
    assert verdict(*states) == kind


def test_a_truncate_leaves_no_number_and_is_waited_for() -> None:
    assert verdict(state(4), state(5), state(5), LAST) == ""


def test_rule_16_a_snapshot_older_than_a_truncate_may_see_it() -> None:
    """It finds the table empty before the others have come so far."""
    empty = with_lines(state(3), "loose")
    assert verdict(state(2), empty, state(5), LAST) == ""
    assert verdict(empty, LAST, truncates=False) == WRONG
    assert verdict(with_lines(state(3), "parent"), LAST) == WRONG
    assert verdict(with_lines(state(3), "loose", *state(3)["loose"][:1]), LAST) == WRONG


def test_rule_16_what_comes_behind_such_a_snapshot_shows_the_truncate() -> None:
    empty, emptier = with_lines(state(3), "loose"), with_lines(state(4), "loose")
    assert verdict(empty, state(5), LAST) == "" and verdict(emptier, state(5), LAST) == ""
    assert verdict(empty, emptier, LAST) == ""  # between 4 and 5 the ledger is the same
    for early in (empty, state(3)):
        assert verdict(empty, early, LAST) == WRONG and verdict(empty, early, LAST, losses=1) == ""
    for of, kind in ((empty, WRONG), (emptier, "")):  # seen twice
        first, last = seen(of, LAST)
        first.times = 2
        failure = checker().observed([first, last])
        assert (failure.kind if failure else "") == kind


def test_a_target_that_forgot_its_last_commits_may_go_back() -> None:
    assert verdict(state(4), state(1), state(2), LAST, losses=1) == ""
    assert verdict(state(4), state(1), state(2), state(1), LAST, losses=1) == BACK
    assert verdict(state(4), state(1), state(2), state(1), LAST, losses=2) == ""
    assert verdict(state(3), with_lines(state(2), "child", b"1\t1"), LAST, losses=1) == WRONG


def test_a_target_that_forgot_only_a_truncate_may_go_back() -> None:
    """The ledger does not tell (seed 1708)."""
    lost = {"losses": 1, "truncates": False}
    assert verdict(state(5), state(4), state(5), LAST, **lost) == ""
    assert verdict(state(5), state(4), LAST, truncates=False) == WRONG
    assert verdict(state(5), state(4), state(5), state(4), LAST, **lost) == WRONG
    assert verdict(state(5), with_lines(state(4), "child", b"1\t1"), LAST, **lost) == WRONG


def test_the_kit_s_own_mistakes_are_told_apart() -> None:
    judge = checker()
    assert judge.source(LAST) is None
    failure = judge.source(with_lines(LAST, "parent"))
    assert (
        failure
        and failure.kind == MODEL
        and "the source, table parent: it has 0 too many; 3 missing" in failure.message
    )
    for order in (ORDER[:-1], (*ORDER, 5), (1, *ORDER), (*ORDER, 8)):
        failure = Checker(HISTORY, "mysql", OUTCOMES, Commits(order)).source(LAST)
        assert failure and failure.kind == MODEL, order
    wrong = {**OUTCOMES, 3: Outcome(3, (Result(0, 2),), COMMITTED)}
    failure = Checker(HISTORY, "mysql", wrong, Commits(ORDER)).source(LAST)
    assert failure and "transaction 3: the source affected 2 rows, the model 1" in failure.message


def test_a_table_that_the_source_empties_without_a_word_is_told_apart() -> None:
    """Torture seed 41058. The TRUNCATE is number 6, whose answer got lost."""
    lost = {**OUTCOMES, 6: Outcome(6, (), UNTOLD)}
    unlogged = Checker(HISTORY, "mysql", lost, Commits([n for n in ORDER if n != 6]))
    assert unlogged.emptied_without_log(with_lines(LAST, "loose")) == "loose"
    assert unlogged.emptied_without_log(with_lines(LAST, "loose", b"1\t\\N")) == ""
    assert checker().emptied_without_log(with_lines(LAST, "loose")) == ""


def test_a_message_says_where() -> None:
    failure = checker().observed(seen(state(1), with_lines(state(2), "child", b"1\t1")))
    assert failure is not None
    assert failure.message.startswith("observation 2, table child, which is none of the source's states")
    assert "1 too many ['1\\t1']; 0 missing" in failure.message
    assert failure.message.endswith("(commits 1, 3 | 4, 2, 6)")
