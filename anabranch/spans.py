"""Spans: how long parts of the work took, told to whoever records them. Nobody does unless the job file asks for it.

`span("plan")` stands where work begins, and is a condition and no more while nobody records. A span has places of the trail,
names of tables and numbers; never values of rows, never messages. What does not live here: who records (`job/otlp.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Fact = str | int | float | bool


class Span(Protocol):
    """A span that is open."""

    def note(self, **facts: Fact) -> None:
        """Add facts to it."""


class Recorder(Protocol):
    """Keeps spans, from any thread. None of its methods may raise, or wait for anybody."""

    def span(self, name: str, facts: Mapping[str, Fact]) -> AbstractContextManager[Span]:
        """Open a span inside the one that this thread has open; an error that passes its end is noted by its class."""

    def past(self, name: str, began: int, ended: int, facts: Mapping[str, Fact]) -> None:
        """Keep a span of another process. Times in nanoseconds since 1970, by that process's clock."""


class _Nothing:
    """A span that nobody records."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""

    def note(self, **facts: Fact) -> None:
        """Add nothing."""


_NOTHING = _Nothing()
_recorder: Recorder | None = None


def span(name: str, **facts: Fact) -> AbstractContextManager[Span]:
    """Return a span of this name, to be entered."""
    return _NOTHING if _recorder is None else _recorder.span(name, facts)


def past(name: str, began: int, ended: int, **facts: Fact) -> None:
    """Tell of a span of another process, which is over."""
    if _recorder is not None and began:
        _recorder.past(name, began, ended, facts)


@contextmanager
def recorded(recorder: Recorder) -> Iterator[None]:
    """Let somebody record the spans of this process."""
    global _recorder
    before, _recorder = _recorder, recorder
    try:
        yield
    finally:
        _recorder = before
