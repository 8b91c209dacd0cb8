"""Keeps the wanted jobs running: starts them, finds those that run already, starts again what died, with growing pauses.

What is wanted stands in the store (`jobs.py`); a thread makes it so, again and again. A job that ended for what a person has
to mend (its file, its preflight) is not started again by itself. What somebody has started by hand is watched, and stopped
where that is asked for. Where managers of several machines share the jobs, one that runs on another machine is left to it until
it has ended. What does not live here: the processes (`processes.py`), who may act (`lease.py`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anabranch import log
from anabranch.config.hop_kinds import Kind
from anabranch.errors import AnabranchError, StateError
from anabranch.failpoints import reach
from anabranch.manager.capabilities import Capabilities
from anabranch.manager.jobs import Jobs, ManagedJob
from anabranch.manager.nursery import Nursery
from anabranch.manager.processes import JobProcess, elsewhere, is_run, noted

TICK_S = 0.5
LOOK_S = 2.0  # between two looks for a process that somebody else has started
PUT_BACK_S = 30.0  # more until a file is put back again, where that failed
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
CALM_S = 600.0  # a job that ran for so long begins its pauses anew
STOP_S = 90.0  # `run` gives its parts 60; then it is killed, which costs nothing but work
ENDED_IN_TURN = ((Kind.JOB,), (Kind.PUMP,), (Kind.ROUTE,), (Kind.RECEIVE,))
FINAL_CODES = frozenset({2, 3})  # configuration, preflight: it would fail again


@dataclass
class Watched:
    """Knowledge of one job's process. `failed`: the exit code with which it ended for good; `problem`: why nothing can be done
    about the job until `not_before`; `elsewhere`: who runs it on another machine, "" for nobody."""

    process: JobProcess | None = None
    began: float = 0.0
    pause: float = FIRST_PAUSE_S
    not_before: float = 0.0
    restarts: int = 0
    failed: int | None = None
    stop_asked: float | None = None
    last_code: int | None = None
    problem: str = ""
    look_at: float = 0.0  # when to look for a process of somebody else next
    elsewhere: str = ""
    noted: tuple[int, int] | None = None  # as `noted` said at the last look
    kind: Kind = Kind.JOB  # of what runs, kept here for while the store is away
    file_at: float = 0.0  # when to look at its file next


@dataclass(frozen=True)
class ProcessState:
    """A job's process for people: `state` is stopped, starting, running, stopping, waiting (to start again) or failed;
    `code`: its last exit code; `again_in`: seconds to the next start; `problem`: why it could not be started, or where it runs
    if not on this machine, else ""."""

    state: str
    pid: int | None
    restarts: int
    code: int | None
    again_in: float | None
    problem: str = ""


@dataclass
class Supervision:
    """The supervision of one manager's jobs. `home`: where jobs have theirs; `environment`: what their processes get,
    beside their secrets; `is_shared`: whether other machines run jobs of this home, too; `may_act`: whether no other manager
    can supervise them at this moment; `capabilities`: what this machine may run, where what runs already goes on; `nursery`:
    what forks them, None: each is started as a program."""

    jobs: Jobs
    home: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    is_shared: bool = False
    may_act: Callable[[], bool] = lambda: True
    capabilities: Capabilities = field(default_factory=Capabilities)
    nursery: Nursery | None = None

    def __post_init__(self) -> None:
        self._watched: dict[str, Watched] = {}
        self._asked_here: dict[str, tuple[str, float]] = {}  # when somebody asked, and when we did
        self._mutex = threading.RLock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervision", daemon=True)

    def begin(self) -> None:
        """Begin to supervise: jobs that run already are taken over."""
        self._thread.start()

    @property
    def is_ending(self) -> bool:
        """Return whether it is asked to end."""
        return self._ends.is_set()

    @property
    def has_died(self) -> bool:
        """Return whether its thread has begun, and is no more."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def end(self) -> None:
        """End the supervision; the jobs go on."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def stop_all(self) -> list[str]:
        """Ask every job to stop, and wait until no process is left; then the hops of trails, those first that send: what jobs
        have written last may still go on. What is wanted stays: a later manager starts them again. Returns what was left
        running, since another manager may lead."""
        self.end()
        with self._mutex:
            for kinds in ENDED_IN_TURN:
                while self.may_act() and (running := self._running(kinds)):
                    for one in running.values():
                        self._stop(one)
                    time.sleep(0.1)
            return sorted(self._running(tuple(Kind)))

    def _running(self, kinds: Collection[Kind]) -> dict[str, Watched]:
        """Return what runs of these kinds, by name."""
        return {
            name: one
            for name, one in self._watched.items()
            if one.kind in kinds and one.process is not None and one.process.code() is None
        }

    def look(self) -> None:
        """Make what is wanted so, once. A job about which nothing can be done holds up no other."""
        with self._mutex:
            wanted = {job.name: job.is_wanted for job in self.jobs.all()}
            stops = self.jobs.stops()  # read behind: who is asked to stop meanwhile is not started
            for name in self._watched.keys() - wanted.keys():
                self._gone(name, self._watched[name])
            for name, is_wanted in wanted.items():
                if not self.may_act():
                    return
                watched = self._watched.setdefault(name, Watched())
                is_put_off = watched.problem and time.monotonic() < watched.not_before
                if is_put_off and watched.process is None and name not in stops:
                    continue  # it is only not started: a stop is always heard
                try:
                    self._one(name, watched, is_wanted, stops.get(name))
                    watched.problem = ""
                except InterruptedError:  # the supervision ends, and what would have started did not
                    return
                except (AnabranchError, OSError) as error:  # its home belongs to somebody else, say
                    self._put_off(name, watched, str(error))

    def stop_here(self) -> None:
        """Stop what runs on this machine, and what the manager of another machine was asked to stop; each is asked once, and
        killed where that does not help. For a manager that stands by."""
        for name, asked in self.jobs.stops().items():
            former, process = self._asked_here.get(name), JobProcess.found(self.home / name)
            if process is None:
                continue
            if former is None or former[0] != asked:
                self._asked_here[name] = asked, time.monotonic()
                process.ask_to_stop()
            elif time.monotonic() - former[1] > STOP_S:
                process.kill()

    def require_capable(self, name: str) -> None:
        """Raise ConfigError for a job or a hop that this machine may not run."""
        if self.capabilities.is_limited:
            self.capabilities.require(name, self.jobs.parts(name))

    def try_again(self, name: str) -> None:
        """Forget how a job failed, and its pause: it starts at the next look, if it is wanted."""
        with self._mutex:
            watched = self._watched.setdefault(name, Watched())
            watched.failed, watched.not_before, watched.pause, watched.restarts = None, 0.0, FIRST_PAUSE_S, 0
            watched.problem = ""

    def restart(self, name: str) -> None:
        """Ask a job's process to stop; while the job is wanted, another one starts when it has."""
        with self._mutex:
            if (watched := self._watched.get(name)) is not None:
                if watched.elsewhere:
                    self.jobs.ask_to_stop(name)
                self._stop(watched)

    def is_run(self, name: str) -> bool:
        """Return whether a process runs a job, whoever has started it. Raises StateError where that cannot be told."""
        with self._mutex:
            watched = self._watched.get(name, Watched())
            if watched.process is not None and watched.process.code() is None:
                return True
        try:
            return is_run(self.home / name) or (self.is_shared and bool(elsewhere(self.home / name)))
        except OSError as error:
            message = f"nobody can tell whether the job {name} runs: {error}"
            raise StateError(message, job=name, hint=f"look at the rights of {self.home / name}") from None

    def state(self, name: str, is_wanted: bool | None = None) -> ProcessState:
        """Return the state of a job's process now. `is_wanted`: whether the job is to run, None: looked up where it counts."""
        with self._mutex:
            watched = self._watched.get(name, Watched())
            pid = watched.process.pid if watched.process else None
            rest = watched.not_before - time.monotonic()
            if watched.process is not None:
                state = "stopping" if watched.stop_asked is not None else "running"
            elif watched.elsewhere:
                is_wanted = self._is_wanted(name, is_wanted)
                told = f"{watched.elsewhere} runs it"
                return ProcessState("running" if is_wanted else "stopping", None, watched.restarts, None, None, told)
            elif watched.failed is not None:
                state = "failed"
            else:
                state = ("waiting" if rest > 0 else "starting") if self._is_wanted(name, is_wanted) else "stopped"
            again_in = round(rest, 1) if state == "waiting" else None
            return ProcessState(state, pid, watched.restarts, watched.last_code, again_in, watched.problem)

    def states(self, jobs: Iterable[ManagedJob]) -> dict[str, ProcessState]:
        """Return the same for several jobs, by name, waiting once for a look that goes on."""
        with self._mutex:
            return {job.name: self.state(job.name, job.is_wanted) for job in jobs}

    def _is_wanted(self, name: str, known: bool | None) -> bool:
        return self.jobs.is_wanted(name) if known is None else known

    def _run(self) -> None:
        while not self._ends.wait(TICK_S):
            try:
                self.look()
            except (AnabranchError, OSError) as error:  # a full disk, say: tried again
                log.get().error("supervision_failed", error=str(error))

    def _one(self, name: str, watched: Watched, is_wanted: bool, stop: str | None) -> None:
        """See to one job. `stop`: when somebody has asked it to stop, None where nobody has, or it has stopped since."""
        if watched.process is None and (stop is not None or time.monotonic() >= watched.look_at):
            self._look_for(name, watched)
        if watched.process is not None and (code := watched.process.code()) is not None:
            self._ended(name, watched, code, is_wanted)
        if watched.process is not None:
            if stop is not None or watched.stop_asked is not None:
                self._stop(watched)
        elif stop is not None:
            if not watched.elsewhere and not is_run(self.home / name):
                self.jobs.has_stopped(name, stop)
        elif is_wanted and not watched.elsewhere and watched.failed is None and time.monotonic() >= watched.not_before:
            self._start(name, watched)
        if self.is_shared and time.monotonic() >= watched.file_at:
            watched.file_at = time.monotonic() + LOOK_S
            self._put_back(name, watched)

    def _put_back(self, name: str, watched: Watched) -> None:
        """Put the file of a job back where somebody has replaced it. Without room for it, say, that is tried again later, and
        the job is seen to meanwhile as ever."""
        try:
            self.jobs.put_back(name)
        except (StateError, OSError) as error:
            log.get(job=name).error("job_file_not_put_back", error=str(error))
            watched.file_at += PUT_BACK_S

    def _gone(self, name: str, watched: Watched) -> None:
        """Forget a job that is there no more; a process that was started just as it was removed is stopped before."""
        if watched.process is None or watched.process.child is None or watched.process.code() is not None:
            del self._watched[name]
        else:
            self._stop(watched)

    def _put_off(self, name: str, watched: Watched, problem: str) -> None:
        if problem == watched.problem and time.monotonic() < watched.not_before:
            return  # said already; it was looked at for its stop
        log.get(job=name).error("supervision_failed", error=problem, again_in=watched.pause)
        watched.problem, watched.not_before = problem, time.monotonic() + watched.pause
        watched.pause = min(watched.pause * 2, LONGEST_PAUSE_S)

    def _look_for(self, name: str, watched: Watched) -> None:
        """Look for a process that another manager, or somebody by hand, has started; it has noted itself."""
        found, watched.look_at = noted(f"{self.home}/{name}"), time.monotonic() + LOOK_S
        watched.elsewhere = elsewhere(self.home / name) if self.is_shared else ""
        if found is None or found == watched.noted:
            return
        process = JobProcess.found(self.home / name)
        if process is not None:
            self._take_over(name, watched, process)
        watched.noted = found  # behind: what could not be taken over is looked at again

    def _take_over(self, name: str, watched: Watched, process: JobProcess) -> None:
        watched.process, watched.failed, watched.kind = process, None, self.jobs.kind(name)
        watched.began, watched.stop_asked = time.monotonic(), None
        log.get(job=name).info("job_taken_over", pid=process.pid)

    def _start(self, name: str, watched: Watched) -> None:
        if (found := JobProcess.found(self.home / name)) is not None:  # somebody may have started it by hand
            return self._take_over(name, watched, found)
        if self.is_shared and (other := elsewhere(self.home / name)):
            watched.elsewhere = other
            return None
        self.require_capable(name)
        self.jobs.refresh_file(name)
        environment = self.jobs.environment_of_process(name, self.environment)
        watched.kind = self.jobs.kind(name)
        reach("manager.job.start")
        file, home = self.jobs.file(name), self.home / name
        watched.process = JobProcess.started(file, home, environment, watched.kind, self.nursery)
        reach("manager.job.started")
        watched.began, watched.stop_asked = time.monotonic(), None
        log.get(job=name).info("job_started", pid=watched.process.pid)
        return None

    def _ended(self, name: str, watched: Watched, code: int, is_wanted: bool) -> None:
        was_asked = watched.stop_asked is not None
        watched.process, watched.stop_asked, watched.last_code = None, None, code
        log.get(job=name).info("job_ended", code=code)
        if was_asked or not is_wanted:
            return
        if code in FINAL_CODES:
            watched.failed = code
            return
        if time.monotonic() - watched.began > CALM_S:
            watched.pause = FIRST_PAUSE_S
        watched.restarts += 1
        watched.not_before = time.monotonic() + watched.pause
        watched.pause = min(watched.pause * 2, LONGEST_PAUSE_S)

    def _stop(self, watched: Watched) -> None:
        if watched.process is None:
            return
        if watched.stop_asked is None:
            watched.stop_asked = time.monotonic()
            reach("manager.job.stop")
            watched.process.ask_to_stop()
        elif time.monotonic() - watched.stop_asked > STOP_S:
            watched.process.kill()
