"""Loads of tables that are asked for where a trail is applied: carried out by the run that captures into it, one by one.

Each is a part of its own, `load --table`; the answer is the number of the load that the trail has then, or why there is none.
What does not live here: the mailbox (trail/requests.py), who asks (lifecycle/asking.py).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from anabranch import log, pace
from anabranch.errors import TrailError
from anabranch.failpoints import reach
from anabranch.job.children import Child, PartFailed
from anabranch.trail import load_answers, requests
from anabranch.trail.load_answers import Answer
from anabranch.trail_end import manifests

if TYPE_CHECKING:
    from anabranch.state.store import StateStore
    from anabranch.trail.requests import Request
    from anabranch.view.job_view import JobView

NOTHING = "the load at the source's site brought no rows of it"


class AskedLoads:
    """The requests for a trail, looked at by its supervisor. One that is not answered is carried out by the next run, too."""

    def __init__(self, job: JobView, state: StateStore) -> None:
        self._job, self._state = job, state
        self._next, self._told = 0.0, ""
        self._request: Request | None = None
        self._child: Child | None = None
        self._is_paused = False

    @property
    def children(self) -> list[Child]:
        return [] if self._child is None else [self._child]

    def poll(self, now: float) -> None:
        """Begin the oldest request, or see how the one that was begun goes on."""
        if self._is_paused and not self._is_over():
            return
        if self._child is None and now >= self._next:
            self._next = now + pace.current.run_asked
            self._begin()
        if self._child is not None and self._request is not None:
            self._see(self._child, self._request, now)

    def pause(self) -> None:
        """Stop what runs: another machine has the trail, and carries requests out. One that it has not answered is begun again
        when the turn is back."""
        for child in self.children:
            self._is_paused = True
            child.pause()

    def _is_over(self) -> bool:
        """Return whether the load that was stopped has ended; it is forgotten then."""
        if any(child.process is not None and child.process.poll() is None for child in self.children):
            return False
        self._request, self._child, self._is_paused = None, None, False
        return True

    def _begin(self) -> None:
        for request in self._pending()[:1]:
            log.get(job=self._job.config.name, table=str(request.table)).info("load_asked_for")
            command = [sys.executable, "-m", "anabranch", "load", str(self._job.path), "--table", str(request.table)]
            self._request, self._child = request, Child("load", command, may_end=True)
            self._child.restarts_per_hour = self._job.config.retry.restarts_per_hour

    def _pending(self) -> list[Request]:
        """Return the requests that wait. One that cannot be read keeps nobody's capture from going on: it is told once."""
        try:
            return requests.pending(self._job.trail, requests.LOADS)
        except TrailError as error:
            if error.message != self._told:
                log.get(job=self._job.config.name).warning(
                    "load_request_unreadable", reason=error.message, hint=error.hint
                )
            self._told = error.message
            return []

    def _see(self, child: Child, request: Request, now: float) -> None:
        try:
            child.poll(now)
        except PartFailed as failed:
            self._answer(request, f"the load at the source's site ended with code {failed.exit_code}{self._why()}")
        else:
            if child.ended_well:
                self._answer(request, "")

    def _answer(self, request: Request, refusal: str) -> None:
        trail, table, number = self._job.trail, request.table, 0
        try:
            found = manifests.load(trail, table)
            number = found.generation if found else 0
        except TrailError as error:
            refusal = refusal or error.message
        refusal = refusal or ("" if number else NOTHING)
        said = load_answers.note(trail, request.id, Answer(0 if refusal else number, refusal))
        refusal, number = said.refusal, said.load
        reach("trail.load.asked")
        waiting = requests.answer(trail, table, requests.LOADS)
        if waiting is not None and waiting.id == request.id and waiting.is_pending:  # else whoever asked has given up
            if refusal:
                requests.refuse(trail, table, refusal, requests.LOADS)
            else:
                requests.done(trail, table, number, requests.LOADS)
        log.get(job=self._job.config.name, table=str(table)).info("load_asked_for_ended", refusal=refusal)
        self._state.phase("streaming")
        self._request = self._child = None

    def _why(self) -> str:
        said = self._state.snapshot()["last_error"]
        return f": {said['message']}" if said and said["part"] == "load" else ""
