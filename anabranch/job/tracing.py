"""Entries of a job's trace: starts and ends of parts, states, whatever the log warns of, and what a person has asked
for.

What does not live here: the file (`state/trace.py`), the way to the target (`shipping.py`).
"""

from __future__ import annotations

import getpass
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import log
from anabranch.errors import AnabranchError, StateError
from anabranch.job.states import named as named_state
from anabranch.model.condition import Waiting
from anabranch.state.trace import DETAILED, USUAL, Trace, drop_old, record, recorded, show, shown

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

NOTED = ("table_forgotten", "table_dropped", "table_joined", "table_taken_out", "tables_resumed", "source_set_up")
# Keys of a log line that an entry has in another form.
OWN = ("level", "event", "timestamp", "message", "error", "reason", "why", "waits_for")
SHIPPING = "anabranch-trace-"  # threads whose own statements are not noted: each batch would make the next one


class PartTrace:
    """The trace of one part."""

    def __init__(self, job: JobView, task: str) -> None:
        self.trace, self._config, self._level, self._shown = Trace(job.config.home, task), job.config, USUAL, ""

    def drop_old(self) -> None:
        drop_old(self._config.home, self._config.trace.retain_hours)

    def follow_level(self) -> None:
        """Take over the levels that are asked for by now, of the trace and of stderr. Called again and again."""
        level, seen = recorded(self._config.home), shown(self._config.home)
        if seen != self._shown:
            self._shown = seen
            log.show(seen)
            told = f"lines of the level {seen} and above are" if seen else "what this process was told is"
            self.trace.note("info", "log_level", f"{told} written to stderr from here on")
        if level != self._level:
            self._level = level
            log.note_details(level == DETAILED)
            self.trace.note("info", "trace_level", f"lines of the level {level} and above are noted from here on")

    def started(self, name: str, gone: Iterable[Mapping[str, Any]]) -> None:
        """Note a start. `gone`: parts that have not said how they ended. Each part tells of its own former one, `run`
        of all.
        """
        for part in gone:
            if name in (part["name"], "run"):
                self._died(part)
        self.trace.note("info", "part_started", part=name, state="starting", sub_state="parts")

    def _died(self, part: Mapping[str, Any]) -> None:
        told = f"process {part['pid']} on {part['host']} ended without giving a reason, last seen at {part['seen']}"
        state = {
            "state": "died",
            "sub_state": "gone" if part["is_here"] else "silent",
            "code": "part_died",
            "side": "job",
        }
        self.trace.note("error", "part_died", told, part=part["name"], **state)

    def ended(self, name: str, error: Mapping[str, Any] | None) -> None:
        """Note an end. `error`: AnabranchError.facts() and its message."""
        if error is None:
            self.trace.note("info", "part_ended", part=name, state="stopped", sub_state="in_order")
        else:
            told = {key: value for key, value in error.items() if key != "message"}
            state = {"state": "failed", "sub_state": error["side"]}
            self.trace.note("error", "part_failed", error["message"], part=name, **{**told, **state})

    def stops(self, name: str) -> None:
        self.trace.note("info", "part_stops", part=name, state="stopping", sub_state="in_order")

    def phase(self, phase: str, about: str, detail: str, error: Mapping[str, Any] | None) -> None:
        state, sub_state = named_state(phase, about)
        named = {key: error[key] for key in ("code", "side") if key in error} if error else {}
        self.trace.note("info", "state", detail, state=state, sub_state=sub_state, **named)

    def logged(self, level: str, event: str, facts: Mapping[str, Any]) -> None:
        """Note a line of the log: a warning, or what happens to tables and ends."""
        if level == "info" and event not in NOTED:
            return
        if level == DETAILED and threading.current_thread().name.startswith(SHIPPING):
            return
        message = next((str(facts[key]) for key in ("error", "reason", "why", "waits_for") if facts.get(key)), "")
        rest = {key: value for key, value in facts.items() if key not in OWN}
        if isinstance(rest.get("code"), int):  # the exit code of a process
            rest["exit_code"] = rest.pop("code")
        if event == "waiting_for_others":
            rest |= {"state": "waiting", "sub_state": str(Waiting.OTHERS)}
        self.trace.note(level, event, message, **rest)


def switch(job: JobView, level: str) -> None:
    """Set what the job's processes note from now on. Raises StateError."""
    with _set(job.config.home, "the trace's level"):
        record(job.config.home, level)


def switch_log(job: JobView, level: str) -> None:
    """Set what the job's processes write to their stderr from now on, "" for what each was told. Raises StateError."""
    with _set(job.config.home, "the log's level"):
        show(job.config.home, level)


@contextmanager
def _set(home: Path, what: str) -> Iterator[None]:
    if not home.is_dir():
        raise StateError(f"there is no home {home} to note anything in", hint="the job's first start makes it")
    try:
        yield
    except OSError as error:
        raise StateError(f"{home}: {error.strerror}: {what} stays as it is") from error


def commanded(job: JobView, command: str, facts: Mapping[str, Any], error: AnabranchError | None = None) -> None:
    """Note that a person has asked for something that changes the job. A job without a home has no trace."""
    trace = Trace(job.config.home, f"{job.config.name}/{command}")
    known = {name: value for name, value in facts.items() if value not in (None, False, "")}
    told = " ".join([command, *(name if value is True else f"{name}={value}" for name, value in known.items())])
    user = ""
    with suppress(OSError, KeyError):  # no such user here
        user = getpass.getuser()
    where = {"target": job.target} if job.is_one_of_several else {}
    if error is None:
        trace.note("info", "command", told, user=user, **where)
    else:
        named = {"code": error.code, "side": str(error.side)}
        trace.note("error", "command_failed", f"{told}: {error.message}", user=user, **named, **where)
