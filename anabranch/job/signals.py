"""Requests to stop a part: signals, or the end of the process that started it.

The first SIGINT or SIGTERM asks; the second ends the process at once. A part that a supervisor started also stops when
the supervisor is gone: its standard input closes.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from anabranch import waits
from anabranch.errors import AnabranchError, Retry

SUPERVISED = "ANABRANCH_SUPERVISED"
PREFLIGHT = "ANABRANCH_PREFLIGHT"  # set for a load that has to check what its supervisor could not


class Request:
    """A request that a signal's handler may make, and threads wait for.

    It is no threading.Event: a handler may come while its own thread holds the lock of that, and would wait for itself for
    ever. `SimpleQueue.put` may be called by handlers, as its documentation says.
    """

    def __init__(self) -> None:
        self._is_made = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_made(self) -> bool:
        return self._is_made

    def make(self) -> None:
        self._is_made = True
        self._wakes.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait until somebody makes it, `seconds` at most. Returns whether anybody did."""
        with suppress(queue.Empty):
            self._wakes.get(timeout=seconds)
            self._wakes.put(None)  # for others that wait
        return self._is_made


class Stop:
    """A context in which signals ask the part to stop. Engines poll `asked()`; `signal` is the number of the signal
    that asked, 0 for none."""

    def __init__(self, ends_waits: bool = True) -> None:
        """Install the handlers. `ends_waits`: the first signal ends statements that wait for others; else what has
        begun is finished.
        """
        self.signal = 0
        self._asked = Request()
        self._before: dict[signal.Signals, Any] = {}
        self._waits, self._ends_waits = ExitStack(), ends_waits

    def asked(self) -> bool:
        return self._asked.is_made()

    def ask(self) -> None:
        self._asked.make()

    def wait(self, seconds: float) -> bool:
        return self._asked.wait(seconds)

    def __enter__(self) -> Stop:
        """Take over the signals of this process (main thread only), and watch the supervisor's pipe if there is one."""
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
            }
        if self._ends_waits:
            self._waits.enter_context(waits.ending_when(self.asked))
        if os.environ.get(SUPERVISED):
            threading.Thread(target=self._watch_supervisor, name="supervisor", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers: the next cell of a notebook is interrupted, not its kernel ended."""
        self._waits.close()
        for number, handler in self._before.items():
            if handler is not None:  # one that was not set from Python cannot be put back
                signal.signal(number, handler)
        self._before = {}

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Ignore the error of a statement that waited for others, and was ended because this process has to stop."""
        try:
            yield
        except AnabranchError as error:
            if not (self.asked() and error.retry is Retry.TIMED and waits.said()):
                raise

    def exit_if_signalled(self) -> None:
        """Exit if a signal came, for verbs with an end of their own that were interrupted before it."""
        if self.signal:
            sys.exit(128 + self.signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked():
            os._exit(128 + number)
        self.signal = number
        self.ask()

    def _watch_supervisor(self) -> None:
        """End the process at EOF: the one that started us is dead, or told to stop at once; nothing that matters waits
        for a clean end.
        """
        while os.read(sys.stdin.fileno(), 4096):  # unbuffered: a lock on the buffer would outlive the interpreter
            pass
        os._exit(128 + signal.SIGTERM)
