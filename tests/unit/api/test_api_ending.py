"""The web server's end: asked for by a thread, it comes at once though the loop wakes once a second only."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import uvicorn

from anabranch.api import ending
from anabranch.api.ending import Server


async def nothing(scope: object, receive: object, send: object) -> None:
    """Answer nothing: nobody asks."""


def served() -> Server:
    return Server(uvicorn.Config(nothing, port=0, lifespan="off", log_config=None))


def test_a_server_ends_at_once_where_a_thread_asks_it_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "TICK_S", 3600.0)
    server = served()

    def ask() -> None:
        while not server.started:
            time.sleep(0.01)
        server.should_exit = True

    threading.Thread(target=ask).start()
    asyncio.run(asyncio.wait_for(server.serve(), 60))
    assert server.should_exit


def test_a_server_that_was_asked_before_it_began_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "TICK_S", 3600.0)
    server = served()
    server.should_exit = True
    asyncio.run(asyncio.wait_for(server.serve(), 60))


def test_the_date_of_answers_is_told_as_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "TICK_S", 0.01)
    server, seen = served(), set()

    def look() -> None:
        while len(seen) < 2:
            seen.update(dict(server.server_state.default_headers).values())
            time.sleep(0.01)
        server.should_exit = True

    threading.Thread(target=look).start()
    asyncio.run(asyncio.wait_for(server.serve(), 60))
    assert len(seen) >= 2
