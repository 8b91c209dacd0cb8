"""One job of a history on a pair of servers: its file, its home, where it stands, and what it leaves at the target.

What does not live here: its processes (parts.py), its faults (pipeline.py), the history's own tables.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from anabranch.config import ONLY
from anabranch.errors import AnabranchError
from anabranch.job import Job
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.table_life import TableState
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.contract import SECOND, PipelineFailed
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.targets import family_at
from anabranch.trail.reader import TrailReader, exists
from anabranch.view.opened import end_of, source_of

SECRETS = {end: f"ANABRANCH_TORTURE_{end.upper()}" for end in ("source", "target", SECOND)}  # variables, by end
POLL_SECONDS = 0.02
LOCK_SECONDS = 30  # for whatever removes something and has to wait for somebody else
JOB_FILE = """\
name = "{name}"

[source]
url = "{source}"

[target]
url = "{target}"
{form}{options}{second}
[[rules]]
include = ["{name}.*"]

[capture]
flush_interval_ms = 10
streaming = true
{decoder}{more}"""


@dataclass(frozen=True)
class Place:
    """`name` is the source's database, the target's schema, and the job. `directory` is its own. `second`: the job's other
    target, on the same server or another one."""

    name: str
    source: Server
    target: Database
    directory: Path
    more: str = ""  # of the job file, from inside [capture] on
    at: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # host and port of a proxy, by end
    second: Database | None = None
    decoder: str = ""  # of the source's log, "" for the usual one
    options: Sequence[Mapping[str, str | int | bool]] = ()  # [target.options] of each target
    users: Mapping[str, str] = field(
        default_factory=dict
    )  # by end, where it is not the server's; the password is the same

    @property
    def job_file(self) -> Path:
        return self.directory / f"{self.name}.toml"

    @property
    def trail(self) -> Path:
        return self.directory / self.name / "trail"

    @property
    def environment(self) -> dict[str, str]:
        """The values of the job file's ${…}, and the folder of jobs' homes."""
        servers = {"source": self.source, "target": self.target.server}
        servers |= {SECOND: self.second.server} if self.second else {}
        secrets = {SECRETS[end]: server.password for end, server in servers.items()}
        return secrets | {"ANABRANCH_HOME": str(self.directory)}

    def through(self, at: Mapping[str, tuple[str, int]]) -> Place:
        return replace(self, at=at)

    def write(self) -> Job:
        """The job file; and the job as who looks on sees it, past any proxy."""
        self.directory.mkdir(parents=True, exist_ok=True)
        os.environ.update(self.environment)
        straight = self.directory / f"{self.name}.straight.toml"
        straight.write_text(replace(self, at={})._text())
        self.job_file.write_text(self._text())
        return Job.from_file(straight)

    def _text(self) -> str:
        source, database = self.source, source_family(self.source.name).job_database
        second = self._url(self.second, f"target of {SECOND}", SECOND) if self.second else ""
        own, its = (*map(_toml, self.options), "", "")[:2]
        user, at = self._user("source", source), self._address("source", source)
        form = family_at(self.target).form
        return JOB_FILE.format(
            name=self.name,
            source=f"{source.name}://{user}:${{{SECRETS['source']}}}@{at}/{database}",
            target=self._url(self.target, "target", "target"),
            form=f'form = "{form}"\n' if form else "",
            options=f"[target.options]\n{own}" if own else "",
            second=f'\n[[targets]]\nname = "{SECOND}"\nurl = "{second}"\n' + f"[targets.options]\n{its}" * bool(its)
            if second
            else "",
            decoder=f'decoder = "{self.decoder}"\n' if self.decoder else "",
            more=self.more,
        )

    def _url(self, target: Database, end: str, secret: str) -> str:
        user, at = self._user("target", target.server), self._address(end, target.server)
        if not user:
            return f"{target.server.name}://{at}"
        return f"{target.server.name}://{user}:${{{SECRETS[secret]}}}@{at}/{target.name}"

    def _user(self, end: str, server: Server) -> str:
        return quote(self.users.get(end, server.user), safe="")

    def _address(self, end: str, server: Server) -> str:
        host, port = self.at.get(end, (server.host, server.port))
        return f"{host}:{port}"

    def forget(self) -> None:
        """Remove what the product keeps of the job at its targets."""
        for target in self.targets:
            family_at(target).forget(target, self.name)

    @property
    def targets(self) -> tuple[Database, ...]:
        return (self.target, self.second) if self.second else (self.target,)

    def server_at(self, end: str) -> Server:
        """Return the server at the end of a line that a fault names (Fault.place)."""
        if end == "source":
            return self.source
        return (self.second if self.second and end.endswith(f" of {SECOND}") else self.target).server

    def lookings(self) -> tuple[Looking, ...]:
        """The job file is written; who looks on, at each target."""
        job = self.write()
        return tuple(Looking(job.on(name)) for name in (ONLY, SECOND)[: len(self.targets)])


def _toml(options: Mapping[str, str | int | bool]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())


@dataclass
class Looking:
    """Asks how far a job is, past any proxy: at the target, in the trail, at the source."""

    job: Job
    goal: LogMark | None = field(default=None, init=False)
    is_patient: bool = field(default=False, init=False)  # may tables be parked for a while?

    def __post_init__(self) -> None:
        self._store = end_of(self.job).store()
        self._source = source_of(self.job)

    def is_consistent(self) -> bool:
        """Every table streams. Raises PipelineFailed where one was parked, which no statement of a history does, unless it is
        to be loaded again."""
        states = self.states()
        parked = [f"{t}: {s.reason}" for t, s in states.items() if s.is_parked and not s.is_taken_out]
        if parked and not self.is_patient:
            raise PipelineFailed("tables were parked: " + "; ".join(parked))
        return bool(states) and all(state.is_streaming for state in states.values())

    def states(self) -> dict[TableId, TableState]:
        return self._store.states.tables(self.job.config.name) if self._store.exists() else {}

    def is_built(self) -> bool:
        return self.is_consistent() and all(state.is_built for state in self.states().values())

    def take_goal(self) -> bool:
        """Note where the source is now as the goal; return True."""
        catalog = self._source.catalog()
        try:
            self.goal = catalog.mark()
        finally:
            catalog.close()
        return True

    def is_at_goal(self) -> bool:
        """Return whether everything up to the goal is at the target."""
        if self.goal is None or not exists(self.job.trail):
            return False
        with TrailReader(self.job.trail) as trail:
            end = trail.end()
        if not self._source.order.includes(LogMark(end.position.native, end.resume), self.goal.native, None):
            return False
        checkpoint = self._store.jobs.checkpoint(self.job.config.name)
        return checkpoint is not None and checkpoint.position.sequence >= end.position.sequence

    def close(self) -> None:
        with contextlib.suppress(AnabranchError):
            self._store.close()


def until(condition: Callable[[], bool], seconds: float, look: Callable[[], None]) -> bool:
    """Poll; an end that is away is asked again. `look` may raise what makes waiting vain. False when it took longer."""
    deadline = time.monotonic() + seconds
    while True:
        look()
        with contextlib.suppress(AnabranchError):
            if condition():
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
