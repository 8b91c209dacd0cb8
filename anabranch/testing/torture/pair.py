"""A pair of the user's: two URLs, looked at before the first history, so that what is missing is said once and at once.

What does not live here: what histories do to it and what is cleared away (ground.py).
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import Any

from anabranch.config.url import parse_url
from anabranch.errors import ConfigError, PreflightFailed, SourceUnavailable, TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.order import require_reader

CONNECT_SECONDS = 10


def users_own(source: str, target: str) -> Ground:
    """The pair that two URLs name. Raises ConfigError; SourceUnavailable, TargetUnavailable where one cannot be entered;
    PreflightFailed where it cannot do what a history needs."""
    ends = _endpoint(source, "source"), _endpoint(target, "target")
    if ends[0].scheme not in ("mysql", "mariadb"):
        raise ConfigError("--source: of this kind only private ones can be tortured", hint="--source postgresql")
    ground = Ground([_source(ends[0])], Database(_target(ends[1]), ends[1].database))
    _require_log(ground.sources[0])
    _require_rights(ground.target)
    require_reader(ground.sources[0])
    return ground


def _endpoint(url: str, role: str) -> Endpoint:
    endpoint, problems = parse_url(url, os.environ, needs_database=role == "target", role=role)
    if endpoint is None:
        raise ConfigError(f"--{role}:", problems=problems)
    if endpoint.options:
        raise ConfigError(f"--{role}: the kit's own sessions take no options", hint="name a server that needs none")
    return endpoint


def _source(end: Endpoint) -> Server:
    import pymysql

    try:
        with closing(connect(_server(end, ""), connect_timeout=CONNECT_SECONDS)) as connection:
            said = str(connection.get_server_info())
    except (pymysql.err.MySQLError, OSError) as error:
        said = str(error.args[-1] if error.args else error)
        raise SourceUnavailable(f"--source {end.place}: {said}", hint="check --source and its user") from error
    family = "mariadb" if "mariadb" in said.lower() else "mysql"
    if family != end.scheme:
        raise ConfigError(f"--source {end.place} says that it is {said}", hint=f"write {family}:// in its URL")
    # 10.11.19-MariaDB-log, 5.5.5-10.6.1-MariaDB (a prefix that some say for the sake of old replicas)
    return _server(end, re.split(r"[^0-9.]", said.removeprefix("5.5.5-"))[0])


def _target(end: Endpoint) -> Server:
    import psycopg

    try:
        with closing(connect(_server(end, ""), end.database, connect_timeout=CONNECT_SECONDS)) as connection:
            said = str(connection.info.parameter_status("server_version"))
    except (psycopg.Error, OSError) as error:
        text = " ".join(str(error).split())
        raise TargetUnavailable(
            f"--target {end.place}: {text}", hint="check --target, its user, and that its database is there"
        ) from error
    return _server(end, re.split(r"[^0-9.]", said)[0])


def _server(end: Endpoint, version: str) -> Server:
    name = "postgresql" if end.scheme == "postgres" else end.scheme
    return Server(name, version, end.host, end.port, end.user, end.password)


# --- what a history needs ---------------------------------------------------------------------------------------------


def _require_log(source: Server) -> None:
    """A log of rows, and the rights that sessions of a history use. Raises PreflightFailed."""
    import pymysql

    with closing(connect(source)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT @@GLOBAL.log_bin, @@GLOBAL.binlog_format")
        is_on, written = cursor.fetchone()
        if not int(is_on):
            raise PreflightFailed("--source: its binary log is off", hint="start it with log_bin and binlog_format=ROW")
        if str(written).upper() != "ROW":
            raise PreflightFailed(f"--source: binlog_format is {written}", hint="SET GLOBAL binlog_format = 'ROW'")
        for needs, tries in _NEEDED:
            try:
                cursor.execute(tries)
                cursor.fetchall()
            except pymysql.err.MySQLError as error:
                raise PreflightFailed(
                    f"--source: its user may not {tries}: {error.args[-1]}", hint=f"grant it {needs}"
                ) from error


_NEEDED = (
    ("REPLICATION CLIENT", "SHOW BINARY LOGS"),
    ("SESSION_VARIABLES_ADMIN (MariaDB: BINLOG ADMIN)", "SET SESSION binlog_row_image = 'FULL'"),
    ("XA_RECOVER_ADMIN", "XA RECOVER"),
)


def _require_rights(target: Database) -> None:
    may = "has_database_privilege(current_database(), 'CREATE')"
    rows: list[tuple[Any, ...]] = target.query(f"SELECT {may}, pg_is_in_recovery()")
    may_create, only_reads = rows[0]
    if only_reads:
        raise PreflightFailed("--target: this is a standby, which only reads", hint="name its primary")
    if not may_create:
        raise PreflightFailed(
            f"--target: its user may not make schemas in {target.name}",
            hint=f"GRANT CREATE ON DATABASE {target.name} TO {target.server.user}",
        )
