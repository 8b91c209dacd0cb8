"""The web server, which ends in order where it is asked to.

What does not live here: what it serves (`app.py`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)
TICK_S = 1.0  # the answers' date has seconds


class Server(uvicorn.Server):
    """Uvicorn's, but for two things. Behind an end in order it does not raise the signal again, which would be an exit code
    that says the process was cut short. And it wakes once a second, not ten times, and at once where it is asked to end."""

    was_asked = False  # to end, by a signal
    _asked = False  # `should_exit`, also before there is a loop
    _loop: asyncio.AbstractEventLoop | None = None
    _wakes: asyncio.Event

    @property
    def should_exit(self) -> bool:
        """Return whether the server is to end. Any thread sets it, and signals do."""
        return self._asked

    @should_exit.setter
    def should_exit(self, is_asked: bool) -> None:
        self._asked = is_asked
        if is_asked and self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended since
                self._loop.call_soon_threadsafe(self._wakes.set)

    async def main_loop(self) -> None:
        """Return when the server is to end."""
        self._loop, self._wakes = asyncio.get_running_loop(), asyncio.Event()
        while not await self.on_tick(0):  # of uvicorn's ticks every tenth sets the date, as number 0 does
            with suppress(TimeoutError):  # a second is over, and nobody has asked
                await asyncio.wait_for(self._wakes.wait(), TICK_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in order; at once where it is asked again by SIGINT."""
        self.was_asked = True
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        former = {number: signal.signal(number, self.handle_exit) for number in ASKED_TO_END}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
