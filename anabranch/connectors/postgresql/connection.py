"""Connections to PostgreSQL: session settings, TLS, keepalive, and how names are quoted.

Every session has the settings of `settings.py`, whatever an administrator gave new sessions, and notices a dead line or a
forgotten transaction by itself (K9). What does not live here: which settings those are and why (`settings.py`), what errors
mean (`errors.py`), statements.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql import PRIMARY, ROLE
from anabranch.connectors.postgresql.errors import PASSED_ON, Meaning, describe, meaning, translated
from anabranch.connectors.postgresql.lookout import watch
from anabranch.connectors.postgresql.settings import DEMANDED, later_pins, startup_options
from anabranch.connectors.postgresql.told import tell
from anabranch.connectors.sql.servers import NONE_FITS, in_order, remember
from anabranch.errors import ConfigError, TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

Connection = psycopg.Connection[tuple[Any, ...]]

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of what follows from an error that we raise anyway

# our spelling of ssl_mode (libpq's and MySQL's words) -> libpq's
SSL_MODES = {
    "disable": "disable",
    "disabled": "disable",
    "prefer": "prefer",
    "preferred": "prefer",
    "require": "require",
    "required": "require",
    "verify-ca": "verify-ca",
    "verify_ca": "verify-ca",
    "verify-full": "verify-full",
    "verify_identity": "verify-full",
}
OPTIONS = {"ssl_ca": "sslrootcert", "ssl_cert": "sslcert", "ssl_key": "sslkey"}
LIMITED = ("anabranch:", "anabranch-state")  # sessions whose statements are short: apply's, and those of the state
GRANTED_SINCE = 150_000  # has_parameter_privilege
# A pooler may leave the startup packet's settings out: then this one of our own is not there.
# https://www.pgbouncer.org/config.html#ignore_startup_parameters
MARK = "anabranch.pinned"
MARK_QUERY = f"current_setting('{MARK}', true)"
NAME_LIMIT = 63  # bytes: NAMEDATALEN - 1, also for application_name


def connect(endpoint: Endpoint, application_name: str, autocommit: bool = False) -> Connection:
    """Return a session as all our sessions are. Raises TargetUnavailable, or TargetError when it refuses us."""
    with translated(f"cannot connect to {endpoint}"):
        connection, settings = opened(endpoint, application_name, autocommit=True)
        tell(connection, endpoint, application_name)
        refusal = settle(connection)
        if application_name.startswith(LIMITED) and not refusal:
            limit_statements(connection, endpoint)
        connection.autocommit = autocommit
    if refusal:
        connection.close()
        raise TargetError(f"{endpoint.place}: {refusal[0]}", hint=refusal[1])
    watch(str(endpoint), connection, settings, endpoint.limits)
    return connection


def opened(endpoint: Endpoint, application_name: str, **more: Any) -> tuple[Connection, dict[str, Any]]:
    """Return a connection as libpq opens it, and the parameters of another one to the same server.

    Of several addresses the first is taken whose server is the primary; those that are away, or standbys, are passed over,
    while a server that refuses us is not. Raises psycopg.Error.
    """
    order, passed = in_order(endpoint), list[str]()
    for one in order:
        settings = parameters(one, application_name)
        if len(order) > 1 or endpoint.option(ROLE):
            settings[ROLE] = endpoint.option(ROLE, PRIMARY)
        try:
            connection = psycopg.connect(**settings, **more)
        except psycopg.Error as error:
            if len(order) == 1 or meaning(error)[0] is not Meaning.AWAY:
                raise
            passed.append(f"{one.place}: {describe(error)}")
            continue
        remember(endpoint, one)
        return connection, settings
    raise psycopg.OperationalError(NONE_FITS + "; ".join(passed))


def settle(connection: Connection, walsender: bool = False, at_source: bool = False) -> tuple[str, str] | None:
    """Pin what the startup packet could not, in one round trip; what refuses the session and what to do, None if nothing does.

    By the simple protocol, which a session of the log knows alone. Raises psycopg.Error."""
    version = connection.info.server_version
    pins = [f"set_config('{name}', '{value}', false)" for name, value in later_pins(version, walsender).items()]
    demands = {name: demand for name, demand in DEMANDED.items() if not (at_source and demand.of_rows_written)}
    asked = [_demanded(name, demand.value, version) for name, demand in demands.items()]
    query = f"SELECT {', '.join([MARK_QUERY, *asked, *pins])}"
    result = connection.pgconn.exec_(query.encode())
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result)
    mark, *found = (result.get_value(0, i) for i in range(1 + len(asked)))
    if mark != b"on":
        return "settings of the session do not get through to the server", PASSED_ON
    for (name, demand), value in zip(demands.items(), found, strict=True):
        if (value or b"").decode() != demand.value:
            return f"new sessions have {name} = {(value or b'').decode()}: {demand.why}", _mending(name, connection)
    return None


def _demanded(name: str, value: str, version: int) -> str:
    """Return SQL that sets a value where the user may, and else reads it.

    https://www.postgresql.org/docs/15/functions-info.html#FUNCTIONS-INFO-ACCESS-TABLE
    """
    may = (
        f"has_parameter_privilege('{name}', 'SET')"
        if version >= GRANTED_SINCE
        else "current_setting('is_superuser')::bool"
    )
    pinned = f"WHEN {may} THEN set_config('{name}', '{value}', false) ELSE current_setting('{name}') END"
    return f"CASE WHEN current_setting('{name}', true) IS NULL THEN '{value}' {pinned}"


def _mending(name: str, connection: Connection) -> str:
    user, database = (sql.Identifier(one).as_string(None) for one in (connection.info.user, connection.info.dbname))
    return (
        f"ALTER DATABASE {database} RESET {name}; ALTER ROLE {user} RESET {name}; or take it out of the configuration"
    )


def limit_statements(connection: Connection, endpoint: Endpoint) -> None:
    """Limit the time of statements as the job says; not for sessions that copy or compare rows, prepare or build something."""
    if (limit := endpoint.limits.statement) != math.inf:
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [str(int(limit * 1000))])


@contextmanager
def together(connection: Connection) -> Iterator[None]:
    """Send what is executed inside in one piece, answered behind it.

    Behind the first error nothing is carried out, not even a commit.
    https://www.postgresql.org/docs/current/libpq-pipeline-mode.html
    """
    if not psycopg.Pipeline.is_supported():
        yield
        return
    with connection.pipeline():
        yield


def session_name(job: str, owner: str) -> str:
    """Return the application_name of an owner's sessions, `anabranch:<job>:<owner>`; a job whose name makes that longer than
    the server keeps stands in it as a digest."""
    name = f"anabranch:{job}:{owner}"
    if len(name.encode()) <= NAME_LIMIT:
        return name
    return f"anabranch:{job_digest(job)}:{owner}"


def job_digest(job: str) -> str:
    """Return a job's name in 12 characters, for names that have a limit."""
    return hashlib.blake2b(job.encode(), digest_size=6).hexdigest()


