"""Read the order in which the source committed, from the ledger and from what commits by itself in its log, with the vendor's
own reader.

The product's decoder takes no part. https://dev.mysql.com/doc/refman/8.0/en/mysqlbinlog-row-events.html ·
https://mariadb.com/kb/en/mariadb-binlog-options/
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.errors import ConfigError
from anabranch.testing import packages
from anabranch.testing.databases import connect
from anabranch.testing.packages import Software
from anabranch.testing.servers import Server
from anabranch.testing.torture.tables import LEDGER

_TOOLS: Mapping[str, tuple[Callable[[], Software], str]] = {
    "mysql": (packages.find_mysql, "mysqlbinlog"),
    "mariadb": (packages.find_mariadb, "mariadb-binlog"),
}
# Of a pair that is not ours: by which names it may be on the PATH, and what brings it.
_NAMES = {"mysql": ("mysqlbinlog",), "mariadb": ("mariadb-binlog", "mysqlbinlog")}
_SPELT = {"mysql": "MySQL", "mariadb": "MariaDB"}
_PACKAGES = {"mysql": "MySQL's own server or client package", "mariadb": "mariadb-client"}
# What commits by itself has its number, but for DROP TABLE, which both servers write down in their own words.
_ALONE = re.compile(rb"^(?:TRUNCATE TABLE \w+|ALTER|CREATE|RENAME) /\* (\d+) \*/")
_DROPPED = re.compile(rb"^DROP TABLE (?:IF EXISTS )?(?:`?\w+`?\.)?`?(\w+)`?")
_NUMBER = re.compile(rb"^###   @1=(\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the source's log, by its file and offset."""

    file: str
    offset: int


def log_end(server: Server, cursor: Any) -> Place:
    """Return where the log ends now."""
    # MySQL 8.4 knows the new name alone: https://dev.mysql.com/doc/relnotes/mysql/8.4/en/news-8-4-0.html
    is_new = server.name == "mysql" and tuple(map(int, server.version.split(".")[:2])) >= (8, 4)
    cursor.execute("SHOW BINARY LOG STATUS" if is_new else "SHOW MASTER STATUS")
    file, offset = cursor.fetchone()[:2]
    return Place(file, offset)


def commit_order(server: Server, after: Place, database: str, drops: Mapping[str, int] | None = None) -> list[int]:
    """The numbers of the transactions that the log has behind a place, in its order. `drops`: those that drop a table, by its
    name, each of which is dropped once."""
    return order_in(_dumped(server, after, database), database, drops)


def order_in(dump: bytes, database: str, drops: Mapping[str, int] | None = None) -> list[int]:
    """The same from what the tool printed."""
    found: list[int] = []
    insert, is_ledger = f"### INSERT INTO `{database}`.`{LEDGER}`".encode(), False
    for line in dump.splitlines():
        if line.startswith(b"### ") and not line.startswith(b"###  "):
            is_ledger = line == insert or (is_ledger and line == b"### SET")
        elif number := (is_ledger and _NUMBER.match(line)) or _ALONE.match(line):
            found.append(int(number[1]))
        elif dropped := _DROPPED.match(line):
            found.append((drops or {})[dropped[1].decode()])
    return found


def require_reader(server: Server) -> None:
    """The tool is there and may read the log of a server that is not ours. Raises ConfigError."""
    tool, environment = _tool(server)
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        end = log_end(server, cursor)
    done = _run(
        [tool, "--no-defaults", f"--start-position={end.offset}", *_remotely(server), end.file], environment, server
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(
            f"{tool} cannot read the log of {server.host}:{server.port}: {said[-1] if said else done.returncode}",
            hint="its user needs REPLICATION SLAVE, and this machine has to be let in",
        )


def _dumped(server: Server, after: Place, database: str) -> bytes:
    tool, environment = _tool(server)
    files = [file for file in _files(server) if file >= after.file]
    local = [path for file in files if (path := _path(server, file))]
    is_local = len(local) == len(files)
    command = [tool, "--no-defaults", "-v", "--base64-output=DECODE-ROWS"]
    command += [f"--database={database}", f"--start-position={after.offset}"]
    names = list(map(str, local)) if is_local else [*_remotely(server), *files]
    done = _run([*command, *names], environment, server)
    if done.returncode:
        raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def _run(command: Sequence[str], environment: Mapping[str, str], server: Server) -> subprocess.CompletedProcess[bytes]:
    around = {**os.environ, **environment, "MYSQL_PWD": server.password, "TZ": "UTC"}
    return subprocess.run(command, capture_output=True, env=around, timeout=120, check=False)


def _remotely(server: Server) -> list[str]:
    return ["--read-from-remote-server", f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"]


def _tool(server: Server) -> tuple[str, Mapping[str, str]]:
    """The program, and the environment that it needs. Nothing is installed for a server that is not ours."""
    if server.datadir is None:
        return tool_on_path(server.name), {}
    find, tool = _TOOLS[server.name]
    software = find()
    return str(software.program(tool)), software.environment()


def tool_on_path(family: str) -> str:
    """The family's own program: MariaDB's does not read MySQL's log, and is installed under both names. Raises
    ConfigError."""
    for name in _NAMES[family]:
        path = shutil.which(name)
        if path and ("mariadb" in _version_text(path).lower()) == (family == "mariadb"):
            return path
    raise ConfigError(
        f"there is no {_NAMES[family][0]} of {_SPELT[family]} on the PATH of this machine",
        hint=f"install {_PACKAGES[family]}: the order of commits is read with it",
    )


def _version_text(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


def _files(server: Server) -> Sequence[str]:
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return sorted(str(row[0]) for row in cursor.fetchall())


def _path(server: Server, file: str) -> Path | None:
    """The file of a server of ours, if we may read it."""
    path = server.datadir / file if server.datadir else None
    return path if path and os.access(path, os.R_OK) else None
