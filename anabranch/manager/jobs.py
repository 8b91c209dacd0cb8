"""The jobs of a manager: their files, each version of them, and whether they are to run.

The file of a job's present version stands in `jobs/`, for the commands that run it; the store has the truth, and the files
are written from it. What does not live here: processes (`supervising.py`), what a job file may say (`config/`).
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.config import JobConfig, parse_job
from anabranch.config.effects import Effect, effects
from anabranch.config.hop_kinds import HopFile, Kind, kind_of, parse_hop
from anabranch.config.reading import AnyVariable
from anabranch.errors import ConfigError, OutOfDate, UnknownName
from anabranch.failpoints import reach
from anabranch.manager.capabilities import Part, parts_of
from anabranch.manager.environment import JobEnvironment, name_in
from anabranch.manager.secrets import Secrets
from anabranch.manager.store import ManagerStore, now
from anabranch.model.way_back_names import name_of
from anabranch.view.job_view import check_filter

DIRECTORY = "jobs"
UNFINISHED = ".tmp"  # a file that is being written
Also = Callable[[str, int], None]


@dataclass(frozen=True)
class ManagedJob:
    """A job. `version`: that of its file, from 1 on; `is_wanted`: whether the manager keeps it running."""

    name: str
    version: int
    is_wanted: bool
    since: str


@dataclass(frozen=True)
class JobVersion:
    """A version of a job file: its text as it was written, when, by whom, and why."""

    version: int
    text: str
    at: str
    by: str
    note: str


class Jobs:
    """The jobs of one manager. `${…}` in their files is looked up in `secrets`, then in `environment`."""

    def __init__(
        self, store: ManagerStore, directory: Path, secrets: Secrets, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._store, self._directory, self._environment = store, directory / DIRECTORY, environment
        self._secrets = secrets
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._files = threading.RLock()  # one writes them at a time, and what it writes is the newest
        self._as_written: dict[str, tuple[int, int] | None] = {}  # how each file was when we wrote it, or looked at it
        self._all: tuple[Hashable | None, list[ManagedJob]] = (
            None,
            [],
        )  # and the store's mark from before they were read
        self._kinds: dict[tuple[str, int], Kind] = {}  # of each version of a file, which never becomes another one

    def all(self) -> list[ManagedJob]:
        """Return all jobs by name. Costs nothing while nobody writes to the store."""
        mark, (known, found) = self._store.mark(), self._all
        if mark is None or mark != known:
            found = [_job(row) for row in self._store.rows("SELECT * FROM job ORDER BY name")]
            self._all = mark, found  # of a mark from before: what is written meanwhile is read the next time
        return list(found)

    def job(self, name: str) -> ManagedJob:
        """Return one job. Raises UnknownName."""
        row = self._store.row("SELECT * FROM job WHERE name = ?", (name,))
        if row is None:
            raise UnknownName(
                f"there is no job {name}", hint="the manager's overview lists them, as GET /api/v1/jobs does"
            )
        return _job(row)

    def file(self, name: str) -> Path:
        """Return the path of the job's file, which has its present version."""
        return self._directory / f"{name}.toml"

    def kind(self, name: str, version: int | None = None) -> Kind:
        """Return what a version of the job's file describes, by default the present one: a job, or a hop of a trail. Raises
        UnknownName."""
        key = name, self.job(name).version if version is None else version
        if (found := self._kinds.get(key)) is None:
            found = self._kinds[key] = kind_of(self.version(*key).text)
        return found

    def parts(self, name: str) -> tuple[Part, ...]:
        """Return the parts that a job's or a hop's process does. Raises ConfigError for a file that is wrong."""
        return parts_of(self.kind(name), self.checked(self.version(name).text))

    def checked(self, text: str) -> JobConfig | HopFile:
        """Read the text of the file of a job or a hop. Raises ConfigError with every problem of it."""
        return _parsed(text, self.environment(name_in(text)))

    def hop(self, name: str) -> HopFile:
        """Return the file of a hop. Raises ConfigError, also where it is a job."""
        text = self.version(name).text
        return parse_hop(kind_of(text), text, self.file(name), self.environment(name))

    def require_job(self, name: str) -> None:
        """Raise ConfigError for a hop of a trail: it has no tables, and no ends that are databases."""
        if (kind := self.kind(name)) is not Kind.JOB:
            message = f"{name} is a {kind.noun}, which passes a trail on, and no job with databases"
            raise ConfigError(
                message, job=name, hint="its status says how far it is; ask the jobs at the ends of its way"
            )

    def refuse_wrong(self, text: str) -> None:
        """Raise ConfigError, with every problem, for the text of a job file that is wrong whatever its variables are."""
        _parsed(text, AnyVariable())

    def effects(self, before: str, after: str) -> list[Effect]:
        """Return what the changes between two texts of a job's file take before they hold. Of a hop, whose process reads its
        file when it starts, and of a text that is wrong today, nothing is told."""
        try:
            old, new = (_parsed(text, AnyVariable()) for text in (before, after))
        except ConfigError:
            return []
        if isinstance(old, JobConfig) and isinstance(new, JobConfig):
            return effects((before, old), (after, new))
        return []

    def environment(self, name: str) -> JobEnvironment:
        """Return what `${…}` in the file of a job with this name is looked up in."""
        return JobEnvironment(self._secrets, name, self._environment)

    def environment_of_process(self, name: str, below: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process of a job: those of `below`, and the secrets that the job's file names, and that of
        its way back, which a cut-over reads. Raises UnknownName; ConfigError for a secret that cannot be read."""
        found = self.environment(name).of_process(self.version(name).text, below)
        row = self._store.row("SELECT name FROM job WHERE name = ?", (name_of(name),))
        return self.environment(name).of_process(self.version(row["name"]).text, found) if row else found

    def mark(self, name: str) -> tuple[int, ...]:
        """Return what differs as soon as the job's file, or a secret, is another one. Raises UnknownName."""
        return self.marks([self.job(name)])[name]

    def marks(self, jobs: Iterable[ManagedJob]) -> dict[str, tuple[int, ...]]:
        """Return the same for several jobs as they were read, by name."""
        secrets = self._secrets.mark()
        return {job.name: (job.version, *secrets) for job in jobs}

    def take_in(self, text: str, by: str, note: str = "", also: Also = lambda name, version: None) -> ManagedJob:
        """Take in a job by the text of its file, which `write_file` is to write then. `also`: writes, by name and version, what
        the same transaction is to have.

        Raises ConfigError, also for a name that is taken.
        """
        name = self.checked(text).name
        with self._store.writing() as connection:
            last = connection.execute("SELECT max(version) FROM job_version WHERE job = ?", (name,)).fetchone()[0] or 0
            values = (name, last + 1, now())
            done = connection.execute("INSERT INTO job VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING", values)
            if not done.rowcount:
                raise ConfigError(
                    f"there is a job {name} already", job=name, hint="change that one, or choose another name"
                )
            connection.execute(
                "INSERT INTO job_version VALUES (?, ?, ?, ?, ?, ?)", (name, last + 1, text, now(), by, note)
            )
            also(name, last + 1)
        return self.job(name)

    def change(
        self,
        name: str,
        text: str,
        by: str,
        note: str = "",
        expected: int | None = None,
        also: Also = lambda name, version: None,
    ) -> ManagedJob:
        """Give a job another text, as its next version. `expected`: the version that whoever changes it has seen. `also`:
        writes, by name and version, what the same transaction is to have.

        Raises ConfigError, UnknownName; OutOfDate where somebody else has changed it since. A job that runs goes on with the
        former version until it starts again.
        """
        found = self.checked(text).name
        if found != name:
            raise ConfigError(f"the file is of a job {found}, not {name}", job=name, hint="a job keeps its name")
        present = self.job(name)
        with self._store.writing() as connection:
            version = int(connection.execute("SELECT version FROM job WHERE name = ?", (name,)).fetchone()[0])
            if expected is not None and expected != version:
                message = f"the job {name} is at version {version}, not {expected}: somebody else has changed it"
                raise OutOfDate(message, job=name, hint="look at what has changed, then change it again")
            connection.execute("UPDATE job SET version = ? WHERE name = ?", (version + 1, present.name))
            values = (name, version + 1, text, now(), by, note)
            connection.execute("INSERT INTO job_version VALUES (?, ?, ?, ?, ?, ?)", values)
            also(name, version + 1)
        self.write_file(name)
        return self.job(name)

    def versions(self, name: str) -> list[JobVersion]:
        """Return all versions of a job's file, the newest first. Raises UnknownName."""
        self.job(name)
        query = "SELECT version, text, at, by, note FROM job_version WHERE job = ? ORDER BY version DESC"
        return [JobVersion(**row) for row in self._store.rows(query, (name,))]

    def version(self, name: str, number: int | None = None) -> JobVersion:
        """Return one version of a job's file, by default the present one. Raises UnknownName."""
        wanted = self.job(name).version if number is None else number
        found = next((one for one in self.versions(name) if one.version == wanted), None)
        if found is None:
            raise UnknownName(f"the job {name} has no version {wanted}", job=name)
        return found

    def want(self, name: str, is_wanted: bool) -> ManagedJob:
        """Note whether the manager keeps the job running; if not, its process is to stop. Raises UnknownName."""
        self.job(name)
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE job SET is_wanted = ?, since = ? WHERE name = ? AND is_wanted <> ?",
                (is_wanted, now(), name, is_wanted),
            )
            connection.execute("DELETE FROM job_stop WHERE job = ?", (name,))
            if not is_wanted:
                connection.execute("INSERT INTO job_stop VALUES (?, ?)", (name, now()))
        return self.job(name)

    def ask_to_stop(self, name: str) -> None:
        """Note that the job's process is to stop, whichever machine it is on; while the job is wanted, another one starts."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM job_stop WHERE job = ?", (name,))
            connection.execute("INSERT INTO job_stop VALUES (?, ?)", (name, now()))

    def is_wanted(self, name: str) -> bool:
        """Return whether the manager keeps the job running; not, where there is no such job."""
        return self._store.row("SELECT 1 FROM job WHERE name = ? AND is_wanted = 1", (name,)) is not None

    def stops(self) -> dict[str, str]:
        """Return the jobs that somebody has asked to stop, and whose process may still be there; with when that was."""
        return {row["job"]: row["at"] for row in self._store.rows("SELECT * FROM job_stop")}

    def has_stopped(self, name: str, asked: str) -> None:
        """Note that no process of a job is left, which somebody had `asked` to stop."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM job_stop WHERE job = ? AND at = ?", (name, asked))

    def remove(self, name: str, also: Callable[[], None] = lambda: None) -> None:
        """Forget a job, which must not run. What it has made at both ends and at home stays; so do its versions. `also`: writes
        what the same transaction is to have."""
        self.job(name)
        with self._files:
            with self._store.writing() as connection:
                connection.execute("DELETE FROM job WHERE name = ?", (name,))
                connection.execute("DELETE FROM job_stop WHERE job = ?", (name,))
                also()
            self.file(name).unlink(missing_ok=True)

    def write_files(self) -> None:
        """Write the file of every job: a manager that was killed may have noted a version, and not written it."""
        for left in self._directory.glob(f".*{UNFINISHED}"):
            left.unlink(missing_ok=True)
        for job in self.all():
            self.write_file(job.name)

    def refresh_file(self, name: str) -> None:
        """Write the file of a job where another manager has left a former version, or none."""
        try:
            is_present = self.file(name).read_bytes() == self.version(name).text.encode()
        except FileNotFoundError:
            is_present = False
        if not is_present:
            self.write_file(name)

    def put_back(self, name: str) -> None:
        """Write the file of a job again where somebody else has replaced it: a manager that slept over its end, say. Costs a
        look at the file where nobody has."""
        if self._as_written.get(name) != _mark_of(self.file(name)):
            self.refresh_file(name)
            self._as_written[name] = _mark_of(self.file(name))

    def write_file(self, name: str) -> None:
        """Write the present version of a job where its commands read it, readable for this user alone. It gets its name in a
        transaction, in which nobody can take over, and only while the version is the present one. Raises Overtaken."""
        reach("manager.file")
        with self._files:
            while not self._write_version(name, self.version(name)):
                continue
            self._as_written[name] = _mark_of(self.file(name))

    def _write_version(self, name: str, found: JobVersion) -> bool:
        """Write the file of a job; return False, and write nothing, where the version is no more the present one."""
        path = self.file(name)
        handle, beside = tempfile.mkstemp(UNFINISHED, f".{path.name}.", self._directory)  # with mode 0600
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(found.text)
                file.flush()
                os.fsync(file.fileno())
            with self._store.writing() as connection:
                row = connection.execute("SELECT version FROM job WHERE name = ?", (name,)).fetchone()
                if is_present := row is not None and row["version"] == found.version:
                    os.replace(beside, path)
            return is_present
        finally:
            Path(beside).unlink(missing_ok=True)


def _job(row: Mapping[str, object]) -> ManagedJob:
    return ManagedJob(str(row["name"]), int(str(row["version"])), bool(row["is_wanted"]), str(row["since"]))


def _parsed(text: str, env: Mapping[str, str]) -> JobConfig | HopFile:
    kind, file = kind_of(text), Path("the job file")
    return parse_job(text, file, env, check_filter) if kind is Kind.JOB else parse_hop(kind, text, file, env)


def _mark_of(file: Path) -> tuple[int, int] | None:
    """Return what differs as soon as somebody has replaced or changed a file; None where there is none."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
