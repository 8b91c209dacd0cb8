"""Private database servers for tests and the demo: MariaDB, MySQL, PostgreSQL, on free loopback ports.

A server keeps everything in one directory and can be started again there, also by a later process: port and
password are kept in it. It never outlives the process that started it. A server named by an
`ANABRANCH_TEST_<DB>_DSN` has the same handle, but is not ours to stop.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from anabranch.testing import packages
from anabranch.testing.cache import ServerUnavailable
from anabranch.testing.packages import Software
from anabranch.testing.processes import Daemon, log_tail
from anabranch.testing.recipes import (
    HOST,
    MARIADB,
    MYSQL,
    POSTGRESQL,
    RECIPES,
    Instance,
    Recipe,
    kept_fresh,
    prepare,
    read_greeting,
)

__all__ = [
    "Server",
    "ServerUnavailable",
    "dsn_variable",
    "free_port",
    "server_from_dsn",
    "server_from_environment",
    "start_mariadb",
    "start_mysql",
    "start_postgresql",
]

_PORTS = range(20000, 32768)  # below the ephemeral range: a client that retries cannot come to own the port itself
_DEFAULT_PORT = {"mariadb": 3306, "mysql": 3306, "postgresql": 5432}


@dataclass(eq=False, slots=True)
class Server:
    """A database server: how to enter it and, when it is ours (`can_restart`), how to stop and start it."""

    name: str
    version: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    datadir: Path | None = None
    _daemon: Daemon | None = field(default=None, repr=False)

    @property
    def can_restart(self) -> bool:
        """Return whether we started it; a server from a DSN is only used."""
        return self._daemon is not None

    @property
    def pid(self) -> int | None:
        """Its process id while it runs; None when it is stopped or not ours."""
        return self._daemon.pid if self._daemon else None

    def url(self, database: str = "") -> str:
        """The URL a job file would hold for `database`."""
        credentials = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"{self.name}://{credentials}@{self.host}:{self.port}/{quote(database, safe='')}"

    def start(self) -> None:
        """Start it again, on the same data and port, and wait until it serves; does nothing while it runs."""
        self._ours().start()

    def stop(self, immediate: bool = False) -> None:
        """Stop it and wait for its end; `immediate` = without writing out its state (recovery at the next start)."""
        self._ours().stop(immediate=immediate)

    def kill(self) -> None:
        """SIGKILL, for it and its children."""
        self._ours().kill()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log; empty when it is not ours."""
        return log_tail(self._daemon.surroundings.log, lines) if self._daemon else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._daemon:
            self._daemon.stop()

    def _ours(self) -> Daemon:
        if self._daemon is None:
            raise ServerUnavailable(
                f"{self.name} on {self.host}:{self.port} is not ours to start or stop",
                hint=f"unset {dsn_variable(self.name)}",
            )
        return self._daemon


def start_mariadb(directory: Path, *, port: int | None = None, options: Sequence[str] = ()) -> Server:
    """A private MariaDB with its binary log on. `options` (`--name=value`) come after, and override, the defaults."""
    return _start(MARIADB, directory, port, options)


def start_mysql(
    directory: Path, *, release: str = "8.0", port: int | None = None, options: Sequence[str] = ()
) -> Server:
    """A private MySQL with its binary log and, from 5.6 on, GTIDs on: "5.5", "5.6", "8.0" or "9". `options` as for
    MariaDB."""
    return _start(MYSQL[release], directory, port, options)


def start_postgresql(
    directory: Path,
    *,
    release: str = "",
    with_tls: bool = False,
    port: int | None = None,
    options: Sequence[str] = (),
) -> Server:
    """A private PostgreSQL: the newest that is here, or "11", "12", "15" (with wal2json and decoderbufs) or "17"; `with_tls`:
    one that knows TLS, which is another one. `options` (`--wal-level=logical`) come after, and override, the defaults."""
    recipe = replace(POSTGRESQL, find=packages.find_postgresql_with_tls) if with_tls else POSTGRESQL
    if release:
        recipe = replace(POSTGRESQL, find=partial(packages.find_postgresql_release, release))
    return _start(recipe, directory, port, options)


def dsn_variable(name: str) -> str:
    """The environment variable that names a server to use instead of a private one."""
    return f"ANABRANCH_TEST_{name.upper()}_DSN"


def server_from_environment(name: str) -> Server | None:
    """The server that `ANABRANCH_TEST_<DB>_DSN` names, when it is set."""
    dsn = os.environ.get(dsn_variable(name))
    return server_from_dsn(dsn) if dsn else None


