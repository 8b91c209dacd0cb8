"""Words and figures of the pages, as people read them.

What does not live here: which job they are about (`outlook.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from urllib.parse import quote

from anabranch.model.checks import CheckResult, CheckVerdict

REFUSED = {
    403: "You may not do this",
    404: "There is no such page",
    409: "Somebody else was faster",
    413: "This is too large",
    421: "This is not the name of this manager",
    422: "This cannot be taken",
    429: "Too many requests",
    500: "This went wrong",
    503: "This does not work now",
}


def duration(seconds: float | None) -> str:
    """Write seconds: `0.4 s`, `3 min 5 s`, `2 h 4 min`, `3 d 1 h`; None: that it is not known."""
    if seconds is None:
        return "not known"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(number: float | None) -> str:
    """Write a number of bytes in decimal units; None: that it is not known."""
    if number is None:
        return "not known"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"


def count(number: int | None) -> str:
    """Write a number with its thousands apart; None as a dash."""
    return "-" if number is None else f"{number:,}"


def rate(number: float | None) -> str:
    """Write how many come in a second: a part of one to the tenth, more as a whole number; None as a dash."""
    if number is None:
        return "-"
    return f"{number:.1f}" if 0 < number < 10 else f"{number:,.0f}"


def moment(told: str | float | None) -> str:
    """Write a time, ISO 8601 or seconds since 1970, to the second, in UTC; None as a dash."""
    if told is None or told == "":
        return "-"
    found = datetime.fromtimestamp(told, UTC) if isinstance(told, (int, float)) else datetime.fromisoformat(told)
    return found.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def micros(told: int | None) -> str:
    """Write a time in microseconds since 1970, as `moment` does; 0, which is not known, as a dash."""
    return moment(told / 1_000_000 if told else None)


def segment(name: str) -> str:
    """Write a name as one segment of an address, whatever is in it."""
    return quote(name, safe="")


def ranked(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the results of checks, the worst first."""
    return sorted(results, key=lambda one: list(CheckVerdict).index(one.verdict), reverse=True)
