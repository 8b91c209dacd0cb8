"""The result of one preflight check, and its verdict.

What does not live here: the checks (`contracts.Checks`, each connector).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckVerdict(StrEnum):
    """The verdict of a check on the job, from the mildest to the worst."""

    OK = "ok"  # nothing needs doing
    WARNING = "warning"  # the job may run; somebody should know of it
    FAILED = "failed"  # the job does not run before it is mended


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A line of a preflight report. `hint` is the statement or setting that helps. `names` lists everything the finding
    is about, where the message shows only some. `step` is the step of `anabranch recipe` that mends it.
    """

    check: str  # e.g. "source.binlog_format"
    verdict: CheckVerdict
    message: str
    hint: str = ""
    table: str = ""
    names: tuple[str, ...] = ()
    step: str = ""
