"""A PgBouncer between the job and a real PostgreSQL: what it does not let through is told as such, at either end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.errors import PASSED_ON
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.errors import SourceError, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database
from anabranch.testing.debian import shared_object_places, unpack
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import free_port
from rigs.endpoints import endpoint_of

SOON = 60.0
CONFIGURATION = """[databases]
{name} = host={server.host} port={server.port} dbname={name} user={server.user} password={server.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = session
{more}
"""
OPENED: tuple[Callable[[Endpoint], Any], ...] = (lambda end: connect(end, "anabranch:test"), open_session)


def program() -> tuple[Path, dict[str, str]]:
    """PgBouncer of this machine, or Debian's, and its environment."""
    if found := shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer"):
        return Path(found), {}
    tree = unpack("pgbouncer", [["pgbouncer"]])
    return tree / "usr/sbin/pgbouncer", {"LD_LIBRARY_PATH": ":".join(map(str, shared_object_places(tree)))}


@contextmanager
def pooled(database: Database, directory: Path, more: str) -> Iterator[Endpoint]:
    """The database behind a pool of sessions."""
    port, file = free_port(), directory / f"{database.name}.ini"
    users = directory / f"{database.name}.users"
    users.write_text(f'"{database.server.user}" ""\n')
    file.write_text(CONFIGURATION.format(name=database.name, server=database.server, port=port, users=users, more=more))
    pgbouncer, environment = program()
    as_whom = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = subprocess.Popen([pgbouncer, "-q", *as_whom, file], env={**os.environ, **environment})
    try:
        until = time.monotonic() + SOON
        while not _answers(port):
            assert process.poll() is None, "PgBouncer did not start"
            in_time(until, "PgBouncer did not start")
            time.sleep(0.05)
        yield replace(endpoint_of(database), host="127.0.0.1", port=port)
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("more", ["", "ignore_startup_parameters = options"])
def test_a_pool_that_keeps_settings_from_the_server_is_refused_and_not_waited_for(
    target_database: Database, servers_directory: Path, more: str
) -> None:
    with pooled(target_database, servers_directory, more) as end:
        for open_it in OPENED:
            with pytest.raises((TargetError, SourceError)) as refused:
                open_it(end)
            assert not isinstance(refused.value, (TargetUnavailable, SourceUnavailable))
            assert refused.value.hint == PASSED_ON


UNKNOWN = {
    "database": ("no such database", "create the target database"),
    "user": ("authentication failed", "check user, password"),
}


def test_databases_and_users_that_a_pool_does_not_know(target_database: Database, servers_directory: Path) -> None:
    with pooled(target_database, servers_directory, "ignore_startup_parameters = options") as end:
        for what, (words, hint) in UNKNOWN.items():
            with pytest.raises(TargetError, match=words) as refused:
                connect(replace(end, **{what: "nowhere"}), "anabranch:test")
            assert not isinstance(refused.value, TargetUnavailable) and hint in refused.value.hint
