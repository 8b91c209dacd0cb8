"""Rows of a load in a trail whose beginning was dropped since: refused unless the trail has all that came behind them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.model.position import LogMark, Position
from anabranch.trail_end.recorded import _why_before


class Places:
    """An order of numbers, or of sets of numbers."""

    def __init__(self, sets: bool) -> None:
        self.sets = sets

    def mark(self, resume: str) -> LogMark:
        return LogMark(resume, resume)

    def is_set(self, mark: LogMark) -> bool:
        return self.sets

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        return int(mark.native) >= int(native)

    def lacks(self, mark: LogMark, begun: LogMark) -> str:
        missing = set(begun.native.split(",")) - set(mark.native.split(","))
        return ",".join(sorted(missing))


def trail(first: int, begun: str) -> Any:
    return SimpleNamespace(
        first=lambda: first, begun=lambda: begun, position_at=lambda sequence: Position(sequence, begun)
    )


@pytest.mark.parametrize(("first", "mark", "is_refused"), [(1, "40", False), (101, "100", False), (101, "99", True)])
def test_a_place_before_the_trail_is_refused(first: int, mark: str, is_refused: bool) -> None:
    found = _why_before(trail(first, str(first - 1)), Places(False), LogMark(mark, mark))  # type: ignore[arg-type] # a stand-in
    assert bool(found) is is_refused


@pytest.mark.parametrize(
    ("begun", "mark", "is_refused"), [("1,2", "1,2,3", False), ("1,2", "1,3", True), ("", "1", True)]
)
def test_a_set_that_lacks_what_the_trail_began_behind_is_refused(begun: str, mark: str, is_refused: bool) -> None:
    found = _why_before(trail(9, begun), Places(True), LogMark(mark, mark))  # type: ignore[arg-type] # a stand-in
    assert bool(found) is is_refused
