"""Questions of those who verify where a trail is applied: the run that captures into it starts what answers them.

That is a part of its own, `verify`, which ends when nobody asks any more. What does not live here: answering
(answering.py), the mailbox (trail/checks.py).
"""

from __future__ import annotations

import sys
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from anabranch import log, pace
from anabranch.errors import AnabranchError, TrailError
from anabranch.job.children import Child, PartFailed
from anabranch.trail import checks
from anabranch.trail.checks import Answer
from anabranch.trail.lock import LockHeld, OsLock

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

LOCK = "verify-asked.lock"  # in the job's home: whoever has it writes answers
AGAIN_S = 30.0  # until it is tried again behind a failure
KEPT_S = 600.0  # without a question, until the answers are taken out of the trail


class AskedChecks:
    """The questions of a trail, looked at by its supervisor. One that is not answered is answered by the next run, too."""

    def __init__(self, job: JobView) -> None:
        self._job = job
        self._next, self._told, self._quiet_since = 0.0, "", time.monotonic()
        self._child: Child | None = None

    @property
    def children(self) -> list[Child]:
        return [] if self._child is None else [self._child]

    def poll(self, now: float) -> None:
        """Start what answers, or see how it goes on."""
        if self._child is not None:
            self._see(self._child, now)
        elif now >= self._next:
            self._next = now + pace.current.run_asked
            self._look(now)

    def pause(self) -> None:
        """Stop what runs: another machine has the trail, and answers."""
        self._quiet_since = time.monotonic()
        for child in self.children:
            child.pause()
            if child.process is None or child.process.poll() is not None:
                self._child = None

    def _look(self, now: float) -> None:
        try:
            if checks.pending(self._job.trail):
                command = [sys.executable, "-m", "anabranch", "verify", str(self._job.path)]
                self._child = Child("verify", command, may_end=True)
                self._child.restarts_per_hour = self._job.config.retry.restarts_per_hour
            elif now - self._quiet_since > KEPT_S:
                self._quiet_since = now
                with suppress(LockHeld), self._lock():  # somebody answers: not now
                    checks.forget_answers(self._job.trail)
        except TrailError as error:
            self._tell(error)

    def _lock(self) -> closing[OsLock]:
        """Take the lock of who answers, also by hand. Raises LockHeld."""
        return closing(OsLock(self._job.config.home / LOCK))

    def _see(self, child: Child, now: float) -> None:
        self._quiet_since = now
        try:
            child.poll(now)
        except PartFailed as failed:
            self._child, self._next = None, now + AGAIN_S
            self._refuse(f"what answers at the source's site ended with code {failed.exit_code}, its log says why")
        else:
            if child.ended_well:
                self._child = None

    def _refuse(self, why: str) -> None:
        """Answer all questions with why nothing can be told. Where even that cannot be written, they wait for the
        next run; where somebody answers by hand, for that."""
        with suppress(AnabranchError, LockHeld), self._lock():  # they wait, as said above
            for question in checks.pending(self._job.trail):
                checks.note(self._job.trail, question.id, Answer({}, why))

    def _tell(self, error: TrailError) -> None:
        """Tell of a question that cannot be read, once: it keeps nobody's capture from going on."""
        if error.message != self._told:
            log.get(job=self._job.config.name).warning(
                "question_about_rows_unreadable", reason=error.message, hint=error.hint
            )
        self._told = error.message
