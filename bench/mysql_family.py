"""The servers and programs of MySQL and MariaDB, at either end: how they start, how their own clients are called."""

from __future__ import annotations

from anabranch.testing.databases import Database
from anabranch.testing.packages import find_mariadb, find_mysql
from anabranch.testing.servers import Server, start_mariadb, start_mysql
from bench.at_target import Command

STARTERS = {"mariadb": start_mariadb, "mysql": start_mysql}
FINDERS = {"mariadb": find_mariadb, "mysql": find_mysql}
CLIENTS = {"mariadb": "mariadb", "mysql": "mysql"}
LOG_CLIENTS = {"mariadb": "mariadb-binlog", "mysql": "mysqlbinlog"}
# Neither side of a comparison pays for encryption: not the vendor's programs, not the job (`ssl_mode` in its URL).
NO_TLS = {"mariadb": ("--skip-ssl",), "mysql": ("--ssl-mode=DISABLED", "--get-server-public-key")}
# What both ends have: what the reduced sizes need fits into their buffers.
OPTIONS = ("--innodb-buffer-pool-size=3G", "--max-allowed-packet=64M")


def program(server: Server, name: str) -> Command:
    """A program of the server's vendor, with how to reach it, and its environment."""
    software = FINDERS[server.name]()
    address = [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"]
    command = [software.program(name), "--no-defaults", *address, *NO_TLS[server.name]]
    return command, software.environment() | {"MYSQL_PWD": server.password}


def rows(database: Database, table: str) -> Command:
    """The client that prints all rows of a table."""
    command, environment = program(database.server, CLIENTS[database.server.name])
    return [*command, "--quick", "--batch", "-N", "-e", f"SELECT * FROM {table}", database.name], environment
