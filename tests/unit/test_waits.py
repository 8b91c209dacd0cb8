"""How soon it is said for whom we wait: within ten seconds, whatever the moment. The live tests show that it is said."""

from __future__ import annotations

import os
import threading
import weakref

import pytest

from anabranch import waits
from anabranch.errors import SourceUnavailable
from anabranch.testing.in_time import until


class Unused:
    """A session that is never busy, so nobody looks for it."""


def test_a_wait_is_told_within_ten_seconds_of_its_beginning() -> None:
    """A session counts as busy after BUSY, at one of the looks at our own; the server is asked at the next turn to do so."""
    slowest = waits.BUSY + 2 * waits.TICK + max(waits.LOOK, waits.LOOK_AGAIN)
    assert slowest < 10.0 / 1.5, "a third of it is left for the connection and the answer"


def test_a_fork_tells_its_own_listeners_also_once_it_has_a_session() -> None:
    heard, session = list[str](), waits.Session(1, lambda connection: False, lambda connection: None)
    with waits.listening(lambda server, text: heard.append("parent")):
        child = os.fork()
        if not child:
            with waits.listening(lambda server, text: heard.append("child")):
                waits.register("server", Unused(), session, _nobody)
                waits.publish("server", "it waits")
            os._exit(0 if heard == ["child"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        waits.publish("server", "it waits")
    assert heard == ["parent"]


def test_a_connection_that_nobody_holds_any_more_is_gone() -> None:
    """Who watches it asks it, and keeps it no longer than that takes."""
    asked, connection = threading.Event(), Unused()

    def is_busy(one: object) -> bool:
        asked.set()
        return False

    is_gone = weakref.ref(connection)
    waits.register("a server of its own", connection, waits.Session(1, is_busy, lambda one: None), _nobody)
    assert asked.wait(60)
    del connection
    until(lambda: is_gone() is None, "the connection is gone")


def _nobody() -> waits.Lookout:
    raise AssertionError("nobody is asked")


def test_a_server_that_this_process_has_left_is_not_asked_about_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that follow each other in one process: the database of the one before may be gone by now."""
    monkeypatch.setattr(waits, "LOOK", 0.0)
    asked, session = list[str](), waits.Session(1, lambda connection: False, lambda connection: None)

    def lookout(name: str) -> waits.Lookout:
        asked.append(name)
        raise SourceUnavailable("nobody is there")

    before, now = Unused(), Unused()
    waits.register("the one before", before, session, lambda: lookout("before"))
    gone = weakref.ref(before)
    del before
    until(lambda: gone() is None, "its session is gone")
    with waits.listening(lambda server, text: None), waits.in_tasks():
        waits.register("the one of now", now, session, lambda: lookout("now"))
        until(lambda: len(asked) > 1, "a server is asked twice")
    assert set(asked) == {"now"}
