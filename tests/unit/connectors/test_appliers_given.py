"""Sessions of several appliers at a target that is short of connections: those that it gives apply, and nobody is stopped."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from anabranch.connectors.sql.appliers import AGAIN_S, Appliers
from anabranch.errors import TargetBusy, TargetUnavailable


@dataclass
class Server:
    """Gives so many connections, and says how often it was asked."""

    gives: int
    now: float = 100.0
    asked: int = 0
    there: set[int] = field(default_factory=set)


class Session:
    def __init__(self, server: Server, number: int) -> None:
        self.server, self.number = server, number

    def ready(self) -> None:
        if self.number in self.server.there:
            return
        self.server.asked += 1
        if len(self.server.there) >= self.server.gives:
            raise TargetUnavailable("too many connections")
        self.server.there.add(self.number)

    def close(self) -> None:
        self.server.there.discard(self.number)


def appliers(server: Server) -> Appliers[Session]:
    return Appliers(lambda number: Session(server, number), lambda: server.now)


def numbers(made: Appliers[Session]) -> list[int]:
    return [one.number for one in made.ready(4, "shop")]


def test_those_that_are_given_apply_and_the_log_says_once_that_others_are_missing() -> None:
    server = Server(gives=3)
    made = appliers(server)
    with capture_logs() as told:
        assert numbers(made) == [0, 1, 2] and server.asked == 4
        assert numbers(made) == [0, 1, 2] and server.asked == 4, "it is not asked again at once"
        server.now += AGAIN_S
        assert numbers(made) == [0, 1, 2] and server.asked == 5
        server.gives, server.now = 4, server.now + AGAIN_S
        assert numbers(made) == [0, 1, 2, 3]
    assert [(one["event"], one["number"], one["job"]) for one in told] == [("applier_is_not_given", 4, "shop")]


@pytest.mark.parametrize("gives", [0, 1])
def test_where_not_even_two_are_given_none_is_kept(gives: int) -> None:
    server = Server(gives)
    made = appliers(server)
    assert numbers(made) == [] and not server.there
    asked, server.gives = server.asked, 4
    assert numbers(made) == [] and server.asked == asked
    server.now += AGAIN_S
    assert numbers(made) == [0, 1, 2, 3]


def test_one_whose_line_is_lost_is_missed_by_nobody() -> None:
    server = Server(gives=4)
    made = appliers(server)
    assert numbers(made) == [0, 1, 2, 3]
    server.there, server.gives = {0, 2, 3}, 3
    assert numbers(made) == [0, 2, 3]
    server.gives, server.now = 4, server.now + AGAIN_S
    assert numbers(made) == [0, 1, 2, 3]
    made.close()
    assert not server.there


def test_a_session_that_is_in_the_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(session: Session) -> None:
        raise TargetBusy("a session of this job that lost its line is still at the target")

    monkeypatch.setattr(Session, "ready", busy)
    with pytest.raises(TargetBusy):
        appliers(Server(gives=4)).ready(4, "shop")
