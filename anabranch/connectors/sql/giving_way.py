"""A long statement gives way: whoever waits for what it holds goes first.

A comparison holds the definitions of its tables for as long as it reads. A change of one waits behind it, and everybody else
behind that change. What does not live here: how a server is asked who waits, and how a statement is ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from anabranch.errors import AnabranchError

LOOK = 0.5  # seconds between two looks
LOOKS = 3  # so many in a row find somebody who waits, before the statement is ended

Found = TypeVar("Found")


def unless_awaited(
    ask: Callable[[], Found], is_awaited: Callable[[], bool], end: Callable[[], None], ended: type[Exception]
) -> Found | None:
    """Return what `ask` finds; None where its statement was ended, by an error of the type `ended`, for somebody who waits for
    what it holds. The session is not to be used again then: what was ended may be its next statement."""
    found: Found | None = None
    with giving_way(is_awaited, end) as has_given_way:
        try:
            found = ask()
        except ended:
            if not has_given_way.is_set():
                raise
    return None if has_given_way.is_set() else found


@contextmanager
def giving_way(is_awaited: Callable[[], bool], end: Callable[[], None]) -> Iterator[threading.Event]:
    """Watch for the time of the block, in a thread of its own, whether somebody waits for it, and call `end` then. The event
    says that it was called: the block's error is not one. Where the server does not say who waits nobody is given way to."""
    has_given_way, is_over = threading.Event(), threading.Event()
    watch = threading.Thread(target=_watch, args=(is_awaited, end, has_given_way, is_over), daemon=True)
    watch.start()
    try:
        yield has_given_way
    finally:
        is_over.set()
        watch.join()


def _watch(
    is_awaited: Callable[[], bool], end: Callable[[], None], has_given_way: threading.Event, is_over: threading.Event
) -> None:
    seen = 0
    while not is_over.wait(LOOK):
        try:
            seen = seen + 1 if has_given_way.is_set() or is_awaited() else 0
            if seen >= LOOKS:
                has_given_way.set()
                end()  # again at each look: it may be several statements
        except AnabranchError:
            return
