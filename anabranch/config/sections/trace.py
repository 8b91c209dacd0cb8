"""`[trace]` of the job file."""

from __future__ import annotations

from pydantic import Field

from anabranch.config.section import Section


class Trace(Section):
    """The record of what happened to the job: in its home, and in `anabranch.trace` at each target."""

    retain_hours: int = Field(default=168, ge=1, le=8784)
    """How long. `anabranch trace JOB` shows it."""
