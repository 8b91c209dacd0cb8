"""In which order the source committed: by the vendor's own reader of its log, from the ledger and the TRUNCATEs in it.

Never by the product's decoder. https://dev.mysql.com/doc/refman/8.0/en/mysqlbinlog-row-events.html ·
https://mariadb.com/kb/en/mariadb-binlog-options/
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.testing import packages
from anabranch.testing.databases import connect
from anabranch.testing.packages import Software
from anabranch.testing.servers import Server
from anabranch.testing.torture.tables import LEDGER

_TOOLS: Mapping[str, tuple[Callable[[], Software], str]] = {
    "mysql": (packages.find_mysql, "mysqlbinlog"),
    "mariadb": (packages.find_mariadb, "mariadb-binlog"),
}
_TRUNCATE = re.compile(rb"^TRUNCATE TABLE \w+ /\* (\d+) \*/")
_NUMBER = re.compile(rb"^###   @1=(\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the source's log, by its file and offset."""

    file: str
    offset: int


def log_end(server: Server, cursor: Any) -> Place:
    """Where the log ends now."""
    # MySQL 8.4 knows the new name alone: https://dev.mysql.com/doc/relnotes/mysql/8.4/en/news-8-4-0.html
    is_new = server.name == "mysql" and tuple(map(int, server.version.split(".")[:2])) >= (8, 4)
    cursor.execute("SHOW BINARY LOG STATUS" if is_new else "SHOW MASTER STATUS")
    file, offset = cursor.fetchone()[:2]
    return Place(file, offset)


def commit_order(server: Server, after: Place, database: str) -> list[int]:
    """The numbers of the transactions that the log has behind a place, in its order."""
    return order_in(_dumped(server, after, database), database)


def order_in(dump: bytes, database: str) -> list[int]:
    """The same from what the tool printed."""
    found: list[int] = []
    insert, is_ledger = f"### INSERT INTO `{database}`.`{LEDGER}`".encode(), False
    for line in dump.splitlines():
        if line.startswith(b"### ") and not line.startswith(b"###  "):
            is_ledger = line == insert or (is_ledger and line == b"### SET")
        elif number := (is_ledger and _NUMBER.match(line)) or _TRUNCATE.match(line):
            found.append(int(number[1]))
    return found


def _dumped(server: Server, after: Place, database: str) -> bytes:
    find, tool = _TOOLS[server.name]
    software = find()
    files = [file for file in _files(server) if file >= after.file]
    local = [path for file in files if (path := _path(server, file))]
    is_local = len(local) == len(files)
    command = [str(software.program(tool)), "--no-defaults", "-v", "--base64-output=DECODE-ROWS"]
    command += [f"--database={database}", f"--start-position={after.offset}"]
    if not is_local:
        command += [
            "--read-from-remote-server",
            f"--host={server.host}",
            f"--port={server.port}",
            f"--user={server.user}",
        ]
    environment = {**os.environ, **software.environment(), "MYSQL_PWD": server.password, "TZ": "UTC"}
    names = list(map(str, local)) if is_local else files
    done = subprocess.run([*command, *names], capture_output=True, env=environment, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def _files(server: Server) -> Sequence[str]:
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return sorted(str(row[0]) for row in cursor.fetchall())


def _path(server: Server, file: str) -> Path | None:
    """The file of a server of ours, if we may read it."""
    path = server.datadir / file if server.datadir else None
    return path if path and os.access(path, os.R_OK) else None
