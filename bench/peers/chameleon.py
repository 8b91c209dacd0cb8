"""pg_chameleon 2.0.21, for the load of MySQL and MariaDB: `chameleon init_replica` with the settings of its example.

Rows come by `CONCAT` of CSV in the source's server, files and COPY; keys are built after them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from anabranch.testing.databases import Database
from bench.peers.install import python_of
from bench.peers.place import account, check_loaded, timed
from bench.processes import Cost
from bench.stand import Stand

VERSION = "2.0.21"
NAME = "bench"
SCHEMA = "chameleon"
TIMEOUT = {"connect_timeout": 10}  # seconds
# It refuses to be root, which is who measures in a container; it does nothing there that root may not.
NOBODY = """
import os, runpy, sys
os.geteuid = lambda: 65534
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], None, "__main__")
"""


class Chameleon:
    name = "pg_chameleon"
    table = f"{SCHEMA}.orders"

    def missing(self, stand: Stand) -> str:
        if stand.at.kind != "postgresql":
            return "writes to PostgreSQL only"
        return "" if stand.name in ("mysql", "mariadb") else "reads MySQL and MariaDB only"

    def load(self, stand: Stand, source: Database, target: Database) -> Cost:
        # Its program asks setuptools for its own version, with what newer ones do not have.
        python = python_of("pg_chameleon", f"pg_chameleon=={VERSION}", "setuptools==75.8.2", "PyMySQL==1.1.1")
        home = stand.directory / "peers" / "pg_chameleon"
        shutil.rmtree(home, ignore_errors=True)
        _configure(home, stand, source, target)
        program = [python, "-W", "ignore", "-c", NOBODY, python.with_name("chameleon.py")]
        environment, chosen = {"HOME": str(home)}, ("--config", NAME)
        timed([*program, "create_replica_schema", *chosen], environment)
        timed([*program, "add_source", *chosen, "--source", NAME], environment)
        # `--debug` keeps it in the foreground. It ends with 0 whatever happens: the rows say whether it has loaded them.
        cost, said = timed([*program, "init_replica", *chosen, "--source", NAME, "--debug"], environment)
        timed([*program, "drop_replica_schema", *chosen], environment)
        check_loaded(self, source, target, said)
        return cost


def _configure(home: Path, stand: Stand, source: Database, target: Database) -> None:
    """JSON is YAML."""
    settings = home / ".pg_chameleon" / "configuration" / f"{NAME}.yml"
    settings.parent.mkdir(parents=True)
    files, pids, logs = places = home / "files", home / ".pg_chameleon" / "pid", home / ".pg_chameleon" / "logs"
    for place in places:
        place.mkdir()
    told = {
        "pid_dir": f"{pids}/",
        "log_dir": f"{logs}/",
        "log_dest": "file",
        "log_level": "info",
        "log_days_keep": 1,
        "rollbar_key": "",
        "rollbar_env": "",
        "pg_conn": _account(target, target.server.user, target.server.password) | {"database": target.name},
        "sources": {NAME: _source(source, files) | {"db_conn": _account(source, *account(stand.source)) | TIMEOUT}},
    }
    settings.touch(mode=0o600)
    settings.write_text(json.dumps(told))


def _account(database: Database, user: str, password: str) -> dict[str, object]:
    server = database.server
    return {"host": server.host, "port": str(server.port), "user": user, "password": password, "charset": "utf8"}


def _source(source: Database, files: Path) -> dict[str, object]:
    return {
        "schema_mappings": {source.name: SCHEMA},
        "limit_tables": [f"{source.name}.orders"],
        "skip_tables": [],
        "grant_select_to": [],
        "lock_timeout": "120s",
        "my_server_id": 7100,
        "replica_batch_size": 10000,
        "replay_max_rows": 10000,
        "batch_retention": "1 day",
        "copy_max_memory": "300M",
        "copy_mode": "file",
        "out_dir": str(files),
        "sleep_loop": 1,
        "on_error_replay": "exit",
        "on_error_read": "exit",
        "auto_maintenance": "disabled",
        "gtid_enable": False,
        "type": "mysql",
        "keep_existing_schema": False,
    }
