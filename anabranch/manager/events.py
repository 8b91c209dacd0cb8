"""Events: what changes of jobs, alerts and operations, numbered, for whoever follows them.

They are found by comparing with the look before, once a second at most, and only while somebody follows. The last ones are
kept, so that who was cut off goes on where it was. What does not live here: HTTP (`api/events.py`), what is measured.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from anabranch.manager.alerts import Alerts
from anabranch.manager.callers import Caller
from anabranch.manager.jobs import Jobs
from anabranch.manager.measures import Measure
from anabranch.manager.store import ManagerStore
from anabranch.manager.supervising import Supervision

KEPT = 10_000
LOOK_S = 1.0
JOB, GONE, ALERT, OPERATION = "job", "gone", "alert", "operation"
_MEASURED = ("state", "sub_state", "detail", "lag", "changes", "rows", "parked")


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `kind`: job (its state and measures now), gone (a job), alert (it began, went on or is over) or operation;
    `job`: "" of an alert about the machine."""

    number: int
    kind: str
    job: str
    data: Mapping[str, Any]

    def is_for(self, caller: Caller, job: str | None) -> bool:
        """Return whether a caller may see it, who follows one job, or all of them (None)."""
        if job is not None and self.job != job:
            return False
        return caller.sees(self.job) if self.job else caller.sees_all


class Events:
    """The events of one manager, from any thread. `run`: what tells its numbers from those of another run of a manager."""

    def __init__(
        self,
        store: ManagerStore,
        jobs: Jobs,
        supervision: Supervision,
        alerts: Alerts,
        latest: Callable[[], Mapping[str, Measure]],
    ) -> None:
        """`latest`: returns the measures of now, by job."""
        self._store, self._jobs, self._supervision, self._alerts, self._latest = (
            store,
            jobs,
            supervision,
            alerts,
            latest,
        )
        self.run = secrets.token_hex(4)
        self._mutex = threading.Lock()
        self._known: dict[tuple[str, Any], Event] = {}
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._last, self._looked = 0, float("-inf")

    def since(self, number: int | None) -> tuple[list[Event], int, bool]:
        """Return events behind a number, the number of the last one, and whether they are all that came since.

        Without a number, or where events behind it are no longer kept, they are everything as it is now.
        """
        with self._mutex:
            if time.monotonic() - self._looked >= LOOK_S:
                self._look()
                self._looked = time.monotonic()
            first = self._kept[0].number if self._kept else self._last + 1
            if number is None or not first - 1 <= number <= self._last:
                return sorted(self._known.values(), key=lambda one: one.number), self._last, False
            return [one for one in self._kept if one.number > number], self._last, True

    def _look(self) -> None:
        now = {(kind, key): Event(0, kind, job, data) for kind, key, job, data in self._found()}
        for place in [place for place in self._known if place not in now]:
            former = self._known.pop(place)
            if former.kind == JOB:
                self._note(Event(0, GONE, former.job, {"name": former.job}))
        for place, event in now.items():
            former_event = self._known.get(place)
            if former_event is None or former_event.data != event.data:
                self._known[place] = self._note(event)

    def _note(self, event: Event) -> Event:
        self._last += 1
        made = replace(event, number=self._last)
        self._kept.append(made)
        return made

    def _found(self) -> list[tuple[str, Any, str, dict[str, Any]]]:
        """Return what is so now: its kind, what tells it from others of that kind, its job, what it says."""
        latest = self._latest()
        found: list[tuple[str, Any, str, dict[str, Any]]] = []
        for job in self._jobs.all():
            process = self._supervision.state(job.name, job.is_wanted)
            facts = {"name": job.name, "version": job.version, "is_wanted": job.is_wanted, "process": process.state}
            facts |= {"pid": process.pid, "restarts": process.restarts, "problem": process.problem}
            measure = latest.get(job.name)
            facts |= {name: getattr(measure, name, None) for name in _MEASURED}
            found.append((JOB, job.name, job.name, facts))
        found += [(ALERT, one.id, one.job, asdict(one)) for one in self._alerts.all(100)]
        query = """
            SELECT id, job, verb, state, code, asked, asked_by, began, ended FROM operation
            WHERE job IN (SELECT name FROM job) ORDER BY id DESC LIMIT 200"""
        return found + [(OPERATION, row["id"], row["job"], row) for row in self._store.rows(query)]
