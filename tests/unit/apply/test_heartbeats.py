"""When apply notes the time at a target that keeps changes, and when it must not."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.apply import heartbeats
from anabranch.apply.heartbeats import Heartbeats
from anabranch.errors import Fenced, LogLost, SourceUnavailable
from anabranch.model.position import LogMark, Position
from anabranch.model.state import Checkpoint
from anabranch.trail.reader import TrailEnd

EVERY = 300


@dataclass
class Rig:
    """Source, trail, target and the monotonic clock in one; numbers are places of the log."""

    now: float = 1000.0
    source_end: int = 10
    read: int = 10
    in_trail: int = 5
    applied: int = 5
    server: str = "a"
    is_away: bool = False
    is_lost: bool = False
    fenced: bool = False
    idle_seconds: int = EVERY
    asked: int = 0
    noted: list[tuple[int, int]] = field(default_factory=list)
    committed: list[tuple[int, int]] = field(default_factory=list)

    # the source
    def catalog(self) -> Rig:
        self.asked += 1
        if self.is_away:
            raise SourceUnavailable("away")
        return self

    def clock(self) -> int:
        return int(self.now) * 1_000_000

    def mark(self) -> LogMark:
        return LogMark(str(self.source_end), self.server)

    def close(self) -> None: ...

    @property
    def order(self) -> Any:
        def includes(mark: LogMark, native: str, _: object) -> bool:
            if self.is_lost:
                raise LogLost("another name")
            return int(native) <= int(mark.native)

        return SimpleNamespace(includes=includes, server=lambda mark: mark.resume)

    # the writer
    def note_idle(self, position: Position, time: int) -> None:
        self.noted = [(position.sequence, (time + heartbeats.SLACK_US) // 1_000_000)]

    # progress
    @property
    def trail(self) -> Any:
        return SimpleNamespace(end=lambda: TrailEnd(Position(self.in_trail, str(self.read)), "a", 0))

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint("me", 1, Position(self.applied, "x"), 0)

    def here(self) -> Checkpoint:
        return self.checkpoint

    def begin(self, then: Checkpoint) -> None:
        if self.fenced:
            raise Fenced("another owner")

    def work(self) -> None: ...

    def commit(self, then: Checkpoint, work: None) -> None:
        self.committed += self.noted
        self.noted = []


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    found = Rig()
    monkeypatch.setattr(heartbeats.time, "monotonic", lambda: found.now)
    return found


def _looking(rig: Any, writer: Any = None) -> Any:
    notes = Heartbeats(writer or rig, rig, rig.now)

    def look(after: float = 0.0) -> list[tuple[int, int]]:
        rig.now += after
        notes.look(rig)
        return list(rig.committed)

    return look


def test_the_time_is_noted_once_an_interval(rig: Rig) -> None:
    look = _looking(rig)
    assert look() == look(EVERY - 1) == []
    assert look(1) == look(1) == look(EVERY - 2) == [(5, 1300)]
    assert look(1) == [(5, 1300), (5, 1600)] and rig.asked == 2


def test_nothing_is_noted_while_capture_stands_still_and_the_time_is_that_of_the_question(rig: Rig) -> None:
    look = _looking(rig)
    rig.source_end = 11
    assert look(EVERY) == look(EVERY) == look(EVERY) == [] and rig.asked == 1
    rig.read = 11
    assert look(7) == [(5, 1300)], "what was committed later may be behind place 11"
    assert look() == [(5, 1300), (5, 1907)]


def test_nothing_is_noted_or_asked_while_apply_is_behind(rig: Rig) -> None:
    look = _looking(rig)
    rig.in_trail = 6
    assert look(EVERY) == [] and rig.asked == 0
    rig.applied = 6
    assert look(1) == [(6, 1301)]


def test_a_source_that_is_away_is_asked_again_an_interval_later(rig: Rig) -> None:
    look = _looking(rig)
    rig.is_away = True
    assert look(EVERY) == look(1) == [] and rig.asked == 1
    rig.is_away = False
    assert look(EVERY) == [(5, 1601)]


def test_the_end_of_another_log_says_nothing(rig: Rig) -> None:
    look = _looking(rig)
    rig.server = "b"
    assert look(EVERY) == look(1) == []
    rig.server, rig.is_lost = "a", True
    assert look(EVERY) == look(1) == []
    rig.is_lost = False
    assert look(EVERY) == [(5, 1902)]


def test_a_process_that_was_replaced_notes_nothing(rig: Rig) -> None:
    look, rig.fenced = _looking(rig), True
    with pytest.raises(Fenced):
        look(EVERY)
    assert (rig.noted, rig.committed) == ([], [])


def test_nobody_is_asked_for_other_targets_or_where_no_notes_are_wanted(rig: Rig) -> None:
    assert _looking(rig, object())(EVERY) == []
    rig.idle_seconds = 0
    assert _looking(rig)(EVERY) == [] and rig.asked == 0
