"""`Manager`: everything that the console, the API and the command line ask of a manager.

What does not live here: each concept's own file has what it does.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import log
from anabranch.config import JobConfig
from anabranch.config.hop_kinds import HopFile, Kind
from anabranch.errors import ConfigError, NotAllowed, StateError
from anabranch.job import Job
from anabranch.job.hop_status import hop_status
from anabranch.manager.accounts import Accounts
from anabranch.manager.alert_rules import AlertRules
from anabranch.manager.alerts import Alerts
from anabranch.manager.answering import Answering
from anabranch.manager.asked import Asked
from anabranch.manager.audit import Audit, Entry
from anabranch.manager.callers import Caller, Role
from anabranch.manager.capabilities import Capabilities, Part
from anabranch.manager.events import Events
from anabranch.manager.glances import Glances, Heard
from anabranch.manager.inside import Inside
from anabranch.manager.jobs import Jobs, JobVersion, ManagedJob
from anabranch.manager.logins import Logins
from anabranch.manager.masking import masked, refuse_masked
from anabranch.manager.monitoring import Monitor
from anabranch.manager.notifying import Notifier
from anabranch.manager.operations import Operations
from anabranch.manager.people import People
from anabranch.manager.processes import LOG
from anabranch.manager.promoting import Promotion, Wanted, promotion, refuse_hop, refuse_other
from anabranch.manager.reach import reach_of
from anabranch.manager.repeats import Repeats
from anabranch.manager.run_log import Line, tail
from anabranch.manager.secret_keys import Keys
from anabranch.manager.secrets import Secrets
from anabranch.manager.sessions import Session, Sessions
from anabranch.manager.statistics import Statistics
from anabranch.manager.store import ManagerStore
from anabranch.manager.store_contract import Keeper
from anabranch.manager.supervising import Supervision
from anabranch.manager.tokens import Tokens

if TYPE_CHECKING:
    from anabranch.lifecycle.parking import ParkedTable
    from anabranch.manager.oidc.settings import Settings
    from anabranch.manager.oidc.sign_on import SignOn
    from anabranch.preflight.report import Report

OK, STORE_AWAY, FAILED = "ok", "degraded: store away", "failed"
DIRECTORY = "_manager"  # in the home of jobs: no job's name begins so


def home_of_jobs() -> Path:
    """Return the directory in which jobs have their homes, and the manager its own."""
    return Path(os.environ.get("ANABRANCH_HOME") or ".anabranch").absolute()


class Manager:
    """One manager. Each method that acts for somebody gets the `Caller`, asks what that one may do, and notes it in the audit;
    it raises NotAllowed, and UnknownName for jobs that are not there or that the caller may not see."""

    def __init__(self, home: Path | None = None, keeper: Keeper | None = None) -> None:
        """Open the manager below `home`, the directory of the jobs' homes. `keeper`: what has its state, by default a file
        there; managers of several machines share one, and `home`, too."""
        self.home = home or home_of_jobs()
        os.environ["ANABRANCH_HOME"] = str(self.home)  # so that jobs find their homes from any directory
        self.store = ManagerStore(self.home / DIRECTORY, keeper)
        self._answering = Answering(self.store)
        self.audit, self.tokens, self.accounts = Audit(self.store), Tokens(self.store), Accounts(self.store)
        self.sessions, self.logins = Sessions(self.store, self.accounts), Logins(self.store, self.accounts)
        self.oidc: SignOn | None = None
        self.secrets = Secrets(self.store, Keys(self.home / DIRECTORY), self.audit)
        self.repeats = Repeats(self.store)
        self.jobs = Jobs(self.store, self.home / DIRECTORY, self.secrets)
        self.supervision = Supervision(self.jobs, self.home, is_shared=keeper is not None)
        self.people = People(self.accounts, self.tokens, self.audit)
        self.statistics = Statistics(self.store)
        self.alert_rules, self.notifier = AlertRules(self.store), Notifier(self.store)
        self.alerts = Alerts(self.store, self.alert_rules, self.home, lambda: list(self.notifier.ways))
        self.monitor = Monitor(self.jobs, self.supervision, self.statistics, self.alerts)
        self.operations = Operations(self.store, self.jobs, self.audit, self.home, self._environment, self.repeats)
        self.events = Events(self.store, self.jobs, self.supervision, self.alerts, lambda: self.monitor.latest)
        self._asked = Asked()
        self.inside = Inside(self.jobs, self._asked, self.audit)
        self.glances = Glances(self.jobs, self.home)

    def sign_on_by(self, settings: Settings) -> None:
        """Let people and programs log in by an OpenID provider, too."""
        from anabranch.manager.oidc.sign_on import SignOn  # its packages are an extra of their own

        self.oidc = SignOn(settings, self.store, self.audit, self.logins)

    def run_only(self, parts: Collection[str]) -> None:
        """Let this machine run only these parts of ways, of all where none is named."""
        self.supervision.capabilities = Capabilities([Part(part) for part in parts])

    def session(self, secret: str) -> Session | None:
        """Return the session of a cookie, of a user with a password or of somebody whom the provider has vouched for."""
        found = self.sessions.find(secret)
        return found if found is not None or self.oidc is None else self.oidc.sessions.find(secret)

    def end_session(self, secret: str) -> None:
        """Log out."""
        self.sessions.end(secret)
        if self.oidc is not None:
            self.oidc.sessions.end(secret)

    def bearer(self, text: str, place: str) -> Caller | None:
        """Return who has this token, of the manager's own or of the provider; None where it does not count. Raises
        ProviderUnavailable."""
        found = self.tokens.caller(text, place)
        return found if found is not None or self.oidc is None else self.oidc.caller(text, place)

    def seen_by(self, caller: Caller) -> list[ManagedJob]:
        """Return the jobs that a caller may see, by name."""
        caller.require(Role.VIEWER)
        return [job for job in self.jobs.all() if caller.sees(job.name)]

    def job(self, caller: Caller, name: str) -> ManagedJob:
        """Return one job."""
        caller.require(Role.VIEWER, name)
        return self.jobs.job(name)

    def status(self, caller: Caller, name: str) -> dict[str, Any]:
        """Return what `anabranch status --json` says of a job; asks both ends. Of a hop, what this machine knows of it. Raises
        TooBusy."""

        def find() -> dict[str, Any]:
            if (kind := self.jobs.kind(name)) is not Kind.JOB:
                return hop_status(kind, self.jobs.hop(name), self.home / name, self.jobs.environment(name))
            found = self._opened(name).status()
            self.glances.hear(name, found)
            return found

        return self._asked.ask(name, self.job(caller, name).version, "status", find)

    def heard(self, caller: Caller, name: str) -> Heard | None:
        """Return what `status` said of a job last, to whomever; None where nobody has asked since the manager began."""
        self.job(caller, name)
        return self.glances.heard(name)

    def parked(self, caller: Caller, name: str) -> list[tuple[str, ParkedTable]]:
        """Return a job's parked tables, each with the name of its target, "" of the only one; asks the targets.
        Raises TooBusy."""

        def find() -> list[tuple[str, ParkedTable]]:
            views = self._opened(name).targets()
            return [(view.target if len(views) > 1 else "", one) for view in views for one in view.parked()]

        return self._asked.ask(name, self.job(caller, name).version, "parked", find)

    def preflight(self, caller: Caller, name: str) -> list[tuple[str, Report]]:
        """Return the checks of both ends, for each target by its name, "" of the only one. Raises TooBusy."""

        def find() -> list[tuple[str, Report]]:
            views = self._opened(name).targets()
            return [(view.target if len(views) > 1 else "", view.preflight()) for view in views]

        return self._asked.ask(name, self.job(caller, name).version, "preflight", find)

    def trace(self, caller: Caller, name: str, since: datetime) -> list[dict[str, Any]]:
        """Return what happened to a job from a time on, as `anabranch trace` has it."""
        self.job(caller, name)
        return self._opened(name).trace(since)

    def log(self, caller: Caller, name: str, text: str = "", level: str = "") -> list[Line]:
        """Return the end of what a job's processes have written."""
        self.job(caller, name)
        return tail(self.home / name / LOG, text, level)

    def file(self, caller: Caller, name: str, number: int | None = None) -> JobVersion:
        """Return a version of a job's file, by default the present one; for who is no administrator without passwords."""
        self.job(caller, name)
        found = self.jobs.version(name, number)
        return found if caller.role_at(name) is Role.ADMINISTRATOR else replace(found, text=masked(found.text))

    def add(self, caller: Caller, text: str, note: str = "") -> ManagedJob:
        """Take in a job by the text of its file. Raises ConfigError with every problem of it."""
        return self.add_once(caller, text, note, None)[0]

    def add_once(self, caller: Caller, text: str, note: str, key: str | None) -> tuple[ManagedJob, bool]:
        """Take in a job, but once for a `key`. Returns it, and whether it was taken in before. Raises ConfigError."""
        caller.require(Role.ADMINISTRATOR)
        refuse_masked(text)

        def noted(name: str, version: int) -> None:
            self.audit.note(caller, "job_added", name, after=f"version {version}")

        def take_in() -> dict[str, Any]:
            return asdict(self.jobs.take_in(text, caller.name, note, noted))

        answer, is_repeat = self.repeats.once(caller, key, {"job": text, "note": note}, take_in)
        job = ManagedJob(**answer)
        if not is_repeat:  # behind the transaction: files have a lock of their own; `begin` writes what a kill left out
            self.jobs.write_file(job.name)
        return job, is_repeat

    def change(self, caller: Caller, name: str, text: str, note: str = "", expected: int | None = None) -> ManagedJob:
        """Give a job its next version. Raises ConfigError, OutOfDate; NotAllowed where it reaches further than the one before,
        and the caller is no administrator of all jobs."""
        caller.require(Role.ADMINISTRATOR, name)
        refuse_masked(text)
        before = self.jobs.version(name)
        if not caller.is_over_all:
            self.jobs.checked(text)
            seen = before if expected is None else self.jobs.version(name, expected)
            _refuse_reach(seen, text)
            expected = seen.version  # and no later one, which may reach less far
        lines = difflib.unified_diff(masked(before.text).splitlines(), masked(text).splitlines(), lineterm="", n=1)

        def noted(name: str, version: int) -> None:
            told = f"version {before.version}", "\n".join([f"version {version}", *lines])
            self.audit.note(caller, "job_changed", name, *told)

        return self.jobs.change(name, text, caller.name, note, expected, noted)

    def restore(
        self, caller: Caller, name: str, number: int, note: str = "", expected: int | None = None
    ) -> ManagedJob:
        """Give a job the text of an earlier version again, as its next one. Raises ConfigError, OutOfDate."""
        caller.require(Role.ADMINISTRATOR, name)
        text = self.jobs.version(name, number).text
        return self.change(caller, name, text, note or f"version {number} again", expected)

    def promote(
        self,
        caller: Caller,
        into: str,
        text: str,
        wanted: Wanted,
        note: str = "",
        *,
        is_tried: bool = False,
        expected: int | None = None,
    ) -> tuple[Promotion, int | None]:
        """Put what a job file says into the job `into`, or make that job of it. Returns what it becomes, and the version that
        has it; None where nothing was kept, since it `is_tried` or not there. `expected`: the version of `into` that whoever
        promotes has seen. Raises ConfigError with every problem of it; OutOfDate where somebody changes the job meanwhile."""
        is_there = any(job.name == into for job in self.seen_by(caller))
        caller.require(Role.ADMINISTRATOR, into if is_there else None)
        refuse_masked(text)
        self.jobs.refuse_wrong(text)
        refuse_hop(text, is_there)
        if is_there:
            self.jobs.require_job(into)
        present = self.jobs.version(into) if is_there else None
        refuse_other(into, present, expected)
        found = promotion(text, into, present, wanted)
        self.checked(caller, found.text, into if is_there else None)
        if present is not None:
            found = replace(found, effects=self.jobs.effects(present.text, found.text))
        if is_tried:
            return found, None
        if present is None:
            return found, self.add(caller, found.text, note).version
        if not found.is_needed:
            return found, present.version
        return found, self.change(caller, into, found.text, note, present.version).version

    def checked(self, caller: Caller, text: str, name: str | None = None) -> JobConfig | HopFile:
        """Check the text of a job file, and keep nothing. Raises ConfigError with every problem of it. It tells which variables
        the manager has, so whoever may not add jobs may not ask. `name`: the job whose next version it would be, which whoever
        may change that job may ask."""
        caller.require(Role.ADMINISTRATOR, name)
        refuse_masked(text)
        found = self.jobs.checked(text)
        if name is not None and not caller.is_over_all:
            _refuse_reach(self.jobs.version(name), text)
        return found

    def audited(self, caller: Caller, limit: int, before: int | None, job: str | None) -> Sequence[Entry]:
        """Return entries of the audit, the newest first; those older than the entry `before`, of one job or of all."""
        caller.require(Role.ADMINISTRATOR, job)
        return self.audit.entries(limit, before, job)

    def start(self, caller: Caller, name: str) -> ManagedJob:
        """Keep a job running from now on; one that has failed is tried again. Raises ConfigError where this machine may not run
        it."""
        caller.require(Role.OPERATOR, name)
        self.supervision.require_capable(name)
        job = self._want(caller, name, True, "job_started")
        self.supervision.try_again(name)
        return job

    def stop(self, caller: Caller, name: str) -> ManagedJob:
        """Stop a job, and keep it stopped. It has stopped when its process's state says so."""
        caller.require(Role.OPERATOR, name)
        return self._want(caller, name, False, "job_stopped")

    def restart(self, caller: Caller, name: str) -> ManagedJob:
        """Stop a job in order, and start it again with the present version of its file; one that does not run is started.
        Raises ConfigError where this machine may not run it: what runs goes on."""
        caller.require(Role.OPERATOR, name)
        self.supervision.require_capable(name)
        job = self._want(caller, name, True, "job_restarted")
        self.supervision.try_again(name)
        self.supervision.restart(name)
        return job

    def remove(self, caller: Caller, name: str) -> None:
        """Forget a job that does not run. Raises ConfigError for one that does."""
        caller.require(Role.ADMINISTRATOR, name)
        if self.jobs.job(name).is_wanted or self.supervision.is_run(name):
            raise ConfigError(f"the job {name} runs", job=name, hint="stop it first")
        if self.operations.is_at_work(name):
            raise ConfigError(f"an operation of the job {name} runs", job=name, hint="wait for it, or cancel it")
        self.jobs.remove(name, lambda: self.audit.note(caller, "job_removed", name))
        self.glances.forget(name)

    def _want(self, caller: Caller, name: str, is_wanted: bool, action: str) -> ManagedJob:
        with self.audit.together():
            before, job = self.jobs.job(name), self.jobs.want(name, is_wanted)
            self.audit.note(caller, action, name, _wanted(before), _wanted(job))
        return job

    def _opened(self, name: str) -> Job:
        """Return a job as its present file has it, with the secrets of now. Raises ConfigError for a hop."""
        self.jobs.require_job(name)
        return Job.from_file(self.jobs.file(name), self.jobs.environment(name))

    def _environment(self, name: str) -> dict[str, str]:
        """Return the variables of a process that is started for a job."""
        return self.jobs.environment_of_process(name, self.supervision.environment)

    def health(self) -> str:
        """Return OK, STORE_AWAY where a store that machines share does not answer while jobs go on, or FAILED: a thread is no
        more, or the manager's own file cannot be read."""
        threads = (self.supervision, self.monitor, self.notifier, self.operations)
        if dead := [type(one).__name__.lower() for one in threads if one.has_died]:
            log.get().error("manager_thread_died", threads=dead)
            return FAILED
        try:
            self._answering.require()
        except StateError as error:
            log.get().error("state_not_read", error=str(error))
            return STORE_AWAY if self.supervision.is_shared else FAILED
        return OK

    def stand_by(self) -> None:
        """End on this machine what the manager of another one was asked to end. For a manager that stands by."""
        self.supervision.stop_here()
        self.operations.end_here()

    def begin(self) -> None:
        """Write the jobs' files, and begin to keep the wanted ones running."""
        self.jobs.write_files()
        self.supervision.begin()
        self.monitor.begin()
        self.notifier.begin()
        self.operations.begin()

    def end(self, stop_jobs: bool = False) -> list[str]:
        """End the manager. The jobs go on, and a later manager takes them over, unless `stop_jobs`. Returns those that were to
        be stopped, and were left: this manager does not know whether another one leads."""
        left = self.supervision.stop_all() if stop_jobs else []
        if left:
            log.get().warning("jobs_left_running", jobs=left)
        self.supervision.end()
        self.monitor.end()
        self.notifier.end()
        self.operations.end()
        self.store.close()
        return left


def _refuse_reach(before: JobVersion, text: str) -> None:
    """Raise NotAllowed for a text that names other programs or files than the version before it."""
    former, now = reach_of(before.text), reach_of(text)
    changed = [key for key in sorted(former.keys() | now.keys()) if former.get(key) != now.get(key)]
    if changed:
        raise NotAllowed(
            f"only an administrator of all jobs may change {', '.join(changed)}: programs and files of the machine",
            hint="ask an administrator of all jobs of this manager",
        )


def _wanted(job: ManagedJob) -> str:
    return "runs" if job.is_wanted else "stopped"
