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
    root = job.config.home.parent
    if not os.environ.get(HOME) or root.is_dir() or (found is not None and _has_never_run(found)):
        return
    raise ConfigError(
        f"${HOME} is {root}, which does not exist: nothing is known here of what the job has done",
        hint=f"correct ${HOME}; where the job has never run, anabranch run JOB makes it",
        job=job.config.name,
    )


def _has_never_run(found: Mapping[str, Any]) -> bool:
    """Return whether all ends answer, and no target knows of the job. What has nothing to say is not in a status."""
    return not found.get("unreachable") and not any(one.get("applied") or one.get("tables") for one in found["targets"])
