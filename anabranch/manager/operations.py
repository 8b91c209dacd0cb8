"""Operations: long work on a job that somebody has asked for, each a process `anabranch VERB FILE …`.

What is asked for stands in the store before anything is started, and a thread carries it out, a few at once. A process is
marked as running before it is started, and its lock tells whether it lives: so a manager that was killed starts none twice,
and the next one finds those that live, and calls the others lost. What does not live here: the process (`recorded.py`), who may
(`verbs.py`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from anabranch import log
from anabranch.errors import AnabranchError, ConfigError, UnknownName
from anabranch.failpoints import reach
from anabranch.manager.audit import Audit
from anabranch.manager.callers import Caller, Role
from anabranch.manager.jobs import Jobs
from anabranch.manager.masking import HIDDEN
from anabranch.manager.recorded import PIECE, STREAMS, Recorded
from anabranch.manager.repeats import Repeats
from anabranch.manager.store import ManagerStore, now
from anabranch.manager.store_contract import Writing
from anabranch.manager.verbs import OFFERED
from anabranch.model.commands import END_OF_OPTIONS, Command

DIRECTORY = "operations"
COMMAND = (sys.executable, "-m", "anabranch")
AT_ONCE, OF_JOB = 4, 3  # operations that run, in all and of one job; of viewers one less of each
WAITING, KEPT = (
    100,
    100,
)  # of one job: that wait, of viewers half of it; that are kept of viewers, and as many of others
TICK_S = 0.1  # while one runs; else the thread waits until somebody asks for one
PAUSE_S = 2.0  # where something went wrong
KILL_S = 60.0  # behind the asking: what ends in order has the time that `run` has
QUEUED, RUNNING, DONE, FAILED, CANCELLED, LOST = "queued", "running", "done", "failed", "cancelled", "lost"
OPEN = (QUEUED, RUNNING)
KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation. `arguments`: `…` alone for whoever may not ask for it. `state`: queued, running, done (exit code 0),
    failed, cancelled or lost (nobody could note how it ended). `code`: the exit code of the command line. Times in ISO 8601,
    UTC."""

    id: int
    job: str
    verb: str
    arguments: tuple[str, ...]
    state: str
    code: int | None
    asked: str
    asked_by: str
    began: str | None
    ended: str | None
    cancelled_by: str | None


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what an operation has said. `offset`, `next`: bytes of the stream, where it begins and the next one does;
    `is_complete`: nothing more comes; `left_out`: bytes at the end that were too many to be kept."""

    text: str
    offset: int
    next: int
    is_complete: bool
    left_out: int


class Operations:
    """The operations of one manager. Each method for somebody asks what the caller may do, and notes what it changes."""

    def __init__(
        self,
        store: ManagerStore,
        jobs: Jobs,
        audit: Audit,
        home: Path,
        environment: Callable[[str], Mapping[str, str]],
        repeats: Repeats,
    ) -> None:
        """`home`: where jobs have theirs; `environment`: what the processes of a job get."""
        self._store, self._jobs, self._audit, self._repeats = store, jobs, audit, repeats
        self._home, self._environment = home, environment
        self._directory = store.directory / DIRECTORY
        self._commands: Mapping[str, Command] = {}
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._asked: dict[int, float] = {}  # to end: when that was
        self._has_failed = False
        self._mutex, self._awake, self._ends = threading.RLock(), threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="operations", daemon=True)

    def offer(self, commands: Mapping[str, Command]) -> None:
        """Take over the commands of the command line, by their verbs."""
        self._commands = {verb: commands[verb] for verb in OFFERED if verb in commands}

    def ask(self, caller: Caller, job: str, verb: str, arguments: Sequence[str]) -> Operation:
        """Have a command carried out for a job. Raises NotAllowed, UnknownName; ConfigError for what is not offered."""
        return self.ask_once(caller, job, verb, arguments, None)[0]

    def ask_once(
        self, caller: Caller, job: str, verb: str, arguments: Sequence[str], key: str | None
    ) -> tuple[Operation, bool]:
        """Have a command carried out, but once for a `key`. Returns the operation as it was asked for, and whether it was so
        before."""
        caller.require(Role.VIEWER, job)
        self._jobs.require_job(job)
        caller.require(self.needs(verb, arguments), job)
        given = self._commands[verb].of_job(arguments)

        def note() -> dict[str, Any]:
            with self._store.writing() as connection:
                self._require_room(connection, caller.role_at(job), job)
                number = _queue(connection, caller, (job, verb, json.dumps(list(arguments)), json.dumps(given.words())))
                self._audit.note(caller, "operation_asked", job, after=" ".join([verb, *arguments]))
            return asdict(self._one(job, number))

        asked = {"of": job, "verb": verb, "arguments": list(arguments)}
        answer, is_repeat = self._repeats.once(caller, key, asked, note)
        self._awake.set()
        return Operation(**(answer | {"arguments": tuple(answer["arguments"])})), is_repeat

    def operation(self, caller: Caller, job: str, number: int) -> Operation:
        """Return one operation of a job. Raises UnknownName."""
        caller.require(Role.VIEWER, job)
        return self._shown(caller, self._one(job, number))

    def all(self, caller: Caller, job: str, limit: int = 100, before: int | None = None) -> list[Operation]:
        """Return operations of a job, the newest first; those older than the operation `before`."""
        caller.require(Role.VIEWER, job)
        self._jobs.job(job)
        query = "SELECT * FROM operation WHERE job = ? AND id < ? ORDER BY id DESC LIMIT ?"
        return [self._shown(caller, _operation(row)) for row in self._store.rows(query, (job, before or 2**62, limit))]

    def output(self, caller: Caller, job: str, number: int, stream: str, offset: int = 0) -> Output:
        """Return a piece of what an operation has said on `stdout` or `stderr`. NotAllowed for who may not ask for it."""
        found = self._allowed(caller, job, number)
        assert stream in STREAMS
        if found.began is None:  # what is there is of a former store
            return Output("", 0, 0, found.state not in OPEN, 0)
        row = self._store.row("SELECT cut_stdout, cut_stderr FROM operation WHERE id = ?", (number,)) or {}
        text, following, is_complete = self._recorded(number).output(stream, offset, found.state not in OPEN)
        return Output(text, offset, following, is_complete, row.get(f"cut_{stream}", 0))

    def end_of_output(self, caller: Caller, job: str, number: int, stream: str) -> Output:
        """Return the last piece of what an operation has said on a stream. NotAllowed for who may not ask for it."""
        offset = max(0, self._recorded(number).size(stream) - PIECE)
        return self.output(caller, job, number, stream, offset)

    def needs(self, verb: str, arguments: Sequence[str]) -> Role:
        """Return the role that a command line needs. Raises ConfigError for what is not offered."""
        command = self._commands.get(verb)
        if command is None:
            raise ConfigError(f"{verb!r} is not offered here", hint=f"one of {', '.join(self._commands)}")
        return OFFERED[verb].of(command.of_job(arguments))

    def cancel(self, caller: Caller, job: str, number: int) -> Operation:
        """Ask an operation to end; one that waits never begins, one that does not end in a minute is killed. One that has
        ended stays as it is. Whoever may cancel it may ask for it, too."""
        found = self._allowed(caller, job, number)
        if found.state not in OPEN:
            return found
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE operation SET cancelled_by = ? WHERE id = ? AND cancelled_by IS NULL", (caller.name, number)
            )
            connection.execute(
                "UPDATE operation SET state = ?, ended = ? WHERE id = ? AND state = ?",
                (CANCELLED, now(), number, QUEUED),
            )
            self._audit.note(caller, "operation_cancelled", job, before=f"{number}: {found.verb}")
        self._awake.set()
        return self._one(job, number)

    def is_at_work(self, job: str) -> bool:
        """Return whether an operation of the job runs or waits."""
        return bool(self._store.row("SELECT id FROM operation WHERE job = ? AND state IN (?, ?)", (job, *OPEN)))

    @property
    def has_died(self) -> bool:
        """Return whether its thread has begun, and is no more."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def begin(self) -> None:
        """Begin to carry operations out: those that run already are taken over."""
        self._thread.start()

    def end(self) -> None:
        """Carry nothing more out; what runs goes on."""
        self._ends = True
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> int:
        """See to the operations once. Returns how many run or wait."""
        with self._mutex:
            running = self._store.rows("SELECT * FROM operation WHERE state = ? ORDER BY id", (RUNNING,))
            self._has_failed = False
            ended = [row for row in running if self._guarded(row, self._watch)]
            for row in self._next([row for row in running if row not in ended]):
                self._guarded(row, self._start)
            for job in {row["job"] for row in ended}:
                self._forget_old(job)
            return int((self._store.row("SELECT count(*) AS n FROM operation WHERE state IN (?, ?)", OPEN) or {})["n"])

    def end_here(self) -> None:
        """Ask what runs on this machine to end, where the manager of another machine was asked to cancel it."""
        query = "SELECT * FROM operation WHERE state = ? AND cancelled_by IS NOT NULL"
        for row in self._store.rows(query, (RUNNING,)):
            if (recorded := self._recorded(row["id"])).lives():
                self._ask_to_end(row["id"], recorded)

    def _run(self) -> None:
        while not self._ends:
            self._awake.clear()
            try:
                left = self.look()
            except (AnabranchError, OSError) as error:  # a full disk, say: tried again
                log.get().error("operations_failed", error=str(error))
                left, self._has_failed = 1, True
            self._awake.wait(PAUSE_S if self._has_failed else TICK_S if left else None)

    def _guarded(self, row: Mapping[str, Any], see_to: Callable[[Mapping[str, Any]], bool]) -> bool:
        """See to an operation; one that fails holds up no other, and is tried again. Returns whether it has ended."""
        try:
            return see_to(row)
        except (AnabranchError, OSError) as error:  # a full disk, say
            log.get(job=row["job"]).error("operations_failed", operation=row["id"], error=str(error))
            self._has_failed = True
            return False

    def _require_room(self, connection: Writing, role: Role, job: str) -> None:
        query = "SELECT count(*), count(*) FILTER (WHERE role = ?) FROM operation WHERE state = ? AND job = ?"
        waiting, of_viewers = connection.execute(query, (Role.VIEWER, QUEUED, job)).fetchone()
        if waiting >= WAITING or (role is Role.VIEWER and of_viewers >= WAITING // 2):
            message = f"{waiting} operations of the job {job} wait already"
            raise ConfigError(message, job=job, hint="wait, or cancel some of them")

    def _next(self, running: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return what may begin beside what runs, the oldest first: no job has all places, and viewers leave one to others."""
        query = """
            SELECT * FROM (
                SELECT *, row_number() OVER (PARTITION BY job, role = ? ORDER BY id) AS place FROM operation WHERE state = ?
            ) AS queued WHERE place <= ? ORDER BY id"""
        chosen: list[dict[str, Any]] = []
        if len(running) < AT_ONCE:
            for row in self._store.rows(query, (Role.VIEWER, QUEUED, AT_ONCE)):
                if _has_place(row, [*running, *chosen]):
                    chosen.append(row)
        return chosen

    def _start(self, row: Mapping[str, Any]) -> bool:
        number, recorded = row["id"], self._recorded(row["id"])
        lock = recorded.claim()
        try:
            with self._store.writing() as connection:
                done = connection.execute(
                    "UPDATE operation SET state = ?, began = ? WHERE id = ? AND state = ?",
                    (RUNNING, now(), number, QUEUED),
                )
            if not done.rowcount:  # cancelled meanwhile
                return False
            reach("manager.operation.marked")
            words = json.loads(row["words"])
            words.insert(words.index(END_OF_OPTIONS) + 1, str(self._jobs.file(row["job"])))
            command = [*COMMAND, *row["verb"].split(), *words]
            self._children[number] = recorded.start(
                lock, command, self._home / row["job"], {**self._environment(row["job"]), log.AS_TEXT: "1"}
            )
            reach("manager.operation.started")
        except (ConfigError, OSError) as error:  # a secret that cannot be read; no room, too many processes
            recorded.say(f"the operation could not be started: {error}\n")
            self._finish(number, FAILED, None)
        finally:
            os.close(lock)
        return False

    def _watch(self, row: Mapping[str, Any]) -> bool:
        """See to an operation that runs. Returns whether it has ended."""
        number, recorded = row["id"], self._recorded(row["id"])
        if (child := self._children.get(number)) is not None:
            child.poll()  # the system keeps its end until somebody has asked
        if recorded.lives():
            if row["cancelled_by"] is not None:
                self._ask_to_end(number, recorded)
            return False
        reach("manager.operation.ended")
        result, is_cancelled = recorded.result(), row["cancelled_by"] is not None
        if result is None:
            self._finish(number, CANCELLED if is_cancelled else LOST, KILLED if is_cancelled else None)
        else:
            state = DONE if result.code == 0 else CANCELLED if is_cancelled else FAILED
            cut = (result.cut_stdout, result.cut_stderr)
            self._finish(number, state, result.code, result.ended, cut)
        return True

    def _ask_to_end(self, number: int, recorded: Recorded) -> None:
        asked = self._asked.get(number)
        if asked is None:
            if recorded.send(signal.SIGTERM):
                self._asked[number] = time.monotonic()
        elif time.monotonic() - asked > KILL_S:
            recorded.send(signal.SIGKILL)

    def _finish(
        self, number: int, state: str, code: int | None, ended: str | None = None, cut: tuple[int, int] = (0, 0)
    ) -> None:
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE operation SET state = ?, code = ?, ended = ?, cut_stdout = ?, cut_stderr = ? WHERE id = ?",
                (state, code, ended or now(), *cut, number),
            )
        self._children.pop(number, None)
        self._asked.pop(number, None)
        log.get().info("operation_ended", operation=number, state=state, code=code)

    def _forget_old(self, job: str) -> None:
        """Remove the oldest of a job that have ended, with what they have said. Viewers' are counted by themselves."""
        query = """
            SELECT id FROM (
                SELECT id, row_number() OVER (PARTITION BY role = ? ORDER BY id DESC) AS place FROM operation
                WHERE job = ? AND state NOT IN (?, ?)
            ) AS ended WHERE place > ?"""
        for row in self._store.rows(query, (Role.VIEWER, job, *OPEN, KEPT)):
            shutil.rmtree(self._recorded(row["id"]).place, ignore_errors=True)
            with self._store.writing() as connection:
                connection.execute("DELETE FROM operation WHERE id = ?", (row["id"],))

    def _recorded(self, number: int) -> Recorded:
        return Recorded(self._directory / str(number))

    def _allowed(self, caller: Caller, job: str, number: int) -> Operation:
        """Return an operation that the caller may ask for, too. Raises NotAllowed, UnknownName."""
        caller.require(Role.VIEWER, job)
        found = self._one(job, number)
        caller.require(self._needed(found), job)
        return found

    def _shown(self, caller: Caller, found: Operation) -> Operation:
        """Return an operation as the caller may see it: arguments may have what is not for everybody, such as statements."""
        if not found.arguments or caller.role_at(found.job).includes(self._needed(found)):
            return found
        return replace(found, arguments=(HIDDEN,))

    def _needed(self, found: Operation) -> Role:
        """Return the role that an operation needs, the highest where this release does not offer it."""
        try:
            return OFFERED[found.verb].of(self._commands[found.verb].of_job(found.arguments))
        except (KeyError, ConfigError):
            return Role.ADMINISTRATOR

    def _one(self, job: str, number: int) -> Operation:
        self._jobs.job(job)
        row = self._store.row("SELECT * FROM operation WHERE id = ? AND job = ?", (number, job))
        if row is None:
            raise UnknownName(f"the job {job} has no operation {number}", job=job)
        return _operation(row)


def _queue(connection: Writing, caller: Caller, values: tuple[str, ...]) -> int:
    """Add an operation to those that wait. `values`: job, verb, arguments, words. Returns its number."""
    connection.execute(
        "INSERT INTO operation (job, verb, arguments, words, state, asked, asked_by, role) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, QUEUED, now(), caller.name, caller.role_at(values[0]).value),
    )
    made = connection.execute("SELECT max(id) AS id FROM operation").fetchone()  # ours: nobody else writes meanwhile
    return int(made["id"])


def _has_place(row: Mapping[str, Any], running: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether an operation may begin beside those that run."""
    of_job = [one for one in running if one["job"] == row["job"]]
    if len(running) >= AT_ONCE or len(of_job) >= OF_JOB:
        return False
    if row["role"] != Role.VIEWER:
        return True
    of_viewers = [one for one in running if one["role"] == Role.VIEWER]
    of_both = [one for one in of_job if one["role"] == Role.VIEWER]
    return len(of_viewers) < max(1, AT_ONCE - 1) and len(of_both) < max(1, OF_JOB - 1)


def _operation(row: Mapping[str, Any]) -> Operation:
    facts = {name: row[name] for name in Operation.__slots__ if name != "arguments"}
    return Operation(arguments=tuple(json.loads(row["arguments"])), **facts)
