"""Clears away in peace: signals wait meanwhile."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM while something is cleared away; SIGKILL still ends it.

    They stay ignored afterwards where the first Ctrl-C is what ends us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_ending = isinstance(sys.exception(), KeyboardInterrupt | SystemExit)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items() if not is_ending else ():
            signal.signal(number, handler)
