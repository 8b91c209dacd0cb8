"""The user's own command that leads the application to the target: run without a shell, with both ends in its environment.

What it writes goes to stderr. It is in a session of its own: a Ctrl-C for us does not end it half-way. It has to be one that
may be run again: after a kill nobody knows how it ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from anabranch.errors import ConfigError, StateError
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.view.job_view import JobView

RUNS = "cutover-flip.lock"  # beside what is kept for the target
SOURCE, TARGET, JOB, POSITION = (
    "ANABRANCH_SOURCE_URL",
    "ANABRANCH_TARGET_URL",
    "ANABRANCH_JOB",
    "ANABRANCH_FENCE_POSITION",
)


class FlipRefused(StateError):
    """The command has ended, and says that it failed: it has taken back what it did."""


def flip_lock(job: JobView) -> OsLock:
    """Take the lock that a flip command holds as long as it, or what it has started, runs. Raises StateError while one does."""
    job.target_home.mkdir(parents=True, exist_ok=True)
    try:
        return OsLock(job.target_home / RUNS)
    except LockHeld:
        raise StateError(
            "the flip command of before still runs", job=job.label, hint="wait for its end, or end it, then ask again"
        ) from None


def flip(job: JobView, command: Sequence[str], position: str) -> None:
    """Run the command, and wait for its end. Raises FlipRefused where it says that it failed, ConfigError where it cannot be
    started. The URLs have no password: what needs one has it from where the job has it."""
    facts = {
        SOURCE: str(job.config.source.endpoint),
        TARGET: str(job.endpoint),
        JOB: job.config.name,
        POSITION: position,
    }
    if not command:
        hint = "the job file had one when the cut-over began: put it back"
        raise ConfigError("[cutover] flip: no command leads the application there", job=job.label, hint=hint)
    lock = flip_lock(job)
    try:
        made = subprocess.Popen(
            list(command),
            env={**os.environ, **facts},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )
    except OSError as error:
        raise ConfigError(f"[cutover] flip: {command[0]} cannot be started: {error.strerror}", job=job.label) from None
    finally:
        lock.close()  # the command has it as long as it runs
    if (code := made.wait()) != 0:
        ended = f"by signal {-code}" if code < 0 else f"with {code}"
        hint = "what it wrote stands above; it has to take back what it did before it fails"
        raise FlipRefused(f"[cutover] flip: {command[0]} ended {ended}", job=job.label, hint=hint)
