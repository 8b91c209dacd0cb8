"""What a check of preflight has found.

What does not live here: the checks (`contracts.Checks`, each connector).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of a preflight report. `hint` is the statement or setting that mends it. `names` has all that the finding
    is about where the message, for reading, names only some."""

    check: str  # e.g. "source.binlog_format"
    verdict: str  # ok | warning | failed
    message: str
    hint: str = ""
    table: str = ""
    names: tuple[str, ...] = ()
