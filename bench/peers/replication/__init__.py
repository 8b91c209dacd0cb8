"""python-mysql-replication 1.0.17: `read.py`, in an environment of its own, decodes the log's rows and counts them."""

from __future__ import annotations

import json
from pathlib import Path

from bench.orders import Orders
from bench.peers.install import python_of
from bench.peers.place import account, timed
from bench.processes import Cost, ProgramFailed
from bench.stand import Stand

PACKAGES = ("mysql-replication==1.0.17", "PyMySQL==1.1.1")


class Replication:
    name = "python-mysql-replication"

    def missing(self, stand: Stand) -> str:
        return "" if stand.name in ("mysql", "mariadb") else "reads MySQL's and MariaDB's logs only"

    def begin(self, stand: Stand, orders: Orders) -> None:
        user, password = account(stand.source)
        server, (file, offset) = orders.database.server, stand.log_end()
        self._python = python_of("mysql-replication", *PACKAGES)
        self._settings = {
            "connection": {"host": server.host, "port": server.port, "user": user, "passwd": password},
            "schema": orders.database.name,
            "file": file,
            "offset": offset,
        }

    def read(self, changes: int) -> Cost:
        settings = json.dumps({**self._settings, "changes": changes})
        _, said = timed([self._python, Path(__file__).with_name("read.py")], {"BENCH_SETTINGS": settings})
        found = json.loads(said.splitlines()[-1])
        if found["rows"] != changes:
            raise ProgramFailed(f"read {found['rows']} rows, there are {changes} changes")
        return Cost(found["seconds"], found["cpu"], found["rss"])

    def stop(self) -> None:
        """It ends with each read."""
