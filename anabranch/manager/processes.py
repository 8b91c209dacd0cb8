"""The processes in which a manager's jobs run: started, found again, asked to stop.

A job runs as `anabranch run FILE`, a hop of a trail as `run`, `route` or `receive`, in a session of its own, so that it goes
on when the manager dies. A later manager finds it by what it notes in its state.db; its lock keeps a second one from running
beside it. What does not live here: when to start one (`supervising.py`).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from anabranch.config.hop_kinds import Kind
from anabranch.job.children import PROGRAM, Process
from anabranch.job.hop_process import HOME
from anabranch.manager.nursery import Nursery
from anabranch.manager.run_log import keep_short
from anabranch.state.living import is_here, mark_of
from anabranch.state.store import FILE, StateStore
from anabranch.trail import lock
from anabranch.view.running import RUN, RUN_LOCK

COMMAND = (*PROGRAM, "run")
LOG = "run.log"  # in the job's home: what `run` and its parts write


class JobProcess:
    """One process `anabranch run`, or that of a hop; `child` where this manager has started it, else it was found."""

    def __init__(self, pid: int, child: Process | None = None, mark: str = "") -> None:
        """`mark`: what it has noted of itself, where it was found."""
        self.pid, self.child = pid, child
        self._mark = mark or mark_of(pid, os.uname().nodename)

    @classmethod
    def started(
        cls,
        file: Path,
        home: Path,
        environment: Mapping[str, str],
        kind: Kind = Kind.JOB,
        nursery: Nursery | None = None,
    ) -> JobProcess:
        """Start what runs a file, as a fork of the `nursery` where that can; its output goes to `run.log` in the home. A hop is
        told where to note itself."""
        command = COMMAND if kind is Kind.JOB else (*PROGRAM, kind.verb)
        variables = dict(environment) if kind is Kind.JOB else {**environment, HOME: str(home)}
        home.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # no room: it is tried again while the job is watched
            keep_short(home / LOG)
        with open(os.open(home / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
            if nursery is not None:
                forked = nursery.start([*command[len(PROGRAM) :], str(file)], variables, home, home / LOG)
                if forked is not None:
                    return cls(forked.pid, forked)
            child = subprocess.Popen(
                [*command, str(file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=variables,
                cwd=home,
                start_new_session=True,
            )
        return cls(child.pid, child)

    @classmethod
    def found(cls, home: Path) -> JobProcess | None:
        """Return the process that runs the job with this home on this machine, whoever has started it."""
        with closing(StateStore(home)) as state:
            found = next((part for part in state.living() if part["name"] == RUN and is_here(part)), None)
        return cls(found["pid"], mark=found["mark"] or "") if found else None

    def code(self) -> int | None:
        """Return None while it runs, else its exit code, as a shell tells it; -1 where it was not started here."""
        if self.child is not None:
            code = self.child.poll()
            if (
                code == -signal.SIGKILL and self._is_same()
            ):  # what was killed is the nursery, which would have told its end
                self.child = None
                return None
            return code if code is None or code >= 0 else 128 - code
        return None if self._is_same() else -1

    def ask_to_stop(self) -> None:
        """Send SIGTERM: it finishes what it is about."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: its parts see that it is gone, and end."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.code() is None:
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(self.pid, number)

    def _is_same(self) -> bool:
        """Return whether the process is there, and no other one that has got its number since."""
        mark = mark_of(self.pid, os.uname().nodename)
        return bool(mark) and mark == self._mark and not _is_zombie(self.pid)


def is_run(home: Path) -> bool:
    """Return whether a process runs the job with this home, by its lock or by what it notes. Raises OSError."""
    return bool(lock.holder(home / RUN_LOCK)) or JobProcess.found(home) is not None


def elsewhere(home: Path) -> str:
    """Return who runs the job with this home on another machine, by its lock or by what it notes; "" for nobody there."""
    host = os.uname().nodename
    if (held := lock.holder(home / RUN_LOCK)) and not held.endswith(f" on {host}"):
        return held
    with closing(StateStore(home)) as state:
        others = [part for part in state.living() if part["name"] == RUN and not is_here(part)]
    return next((f"process {part['pid']} on {part['host']}" for part in others), "")


def noted(home: str) -> tuple[int, int] | None:
    """Return what differs as soon as a process of the job with this home has noted something. Every job is looked at so, again
    and again, which a text makes cheaper than a Path. Raises OSError."""
    try:
        found = os.stat(f"{home}/{FILE}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns


def _is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in ("Z", "X")
    return True
