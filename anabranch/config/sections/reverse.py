"""`[reverse]` of the job file."""

from __future__ import annotations

from typing import Literal

from anabranch.config.section import Section
from anabranch.config.values import PatternText


class Reverse(Section):
    """The way back, from the target to the source ([how](../howto/migrate-with-a-way-back.md))."""

    enabled: bool = False
    """Check in every preflight, that of `run` included, that the job can go back: what cannot is refused when the job is made,
    not when it is needed. Once it has begun such a finding is a warning. `anabranch preflight JOB --reverse` does the same
    once, and always refuses."""
    exclude: list[PatternText] = []
    """Globs of source tables that do not go back: the checks and `anabranch reverse` leave them out."""
    lossy: Literal["refuse", "accept"] = "refuse"
    """Refuse types that change some values on the way there, or let such values come back as they are at the target."""
