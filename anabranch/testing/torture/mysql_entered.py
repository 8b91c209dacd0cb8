"""A MySQL or MariaDB of the user's, at either end: entered, and asked whether it is what its URL says.

What does not live here: what a history needs of it (mysql_source.py, mysql_target.py).
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

import pymysql

from anabranch.errors import ConfigError, SourceUnavailable, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import connect
from anabranch.testing.servers import Server

CONNECT_SECONDS = 10
AWAY = {"source": SourceUnavailable, "target": TargetUnavailable}


def entered(end: Endpoint, role: str) -> Server:
    """Raises SourceUnavailable or TargetUnavailable; ConfigError where it is another product than the URL says."""
    server = Server(end.scheme, "", end.host, end.port, end.user, end.password)
    try:
        with closing(connect(server, connect_timeout=CONNECT_SECONDS)) as connection:
            said = str(connection.get_server_info())
    except (pymysql.err.MySQLError, OSError) as error:
        said = str(error.args[-1] if error.args else error)
        raise AWAY[role](f"--{role} {end.place}: {said}", hint=f"check --{role} and its user") from error
    found = "mariadb" if "mariadb" in said.lower() else "mysql"
    if found != end.scheme:
        raise ConfigError(f"--{role} {end.place} says that it is {said}", hint=f"write {found}:// in its URL")
    # 10.11.19-MariaDB-log, 5.5.5-10.6.1-MariaDB (a prefix that some say for the sake of old replicas)
    return replace(server, version=re.split(r"[^0-9.]", said.removeprefix("5.5.5-"))[0])
