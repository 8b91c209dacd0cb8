"""The torture kit's fold of change tables: the rows that changes make of those before, and what is refused; order, pairs and
masks of what the access functions give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from anabranch.testing.torture.change_fold import (
    Fold,
    change,
    end_of_range,
    first_told,
    grounded,
    net_change,
    wrong,
)
from anabranch.testing.torture.change_snapshots import Changed, ChangeSnapshots, Range
from anabranch.testing.torture.tables import LEDGER, LEDGER_COLUMNS, Column
from anabranch.testing.torture.watcher import Observation

COLUMNS = {LEDGER: LEDGER_COLUMNS, "t": (Column("id", "int", nullable=False), Column("v", "exact text"))}
BEFORE = [b"1\ta", b"2\t\\N"]
INSERTED = Changed("02", "01", 2, "03", b"3\tc")
OLD, NEW = Changed("02", "02", 3, "02", b"1\ta"), Changed("02", "02", 4, "02", b"1\tb")
LEDGERED = Changed("02", "03", 2, "01", b"7")


def told(*lines: bytes) -> bytes:
    return b"".join(lines)


def test_rows_are_those_before_with_what_was_told_and_a_range_ends_with_its_net_changes() -> None:
    fold = Fold(BEFORE)
    assert fold.through(b"") == b"1\ta\n2\t\\N\n" and fold.through(b"") is fold.through(b"")
    some = told(change(3, "x/1", b"1\ta"), change(4, "x/1", b"1\tb"), change(2, "x/2", b"3\tc"))
    assert fold.through(some) == b"1\tb\n2\t\\N\n3\tc\n"
    more = told(some, change(1, "y/1", b"1\tb"), net_change(2, b"3\tc"), net_change(1, b"1\tb"), end_of_range([0]))
    assert fold.through(more) == b"2\t\\N\n3\tc\n" and not fold.wrong
    without = told(more, change(1, "z/1", b"3\tc"), end_of_range(None))
    assert fold.through(without) == b"2\t\\N\n" and not fold.wrong


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([change(1, "x", b"1\tb")], "a row goes that is not there"),
        ([change(3, "x", b"9\ta"), change(4, "x", b"9\tb")], "a row goes that is not there"),
        ([wrong("two\nlines")], "two lines"),
        ([change(2, "x", b"3\tc"), end_of_range([0])], "other rows than its changes: without 3\tc, with none"),
        ([change(2, "x", b"3\tc"), net_change(2, b"3\td"), end_of_range([0])], "without 3\tc, with 3\td"),
        (
            [change(2, "x", b"3\tc"), net_change(4, b"3\tc"), end_of_range([0])],
            "net change 4 of a row that was not there",
        ),
        ([change(1, "x", b"1\ta"), net_change(2, b"1\ta"), end_of_range([0])], "net change 2 of a row that is there"),
        ([*[net_change(4, b"1\ta")] * 2, end_of_range([0])], "net change 4 of a row that is there"),
    ],
)
def test_what_contradicts_is_said_and_stays(lines: list[bytes], words: str) -> None:
    fold = Fold(BEFORE)
    fold.through(told(*lines))
    assert words in fold.wrong
    said = fold.wrong
    fold.through(told(*lines, change(2, "y", b"4\td")))
    assert fold.wrong == said


def test_a_reader_that_is_told_something_else_later_contradicts() -> None:
    fold = Fold(BEFORE)
    fold.through(change(2, "x", b"3\tc"))
    fold.through(change(2, "x", b"4\tc"))
    assert "something else before" in fold.wrong


def test_looks_have_rows_when_those_before_are_known() -> None:
    first = Observation(1, {LEDGER: b"", "t": b""})
    second = Observation(2, {LEDGER: change(2, "x", b"7"), "t": change(2, "x", b"3\tc")})
    third = Observation(3, {**second.contents, "t": second.contents["t"] + wrong("no")})
    assert first_told([first]) is None and first_told([first, second]) == 7
    assert grounded([first, second], {}) == []
    found = grounded([first, second, third], {LEDGER: [b"6"], "t": BEFORE})
    assert [one.contents[LEDGER] for one in found] == [b"6\n", b"6\n7\n", b"6\n7\n"]
    assert [one.contents["t"] for one in found] == [b"1\ta\n2\t\\N\n", b"1\ta\n2\t\\N\n3\tc\n", b"Contradiction: no\n"]


class Said:
    """Answers that are right, or not."""

    def __init__(self, rows: Sequence[Changed], times: Sequence[tuple[str, float]] = (("02", 1.0),)) -> None:
        self.rows, self.times = rows, times

    def end(self) -> str:
        return "03"

    def keys(self) -> Mapping[str, Sequence[int]]:
        return {}

    def read(self, behind: str, to: str) -> Range:
        return Range({LEDGER: [LEDGERED], "t": self.rows}, {}, self.times)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([INSERTED, OLD, NEW], ""),
        ([OLD, NEW, INSERTED], "stands in front of"),
        ([INSERTED, INSERTED], "stands in front of"),
        ([OLD], "an image of an update by itself"),
        ([NEW], "an image of an update by itself"),
        ([OLD, replace(NEW, seqval="05")], "two images of an update are apart"),
        ([OLD, replace(NEW, mask="03")], "two images of an update are apart"),
        ([replace(OLD, mask="01"), replace(NEW, mask="01")], "the mask does not have what changed, columns [1]"),
        ([replace(INSERTED, mask="01")], "not all columns of a row that comes or goes"),
        ([replace(INSERTED, mask="0003")], "a mask of 4 digits for 2 columns"),
        ([replace(INSERTED, operation=5)], "no such operation"),
        ([replace(INSERTED, lsn="04")], "asked behind nothing up to 03"),
        ([replace(INSERTED, seqval="03")], "has a change at the same place"),
    ],
)
def test_what_the_access_functions_give_has_an_order_pairs_and_masks(rows: list[Changed], words: str) -> None:
    times = [(one.lsn, 1.0) for one in (LEDGERED, *rows)]
    snapshots = ChangeSnapshots(Said(rows, times), COLUMNS)
    while snapshots.has_more:
        lines = snapshots.read().tables
    wrongs = [line for line in b"".join(lines.values()).splitlines() if line.startswith(b"!")]
    assert bool(wrongs) == bool(words) and words.encode() in b" ".join(wrongs), wrongs


@pytest.mark.parametrize(
    ("times", "words"),
    [([], b"no time is known of the places ['02']"), ([("02", 2.0), ("03", 1.0)], b"before that of an earlier place")],
)
def test_each_place_has_its_time_and_none_goes_back(times: list[tuple[str, float]], words: bytes) -> None:
    assert words in b"".join(ChangeSnapshots(Said([], times), COLUMNS).read().tables.values())
