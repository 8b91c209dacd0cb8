"""The web server, which ends in order where it is asked to.

What does not live here: what it serves (`app.py`).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """Uvicorn's, but for one thing: behind an end in order it does not raise the signal again, which would be an exit code that
    says the process was cut short."""

    was_asked = False  # to end, by a signal

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