def server_from_dsn(dsn: str) -> Server:
    """The handle of a server that runs already, with an administrator's URL: `mysql://root:…@127.0.0.1:3306/`."""
    parts = urlsplit(dsn)
    name = "postgresql" if parts.scheme == "postgres" else parts.scheme
    if name not in RECIPES or not parts.hostname:
        raise ServerUnavailable(
            f"a DSN with scheme {name!r}",
            hint="expected mariadb://, mysql:// or postgresql:// with user, password, host",
        )
    port = parts.port or _DEFAULT_PORT[name]
    user, password = unquote(parts.username or RECIPES[name].user), unquote(parts.password or "")
    said = _ask_version(name, parts.hostname, port, user, password)
    version = re.split(r"[^0-9.]", said)[0]  # 10.11.19-MariaDB-log, 18.4 (Debian …)
    return Server(name, version, parts.hostname, port, user, password)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now."""
    for port in random.sample(_PORTS, 200):
        if _is_free(port):
            return port
    raise ServerUnavailable("no free port on 127.0.0.1", hint="stop what listens there")


def _start(recipe: Recipe, directory: Path, port: int | None, options: Sequence[str]) -> Server:
    directory = directory.resolve()
    software = recipe.find()
    kept = _read_identity(recipe, directory, software)
    fresh = None if kept else kept_fresh(recipe, software, options)
    password = str(kept.get("password") or (fresh.password() if fresh else secrets.token_hex(12)))
    last = kept.get("port")
    chosen = port or (last if isinstance(last, int) and _is_free(last) else free_port())
    for tries_left in (2, 1, 0):
        instance = Instance(directory, software, chosen, password, tuple(options))
        _keep_identity(recipe, instance)
        prepare(recipe, instance, fresh)
        daemon = recipe.daemon(instance)
        try:
            daemon.start()
        except ServerUnavailable:
            if port or not tries_left or _is_free(chosen):
                raise
            chosen = free_port()  # somebody took the port between our look and the server's
        else:
            break
    return Server(
        recipe.name,
        software.version,
        HOST,
        chosen,
        recipe.user,
        password,
        datadir=instance.data,
        _daemon=daemon,
    )


def _identity_file(directory: Path) -> Path:
    return directory / "server.json"


def _read_identity(recipe: Recipe, directory: Path, software: Software) -> dict[str, object]:
    """Read what a directory used before keeps; refuse data of another server or version."""
    file = _identity_file(directory)
    if not file.exists() or not (directory / "data").exists():
        return {}
    kept: dict[str, object] = json.loads(file.read_text())
    digits = recipe.version_digits

    def family(name: object, version: object) -> list[str]:
        return [str(name), *str(version).split(".")[:digits]]

    if family(kept.get("name"), kept.get("version")) != family(recipe.name, software.version):
        raise ServerUnavailable(
            f"{directory} holds data of {kept.get('name')} {kept.get('version')}, but {software} is what is here",
            hint=f"remove {directory}",
        )
    return kept


def _keep_identity(recipe: Recipe, instance: Instance) -> None:
    """Written before the data directory is made, so that its password is never lost."""
    instance.directory.mkdir(parents=True, exist_ok=True)
    file = _identity_file(instance.directory)
    file.touch(mode=0o600)
    file.write_text(
        json.dumps(
            {
                "name": recipe.name,
                "version": instance.software.version,
                "port": instance.port,
                "password": instance.password,
            }
        )
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _ask_version(name: str, host: str, port: int, user: str, password: str) -> str:
    """The version the server itself gives. MySQL and MariaDB say it before the login, PostgreSQL after."""
    if name == "postgresql":
        return _ask_postgresql(host, port, user, password)
    version = read_greeting(host, port, 30.0)
    if version is None or ("mariadb" in version.lower()) != (name == "mariadb"):
        found = f"says it is {version}" if version else "does not answer"
        raise ServerUnavailable(f"{name} on {host}:{port} {found}", hint=f"check {dsn_variable(name)}")
    return version


def _ask_postgresql(host: str, port: int, user: str, password: str) -> str:
    import psycopg

    try:
        with psycopg.connect(
            host=host, port=port, user=user, password=password, dbname="postgres", connect_timeout=60
        ) as connection:
            return str(connection.info.parameter_status("server_version"))
    except psycopg.OperationalError as e:
        raise ServerUnavailable(
            f"postgresql on {host}:{port} does not answer: {e}", hint=f"check {dsn_variable('postgresql')}"
        ) from e
