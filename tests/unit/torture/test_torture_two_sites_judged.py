"""The judge of histories of two active sites: what it takes, and what it refuses, of one row (rigs/two_sites_judged.py)."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.model.ids import TableId
from anabranch.rows.conflict import NotedConflict, OnConflict
from anabranch.rows.net import UPDATE
from rigs.two_sites_drawn import ROWS, SUMS, WINS, History
from rigs.two_sites_judged import OneKey, Op, Row, Written

TABLE = TableId("public", WINS)


def _op(site: int, order: int, version: int, text: str = "", seen: tuple[int, ...] = (), **more: Any) -> Op:
    """Transactions are numbered by their order; what has been seen is known to the last one."""
    known = frozenset(seen)
    return Op(site, order, order, version, text, version, version, seen=known, may_have_seen=known, **more)


def _key(*ops: Op) -> OneKey:
    return OneKey(list(ops))


FIRST = _op(0, 1, 1, "first", is_insert=True)
WINNERS = _op(1, 2, 3, "winner's", seen=(1,))
CROSSED = _op(0, 3, 9, "crossed")
BEHIND = _op(0, 4, 10, "behind", seen=(2,))
GONE = _op(1, 5, 3, seen=(1,))


@pytest.mark.parametrize(
    ("table", "key", "row"),
    [
        (ROWS, _key(FIRST, WINNERS, CROSSED), CROSSED.row),
        (ROWS, _key(FIRST, _op(0, 6, 1)), None),
        (WINS, _key(FIRST, WINNERS), WINNERS.row),
        (WINS, _key(FIRST, WINNERS, CROSSED), (10, "winner's", 3)),
        (WINS, _key(FIRST, WINNERS, BEHIND), BEHIND.row),
        (WINS, _key(FIRST, WINNERS, CROSSED, BEHIND), BEHIND.row),
        (WINS, _key(FIRST, WINNERS, CROSSED, BEHIND), (11, "winner's", 3)),
        (WINS, _key(FIRST, WINNERS, CROSSED, _op(0, 6, 9, seen=(2,))), None),
        (WINS, _key(FIRST, GONE, CROSSED), None),
        (WINS, _key(GONE, _op(0, 6, 9, "new", is_insert=True)), (9, "new", 9)),
        (SUMS, _key(FIRST, WINNERS, CROSSED), (9, "crossed", 13)),
        (SUMS, _key(FIRST, GONE, CROSSED), None),
        (SUMS, _key(FIRST, GONE, _op(0, 6, 9, "new", seen=(5,), is_insert=True)), (9, "new", 9)),
    ],
)
def test_a_row_that_the_rule_allows(table: str, key: OneKey, row: Row | None) -> None:
    key.refuse(table, row, "row")


@pytest.mark.parametrize(
    ("table", "key", "row", "why"),
    [
        (ROWS, _key(FIRST, WINNERS, CROSSED), WINNERS.row, "and not"),
        (ROWS, _key(FIRST, _op(0, 6, 1)), FIRST.row, "and not None"),
        (WINS, _key(FIRST, WINNERS), FIRST.row, "nothing crossed"),
        (WINS, _key(FIRST, WINNERS), (4, "winner's", 3), "nothing crossed"),
        (WINS, _key(FIRST, WINNERS, CROSSED), CROSSED.row, "wins"),
        (WINS, _key(FIRST, WINNERS, CROSSED), None, "is gone"),
        (WINS, _key(FIRST, WINNERS, CROSSED), (10, "winner's", 9), "was written as"),
        (WINS, _key(FIRST, WINNERS, CROSSED), (3, "winner's", 3), "is as old as"),
        (WINS, _key(FIRST, WINNERS, CROSSED), (10, "nobody's", 3), "nobody has written"),
        (WINS, _key(FIRST, GONE, CROSSED), CROSSED.row, "wins"),
        (SUMS, _key(FIRST, WINNERS, CROSSED), (9, "crossed", 12), "and not"),
        (SUMS, _key(FIRST, GONE, CROSSED), CROSSED.row, "has deleted, or crossed"),
        (SUMS, _key(FIRST, GONE, _op(0, 6, 9, "new", seen=(5,), is_insert=True)), (9, "new", 10), "of 9 to 9"),
    ],
)
def test_a_row_that_cannot_be(table: str, key: OneKey, row: Row | None, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        key.refuse(table, row, "row")


def _noted(after: str, found: str) -> NotedConflict:
    images = {"before": {"v": "first"}, "after": {"v": after}, "found": {"v": found}}
    decided = (UPDATE, "newer", OnConflict.NEWEST, "target")
    return NotedConflict(1, "1@1", 0, TABLE, TABLE, {"id": "7"}, *decided, **images)


def _written(*ops: Op) -> Written:
    written = Written()
    for one in ops:
        written.add(one.transaction, {7: one})
    return written


def test_a_crossing_is_noted_with_both_versions() -> None:
    """The job from the other site meets the winning site's row; of the way back raised versions leave it open."""
    crossed = _written(FIRST, WINNERS, CROSSED)
    assert crossed.refuse_unnoted(WINS, [[_noted("crossed", "winner's")], []], "history") == 1
    for wrong in ([], [_noted("crossed", "first")], [_noted("winner's", "winner's")]):
        with pytest.raises(AssertionError, match="crossed"):
            crossed.refuse_unnoted(WINS, [wrong, []], "history")


def test_what_did_not_cross_is_not_noted() -> None:
    in_turn = _written(FIRST, WINNERS)
    assert in_turn.refuse_unnoted(WINS, [[], []], "history") == 0
    with pytest.raises(AssertionError, match="nothing crossed"):
        in_turn.refuse_unnoted(WINS, [[], [_noted("winner's", "first")]], "history")


def test_histories_have_faults_of_each_kind() -> None:
    kinds = [fault.kind for seed in range(2, 5) for fault in History.drawn(seed).faults]
    assert {"kill", "cut", "restart"} <= set(kinds)
