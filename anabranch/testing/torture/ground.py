"""The servers that histories run on: a pair of the user's, or private ones; what may be done to them, what is cleared away.

What does not live here: how servers are started (testing/servers.py), which histories run (campaign.py).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch.config.url import parse_url
from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import (
    Server,
    server_from_dsn,
    start_mariadb,
    start_mysql,
    start_postgresql,
)

NAME = re.compile(r"torture_\d+")
# Nothing here has to survive a power failure, and what is to be lost must not be on its way to the disk already.
FAST_SOURCE = (
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M",
    "--max-binlog-size=64M",
)
FAST_TARGET = (
    "--fsync=off",
    "--full-page-writes=off",
    "--synchronous-commit=off",
    "--wal-writer-delay=10s",
    "--autovacuum=off",
)


@dataclass
class Ground:
    """`sources` take turns. `is_ours`: the servers may be restarted."""

    sources: Sequence[Server]
    target: Database
    is_ours: bool = False
    _had_state: bool = field(default=True, init=False)

    def source_of(self, seed: int) -> Server:
        return self.sources[seed % len(self.sources)]

    def restart(self, where: str, name: str, loses: bool) -> None:
        """The target, or the source called `name`; `loses`: with its last commits gone."""
        named = [source for source in self.sources if source.name == name]
        server = self.target.server if where == "target" else named[0]
        server.stop(immediate=loses)
        server.start()

    def require_free(self) -> None:
        """No database or schema has a name of ours. Raises ConfigError."""
        found = [
            f"database {name} at {server.name}"
            for server in self.sources
            for (name,) in Database(server, "").query("SELECT schema_name FROM information_schema.schemata")
            if NAME.fullmatch(name)
        ]
        schemas = self.target.query("SELECT nspname FROM pg_namespace")
        found += [f"schema {name} at the target" for (name,) in schemas if NAME.fullmatch(name)]
        self._had_state = ("anabranch",) in schemas
        if found:
            raise ConfigError(
                f"there are {', '.join(found[:5])}: these are the names that torture makes and removes",
                hint="if an earlier run left them, drop them; else use other servers",
            )

    def clear(self, seeds: Sequence[int]) -> None:
        """What histories that were not finished left, and the product's own schema if we brought it."""
        for seed in seeds:
            name = f"torture_{seed}"
            with contextlib.suppress(Exception):  # a source that is away now
                Database(self.source_of(seed), "").execute(f"DROP DATABASE IF EXISTS {name}")
            with contextlib.suppress(Exception):  # and the same of the target
                self.target.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')
        with contextlib.suppress(Exception):  # never more than tidying up
            self._drop_state()

    def _drop_state(self) -> None:
        if self._had_state:
            return
        with closing(connect(self.target.server, self.target.name)) as connection:
            if not connection.execute("SELECT 1 FROM anabranch.checkpoint LIMIT 1").fetchone():
                connection.execute("SET client_min_messages = warning")
                connection.execute("DROP SCHEMA anabranch CASCADE")

    def to_json(self) -> dict[str, Any]:
        """For a worker; it holds passwords."""
        return {
            "sources": [_facts(server) for server in self.sources],
            "target": _facts(self.target.server),
            "database": self.target.name,
            "is_ours": self.is_ours,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Ground:
        target = Database(_server(data["target"]), data["database"])
        return cls([_server(one) for one in data["sources"]], target, data["is_ours"])


def _facts(server: Server) -> dict[str, Any]:
    names = ("name", "version", "host", "port", "user", "password")
    return {name: getattr(server, name) for name in names} | {"datadir": str(server.datadir or "")}


def _server(facts: dict[str, Any]) -> Server:
    return Server(**{**facts, "datadir": Path(facts["datadir"]) if facts["datadir"] else None})


def users_own(source: str, target: str) -> Ground:
    """The pair that two URLs name. Raises ConfigError; ServerUnavailable where one does not answer."""
    ends = [_endpoint(url, role) for url, role in ((source, "source"), (target, "target"))]
    servers = [
        server_from_dsn(f"{e.scheme}://{quote(e.user, safe='')}:{quote(e.password, safe='')}@{e.host}:{e.port}/")
        for e in ends
    ]
    return Ground([servers[0]], Database(servers[1], ends[1].database))


def _endpoint(url: str, role: str) -> Endpoint:
    endpoint, problems = parse_url(url, os.environ, needs_database=role == "target", role=role)
    if endpoint is None:
        raise ConfigError(f"--{role}:", problems=problems)
    if endpoint.options:
        raise ConfigError(f"--{role}: the kit's own sessions take no options", hint="name a server that needs none")
    return endpoint


@contextmanager
def private(directory: Path, families: Sequence[str] = ("mariadb", "mysql")) -> Iterator[Ground]:
    """Servers of our own below `directory`, stopped afterwards."""
    starts = {"mariadb": start_mariadb, "mysql": start_mysql}
    with ExitStack() as stack:
        target = stack.enter_context(start_postgresql(directory / "postgresql", options=FAST_TARGET))
        sources = [stack.enter_context(starts[family](directory / family, options=FAST_SOURCE)) for family in families]
        for server in (*sources, target):
            stack.callback(server.stop, immediate=True)
        yield Ground(sources, Database(target, "postgres"), is_ours=True)
