"""The servers that histories run on: a pair of the user's, or private ones; what may be done to them, what is cleared away.

What does not live here: how servers are started (testing/servers.py), whether a pair of the user's will do (pair.py),
which histories run (campaign.py).
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import ConfigError
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture import bound, policies
from anabranch.testing.torture.contract import SECOND, is_apart
from anabranch.testing.torture.deeds import POLICY, draw_deed
from anabranch.testing.torture.second import has_second
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.targets import TargetFamily, database_of, family_at, target_family
from anabranch.testing.torture.worst import USER, has_worst, make_user

NAME = re.compile(r"torture_\d+", re.IGNORECASE)  # a source may not tell upper from lower case
PLAIN_SHARE = 0.25  # of the histories
ELSEWHERE = "postgresql"  # the other target of a job that has one which is a server as a whole
TURNED = 0.5  # of the jobs with two targets on two servers: the one elsewhere is their first


@dataclass
class Ground:
    """`sources` take turns. `is_ours`: the servers may be restarted. `plain`: a database beside `target`, as its owner sees it,
    who has no more rights than that. `second`, `plain_second`: one more of each, for jobs with two targets; of a `target` that
    is a server as a whole the `second` is another kind's. `decoders`: of the sources' log, of which each history draws one; ""
    for the usual one. `turns`: the other one may be the first of two targets on two servers."""

    sources: Sequence[Server]
    target: Database
    is_ours: bool = False
    plain: Database | None = None
    second: Database | None = None
    plain_second: Database | None = None
    decoders: Sequence[str] = ("",)
    turns: bool = True
    _had_state: bool = field(default=True, init=False)

    def source_of(self, seed: int) -> Server:
        return self.sources[seed % len(self.sources)]

    def is_turned(self, seed: int) -> bool:
        """Return whether the job's first target is the one elsewhere, and `target` its second."""
        if not (self.turns and self.second and has_second(seed) and is_apart((self.target, self.second))):
            return False
        deed = draw_deed(seed)  # one that shows keys leaves the job one target
        return random.Random(f"turn of {seed}").random() < TURNED and not (deed and deed.shows_keys)

    def holding_of(self, seed: int) -> Database:
        """Return the target whose types hold fewer values: what is drawn is what it can hold."""
        return self.target if self.is_turned(seed) else self.target_of(seed)

    def target_of(self, seed: int) -> Database:
        if self.family.form:
            return self.family.of_history(self.target, f"torture_{seed}")
        if self.second and self.is_turned(seed):
            return self.second
        drawn = random.Random(f"rights of {seed}").random()
        return self.plain if self.plain and drawn < PLAIN_SHARE else self.target

    @property
    def family(self) -> TargetFamily:
        return family_at(self.target)

    @property
    def targets(self) -> list[Server]:
        """Return the servers of the targets, the first one's first."""
        is_elsewhere = self.second and is_apart((self.target, self.second))
        return [self.target.server, *([self.second.server] if self.second and is_elsewhere else [])]

    def users_of(self, seed: int) -> dict[str, str]:
        """Return the user of a job by end, where it is not the one of the server; {} for servers of somebody else's.

        On private servers it may be a user with settings at their worst (worst.py), one whom policies do not concern
        (policies.py), or one whom they do while the job streams (bound.py). A target with another owner keeps that one."""
        if not self.is_ours:
            return {}
        target = self.target_of(seed) is not self.plain and not self.family.keeps_changes
        if has_worst(seed):
            return {"source": USER} | ({"target": USER} if target else {})
        target = target and family_at(self.holding_of(seed)).has_policies
        if target and (deed := draw_deed(seed)) and deed.kind == POLICY:
            return {"target": bound.USER}
        if not policies.has_policies(seed):
            return {}
        has_them = source_family(self.source_of(seed).name).has_policies
        return ({"source": policies.USER} if has_them else {}) | ({"target": policies.USER} if target else {})

    def decoder_of(self, seed: int) -> str:
        return random.Random(f"decoder of {seed}").choice(self.decoders)

    def second_of(self, seed: int) -> Database | None:
        """The job's other target, where it has two."""
        if not has_second(seed):
            return None
        if self.is_turned(seed):
            return self.target
        return self.second if self.target_of(seed) is self.target else self.plain_second

    def named(self, where: str, seed: int) -> str:
        """Return the end of a job (Fault.place) as `restart` calls it: `target` is the ground's there, not the job's first."""
        ends = {"target": f"target of {SECOND}", f"target of {SECOND}": "target"}
        return ends.get(where, where) if self.is_turned(seed) else where

    def restart(self, where: str, name: str, loses: bool) -> None:
        """The server at an end (`named`); the source is the one called `name`. `loses`: with its last commits gone."""
        ends = {source.name: source for source in self.sources}
        server = ends[name] if where == "source" else self.target.server
        if where == f"target of {SECOND}":
            assert self.second is not None, "who has no second target has none to restart"
            server = self.second.server
        server.stop(immediate=loses)
        server.start()

    def require_free(self) -> None:
        """Refuse servers that have a database, schema or job with a name of ours. Raises ConfigError."""
        found = [
            f"{kind} {name} at {server.name}"
            for server in self.sources
            for kind, name in source_family(server.name).named(server)
            if NAME.fullmatch(name)
        ]
        there = self.family.found(self.target)
        self._had_state = there.has_state
        found += [f"schema {name} at the target" for name in there.schemas if NAME.fullmatch(name)]
        found += [f"what is kept of a job {name} at the target" for name in there.jobs if NAME.fullmatch(name)]
        if found:
            raise ConfigError(
                f"there are {', '.join(found[:5])}: these are the names that torture makes and removes",
                hint="if an earlier run left them, drop them (a job: its rows in the schema anabranch); else use other servers",
            )

    def clear(self, seeds: Sequence[int]) -> None:
        """Remove what unfinished histories left, and the product's own schema if we brought it.

        Nothing is waited for longer than LOCK_SECONDS."""
        for seed in seeds:
            name, source = f"torture_{seed}", self.source_of(seed)
            with contextlib.suppress(Exception):  # a source that is away now
                source_family(source.name).roll_back(source, name)  # or the DROP would wait for it
            with contextlib.suppress(Exception):  # away, or somebody's lock
                source_family(source.name).drop(source, name)
            for target in filter(None, (self.target_of(seed), self.second_of(seed))):
                with contextlib.suppress(Exception):  # and the same of the target
                    family_at(target).drop(target, name)
                with contextlib.suppress(Exception):  # away, or somebody's lock
                    family_at(target).forget(target, name)
        with contextlib.suppress(Exception):  # never more than tidying up
            if not self._had_state:
                self.family.drop_state(self.target)

    def to_json(self) -> dict[str, Any]:
        """Return the form for a worker; it holds passwords."""
        return {
            "sources": [_facts(server) for server in self.sources],
            "family": self.family.name,
            "target": _facts(self.target.server),
            "database": self.target.name,
            "is_ours": self.is_ours,
            "decoders": list(self.decoders),
            "more": [one and [_facts(one.server), one.name] for one in (self.plain, self.second, self.plain_second)],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Ground:
        target = database_of(data["family"], _server(data["target"]), data["database"])
        plain, second, plain_second = (one and Database(_server(one[0]), one[1]) for one in data["more"])
        sources = [_server(one) for one in data["sources"]]
        return cls(sources, target, data["is_ours"], plain, second, plain_second, data["decoders"])


def _facts(server: Server) -> dict[str, Any]:
    names = ("name", "version", "host", "port", "user", "password")
    return {name: getattr(server, name) for name in names} | {"datadir": str(server.datadir or "")}


def _server(facts: dict[str, Any]) -> Server:
    return Server(**{**facts, "datadir": Path(facts["datadir"]) if facts["datadir"] else None})


@contextmanager
def private(
    directory: Path,
    families: Sequence[str] = ("mariadb", "mysql"),
    decoders: Sequence[str] = ("",),
    target: str = "postgresql",
) -> Iterator[Ground]:
    """Servers of our own below `directory`, stopped afterwards."""
    with ExitStack() as stack:
        databases = stack.enter_context(target_family(target).private(directory))
        second = databases.second
        if second is None and not target_family(target).keeps_changes:
            second = stack.enter_context(target_family(ELSEWHERE).private(directory)).target
        sources = []
        for family in map(source_family, families):
            source = stack.enter_context(family.start(directory, decoders))
            stack.callback(source.stop, immediate=True)
            sources.append(source)
            make_user(source)
            if family.has_policies:
                policies.make_user(Database(source, family.job_database))
        yield Ground(sources, databases.target, True, databases.plain, second, databases.plain_second, decoders)
