"""The result of one preflight check.

What does not live here: the checks (`contracts.Checks`, each connector).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A line of a preflight report. `hint` is the statement or setting that helps. `names` lists everything the finding
    is about, where the message shows only some.
    """

    check: str  # e.g. "source.binlog_format"
    verdict: str  # ok | warning | failed
    message: str
    hint: str = ""
    table: str = ""
    names: tuple[str, ...] = ()
