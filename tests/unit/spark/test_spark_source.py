"""The streaming source's questions for news: how often it looks at a trail on which nothing happens."""

from __future__ import annotations

from typing import Any

from anabranch.model.position import Position
from anabranch.spark.source import QUIET, QUIET_PAUSE, TrailStreamReader
from anabranch.trail.published import TrailEnd


class Trail:
    """Remembers the pauses that were asked for."""

    def __init__(self) -> None:
        self.sequence = 0
        self.pauses: list[float] = []

    def wait(self, after: int, timeout: float, pause: float) -> TrailEnd:
        self.pauses.append(pause)
        return TrailEnd(Position(self.sequence, ""), "", 0)

    def descriptors(self, after: int, upto: int, limit_rows: int) -> list[Any]:
        return []


def test_a_trail_on_which_nothing_happens_is_looked_at_less_often_until_something_does() -> None:
    reader, trail = TrailStreamReader("", 0, 10), Trail()
    reader._trail = trail  # type: ignore[assignment]  # a double that counts its looks
    start = {"sequence": 0, "round": 1}
    for _ in range(QUIET + 2):
        assert reader.latestOffset(start, None) == start
    assert trail.pauses == [0.0] * QUIET + [QUIET_PAUSE] * 2
    trail.sequence = 1
    reader.latestOffset(start, None)
    trail.pauses.clear()
    reader.latestOffset({"sequence": 1, "round": 1}, None)
    assert trail.pauses == [0.0]