def table_name(table: TableId) -> sql.Identifier:
    """Return a table's qualified name, quoted."""
    return sql.Identifier(table.schema, table.name)


def column_list(names: tuple[str, ...] | list[str]) -> sql.Composed:
    """Join column names, quoted, with commas."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def parameters(endpoint: Endpoint, application_name: str) -> dict[str, Any]:
    """Return the parameters of psycopg.connect."""
    return {
        "host": endpoint.option("unix_socket") or endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "password": endpoint.password or None,
        "dbname": endpoint.database or endpoint.user,
        "application_name": application_name,
        "client_encoding": "UTF8",
        "connect_timeout": max(2, int(endpoint.limits.connect)),  # libpq takes no less
        "options": f"-c {MARK}=on {startup_options()}",
        **_keepalive(endpoint.limits.silence),
        **_tls(endpoint),
    }


def _keepalive(silence: float) -> dict[str, int]:
    """Return the settings after which a connection without an answer for so many seconds is lost: by default 10 s, and
    four times 5 s.

    https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-KEEPALIVES
    """
    idle, interval = max(1, min(10, int(silence / 3))), max(1, min(5, int(silence / 6)))
    count = max(1, int((silence - idle) / interval))
    names = ("keepalives_idle", "keepalives_interval", "keepalives_count")
    return {
        "keepalives": 1,
        **dict(zip(names, (idle, interval, count), strict=True)),
        "tcp_user_timeout": int(silence * 1000),
    }


def _tls(endpoint: Endpoint) -> dict[str, str]:
    """Choose libpq's mode: with a certificate authority and no mode the server is verified in full."""
    mode = endpoint.option("ssl_mode", "verify-full" if endpoint.option("ssl_ca") else "prefer")
    if mode.lower() not in SSL_MODES:
        raise ConfigError(f"ssl_mode={mode} in the URL of {endpoint} is not known", hint=" | ".join(SSL_MODES))
    files = {theirs: endpoint.option(ours) for ours, theirs in OPTIONS.items() if endpoint.option(ours)}
    return {"sslmode": SSL_MODES[mode.lower()], **files}


def one(connection: Connection, query: Any, parameters: Any = None) -> Any:
    """Return the first value of the first row."""
    row = connection.execute(query, parameters).fetchone()
    return row[0] if row else None
