"""Refuses to say of a job that nothing is there, where `$ANABRANCH_HOME` leads to no directory.

What does not live here: the home of one job, which the first command that needs it makes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.errors import ConfigError

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

HOME = "ANABRANCH_HOME"


def require_home(job: JobView, found: Mapping[str, Any] | None = None) -> None:
    """Raise ConfigError where the environment names a directory for homes that does not exist: a name that was mistyped looks
    like a job that has never run. `found`: a status; where all targets answer, and know nothing of the job, that is so."""
    if found and not found["unreachable"] and not any(one["applied"] or one["tables"] for one in found["targets"]):
        return
    root = job.config.home.parent
    if os.environ.get(HOME) and not root.is_dir():
        raise ConfigError(
            f"${HOME} is {root}, which does not exist: nothing is known here of what the job has done",
            hint=f"correct ${HOME}; where the job has never run, anabranch run JOB makes it",
            job=job.config.name,
        )
