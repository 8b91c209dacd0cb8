"""Structured logs: event name in snake_case, facts as keys; never row values, never secrets.

On a terminal short coloured lines, otherwise one JSON object a line; always on stderr.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import partial
from traceback import extract_tb
from typing import Any

Tap = Callable[[str, str, Mapping[str, Any]], None]  # (level, event, everything that the line says)
AS_TEXT = "ANABRANCH_ERRORS_AS_TEXT"  # a variable: set where people read what a command says as it comes
TAPPED = ("info", "warning", "error")
_chosen: tuple[str, bool] | None = None  # not in force yet: a tenth of a second's imports wait for the first line
_as_json = False
_level = ""  # as chosen by `configure`
_asked = ""  # the level that somebody wants to see meanwhile (`show`)
_is_noted = False  # do taps get lines of the level `debug`?
_taps: list[Tap] = []
_ABOUT: dict[str, Any] = {}  # of all threads: a context variable would be the calling thread's


def configure(level: str = "info", *, json: bool | None = None) -> None:
    """Set logging up for this process. `json` None = JSON unless stderr is a terminal."""
    global _chosen, _as_json, _level
    _level, _as_json = level, not sys.stderr.isatty() if json is None else json
    _chosen = level, _as_json
    if "structlog" in sys.modules:
        _in_force()


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Send lines of this process to `tap` as well, also those that are not shown; the debug ones if `note_details` says so."""
    _taps.append(tap)
    try:
        yield
    finally:
        _taps.remove(tap)


def note_details(wanted: bool) -> None:
    """Send lines of the level `debug` to taps, too, from now on; what is shown stays as it is. For any thread."""
    global _chosen, _is_noted
    if wanted != _is_noted:
        _is_noted = wanted
        if _level:  # else nobody has set logging up, and nothing comes to a tap
            _chosen = _level, _as_json
            _in_force()


def show(level: str) -> None:
    """Write lines of this level and above from now on, "" for what `configure` has chosen. For any thread."""
    global _chosen, _asked
    if level != _asked:
        _asked = level
        if _level:  # else nobody has set logging up
            _chosen = _level, _as_json
            _in_force()


def is_json() -> bool:
    """Return whether logs are written as JSON. False before a verb has set logging up."""
    return _as_json


def _in_force() -> None:
    global _chosen
    chosen, _chosen = _chosen, None
    if chosen is None:
        return
    import structlog

    level, as_json = _asked or chosen[0], chosen[1]
    least = logging.DEBUG if _is_noted else min(getattr(logging, level.upper()), logging.INFO)
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            lambda _, __, event: {**_ABOUT, **event},
            structlog.processors.add_log_level,
            _tap,
            partial(_shown, getattr(logging, level.upper())),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _stack,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # as it is then
        cache_logger_on_first_use=False,
    )


def _tap(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if event["level"] in TAPPED or _is_noted:
        for tap in _taps:
            tap(event["level"], str(event["event"]), event)
    return event


def _shown(least: int, _: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drop lines below the level that is shown: taps want more than people do."""
    import structlog

    if getattr(logging, str(event["level"]).upper()) < least:
        raise structlog.DropEvent
    return event


def _stack(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the places and the classes of an error where it was, and neither messages nor variables: they have secrets."""
    error = event.pop("exc_info", None)
    error = sys.exc_info()[1] if error is True else error
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_places(error))
    return event


def _places(error: BaseException) -> Iterator[str]:
    """Yield lines about an error, innermost call last, then of what it came from."""
    for frame in extract_tb(error.__traceback__):
        yield f"{frame.filename}:{frame.lineno} {frame.name}"
    yield type(error).__name__
    former = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for other in (*inner, *([former] if former is not None else [])):
        yield f"  with {type(other).__name__}:"
        yield from _places(other)


@contextmanager
def about(**facts: Any) -> Iterator[None]:
    """Add facts to every line of this process meanwhile."""
    before = dict(_ABOUT)
    _ABOUT.update(facts)
    try:
        yield
    finally:
        _ABOUT.clear()
        _ABOUT.update(before)


def is_detailed() -> bool:
    """Return whether anybody wants lines of the level `debug`. Ask before making one, where that is work or often."""
    return _is_noted or ((_asked if _level else "") or _level) == "debug"


def get(**facts: Any) -> Any:
    """Return a logger with `facts` bound (job, part, table, position)."""
    import structlog

    _in_force()
    return structlog.get_logger().bind(**facts)


# What a statement is without its values: texts, bodies in dollars, numbers. Names in the server's own quotes stay.
_VALUES = {
    '"': re.compile(
        r"""("(?:[^"]|"")*")|\b[eE]'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|(\$\w*\$).*?\2|\b\d[\w.]*""", re.DOTALL
    ),
    "`": re.compile(r"""(`(?:[^`]|``)*`)|'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"()|\b\d[\w.]*""", re.DOTALL),
}
_SHOWN = 1_000  # characters


def shape(statement: str, name_quote: str) -> str:
    """Write a statement for the log: with `…` for each value in it. If its quotes do not end, only the first word is shown."""
    found = _VALUES[name_quote].sub(lambda match: match[1] or "…", statement)
    if any(quote in re.sub(f"{name_quote}[^{name_quote}]*{name_quote}", "", found) for quote in "'\"`"):
        return f"{statement.split(maxsplit=1)[0]} …"
    text = " ".join(found.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
