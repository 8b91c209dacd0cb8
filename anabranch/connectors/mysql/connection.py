"""Connections to MySQL or MariaDB: how one is made, what kind of server answers, and as whom it knows us. No queries of
any role live here.
"""

from __future__ import annotations

import math
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

import pymysql

from anabranch import log
from anabranch.connectors.mysql.errors import NO_GREETING, OTHER_LOGIN, number_and_text, translate
from anabranch.connectors.mysql.lookout import MysqlLookout
from anabranch.connectors.mysql.primary import choose
from anabranch.connectors.mysql.settings import FIRST, PINNED, UNLIMITED, Pin, pinning
from anabranch.errors import AnabranchError, ConfigError, SourceError
from anabranch.model.endpoint import Endpoint
from anabranch.waits import Patience, Session, register

# https://dev.mysql.com/doc/refman/8.0/en/connection-options.html#option_general_ssl-mode
SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
SSL_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
_USES_FILES = SSL_MODES[2:]
# Ways to log in that show the password, or a hash that is as good as it, to whoever answers; PyMySQL would do as it is told.
# https://dev.mysql.com/doc/refman/8.0/en/cleartext-pluggable-authentication.html · https://mariadb.com/kb/en/authentication-plugin-pam/
# https://dev.mysql.com/doc/refman/5.6/en/old-native-pluggable-authentication.html
GIVES_AWAY = ("mysql_clear_password", "dialog", "mysql_old_password")
_THERE: dict[
    tuple[str, tuple[str, ...]], frozenset[str]
] = {}  # release as the server greets, pins -> those that it has
OPTIONS = ("ssl_mode", *SSL_FILES, "unix_socket")
Some = TypeVar("Some", bound="Connection")


def connect(endpoint: Endpoint, watched: bool = True, **driver: Any) -> pymysql.Connection:
    """Return a connection with the settings of `settings.py` and the job's limits of time. `watched`: what it waits for
    is told; `driver` overrides what PyMySQL is given.

    Raises SourceUnavailable or SourceError; ConfigError for an option of the URL that nobody knows.
    """
    try:
        connection = opened(endpoint, Connection, PINNED, **driver)
    except ConfigError:  # it names what is wrong in the URL
        raise
    except (AnabranchError, pymysql.err.Error, OSError, RuntimeError) as error:
        found = translate(error)
        found.message = f"{endpoint.place}: {found.message}"
        raise found from error
    if watched:
        watch(endpoint, connection)
    return connection


def opened(endpoint: Endpoint, kind: type[Some], pins: Mapping[str, Pin], **driver: Any) -> Some:
    """Return a connection of this class, with these settings, of several addresses to the one that `primary.py` chooses;
    errors of the driver pass."""
    return choose(endpoint, lambda one: _opened(one, kind, pins, **driver))


def _opened(endpoint: Endpoint, kind: type[Some], pins: Mapping[str, Pin], **driver: Any) -> Some:
    settings: dict[str, Any] = {
        "user": endpoint.user,
        "password": endpoint.password.encode(),
        "database": endpoint.database or None,
        "charset": "utf8mb4",
        "autocommit": None,  # the pins say it
        "connect_timeout": endpoint.limits.connect,
        "program_name": "anabranch",
        "auth_plugin_map": dict.fromkeys(GIVES_AWAY, _Refused),
        **_place(endpoint),
        **_tls(endpoint),
        **driver,
    }
    usual = None if endpoint.limits.statement == math.inf else endpoint.limits.statement
    # until it is open all answers have the limit: PyMySQL's own holds for the handshake of TCP only
    connection = kind(**settings | {"read_timeout": endpoint.limits.connect})
    try:
        _tell(connection, endpoint)
        _pin(connection, pins)
    except BaseException:  # whatever it was: let go, and passed on
        connection._force_close()
        raise
    connection._read_timeout = driver.get("read_timeout", usual)
    return connection


def watch(endpoint: Endpoint, connection: Connection) -> None:
    """Have what the connection waits for told."""
    here = endpoint
    if len(endpoint.each) > 1:  # whoever looks has to ask this server
        here = replace(endpoint, host=connection.host, port=connection.port)
    session = Session(connection.thread_id(), is_busy, cut)
    patience = Patience(endpoint.limits.connect, endpoint.limits.silence)
    register(str(endpoint), connection, session, partial(_lookout, here), patience)


def _lookout(endpoint: Endpoint) -> MysqlLookout:
    connection = connect(endpoint, watched=False, read_timeout=10)
    return MysqlLookout(connection, endpoint.user, partial(ask, connection))


def _tell(connection: Connection, endpoint: Endpoint) -> None:
    """Log a new session, at the log level `debug`."""
    if log.is_detailed():
        log.get().debug("connected", to=str(endpoint), session=connection.thread_id(), encrypted=connection.ssl)


def is_busy(connection: Connection) -> bool:
    """Wait for the server, which is not asked for that."""
    return connection.is_waiting


def _pin(connection: Connection, pins: Mapping[str, Pin]) -> None:
    """Pin the session's settings in one statement. A server of a release not seen by this process is first asked for
    its variables.
    """
    seen = (connection.get_server_info(), tuple(pins))
    if seen not in _THERE:
        fetch(connection, FIRST + UNLIMITED[family(connection)])
        names = ", ".join(f"'{name}'" for name in pins)
        rows = fetch(connection, f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
        _THERE[seen] = frozenset(str(name).lower() for name, _ in rows)
    fetch(connection, pinning(_THERE[seen], pins))


class Connection(pymysql.Connection):  # type: ignore[misc]  # it has no types
    """Encrypts where the server offers it, without reading the machine's certificates: they verify nothing then, and take
    longer than all the rest of a connection. `is_waiting`: for the answer to a statement. `was_open`: whether the server could
    be written when it was chosen among several, None where it is the only one."""

    is_waiting = False
    was_open: bool | None = None

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        if log.is_detailed():
            log.get(session=self.thread_id()).debug("statement", sql=log.shape(_text(sql), "`"))
        self.is_waiting = True
        try:
            return int(super().query(sql, unbuffered))
        finally:
            self.is_waiting = False

    def _get_server_information(self) -> None:
        """Read the greeting. Where a line came about and none comes over it, that is said."""
        try:
            super()._get_server_information()
        except pymysql.err.OperationalError as error:
            number, text = number_and_text(error)
            if number != 2013 or "timed out" not in text:
                raise
            raise pymysql.err.OperationalError(number, f"{text}: {NO_GREETING} came") from error

    def _create_ssl_ctx(self, sslp: ssl.SSLContext | dict[str, Any]) -> ssl.SSLContext:
        return sslp if isinstance(sslp, ssl.SSLContext) else _believing()


def _text(statement: str | bytes | bytearray) -> str:
    return statement if isinstance(statement, str) else bytes(statement).decode(errors="replace")


@cache
def _believing() -> ssl.SSLContext:
    """Return a context that encrypts and accepts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class _Refused:
    """An authentication plugin that refuses: PyMySQL calls it when the server asks for one of these."""

    def __init__(self, connection: pymysql.Connection) -> None:
        self._user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user

    def authenticate(self, packet: object) -> None:
        raise SourceError(
            f"the server asks for the password of {self._user} in clear text or in the form of MySQL 4.0: "
            "anabranch does not send it",
            hint=OTHER_LOGIN,
        )


def cut(connection: Connection) -> None:
    """Shut the connection down: whoever waits for an answer over it sees its end."""
    with suppress(OSError, AttributeError):  # it may be closed at this moment
        connection._sock.shutdown(socket.SHUT_RDWR)


def family(connection: pymysql.Connection) -> str:
    """Return `mysql` or `mariadb`, from the greeting of the server (Percona Server is MySQL to us)."""
    return "mariadb" if "mariadb" in connection.get_server_info().lower() else "mysql"


def version(connection: pymysql.Connection) -> tuple[int, int, int]:
    """Return the server's version, e.g. (10, 11, 19). MariaDB puts `5.5.5-` before its own in the greeting."""
    text = connection.get_server_info().removeprefix("5.5.5-")
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def ask(connection: pymysql.Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Return all rows of a small query. Raises errors of our tree."""
    try:
        return fetch(connection, sql, *values)
    except (pymysql.err.Error, OSError) as error:
        raise translate(error) from error


def fetch(connection: pymysql.Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Return all rows of a small query; errors of the driver pass."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return list(cursor.fetchall())


def variables(connection: pymysql.Connection, *names: str) -> dict[str, str]:
    """Return global variables by name; one that this server does not have is left out."""
    wanted = ", ".join(["%s"] * len(names))
    rows = ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})", *names)
    return {str(name).lower(): str(value) for name, value in rows}


def account(connection: pymysql.Connection) -> str:
    """Return our account at the server, as GRANT wants it."""
    user, _, host = str(ask(connection, "SELECT CURRENT_USER()")[0][0]).rpartition("@")
    return f"'{user}'@'{host}'"


def _place(endpoint: Endpoint) -> dict[str, Any]:
    socket = endpoint.option("unix_socket")
    return {"unix_socket": socket} if socket else {"host": endpoint.host, "port": endpoint.port}


def _tls(endpoint: Endpoint) -> dict[str, Any]:
    unknown = [name for name, _ in endpoint.options if name not in OPTIONS]
    if unknown:
        raise ConfigError(f"unknown option {unknown[0]} in the URL", hint=f"known: {', '.join(OPTIONS)}")
    files = [name for name in SSL_FILES if endpoint.option(name)]
    mode = "verify_ca" if "ssl_ca" in files else "required" if files else "preferred"
    mode = endpoint.option("ssl_mode", mode)
    mode = mode.lower().replace("-", "_")
    if mode not in SSL_MODES:
        raise ConfigError(f"unknown ssl_mode {mode!r} in the URL", hint=f"one of {', '.join(SSL_MODES)}")
    if files and mode not in _USES_FILES:
        hint = f"take {', '.join(files)} out of the URL, or set ssl_mode={' or '.join(_USES_FILES)}"
        raise ConfigError(f"ssl_mode={mode} in the URL has no use for {', '.join(files)}", hint=hint)
    if "ssl_key" in files and "ssl_cert" not in files:
        raise ConfigError("the URL has ssl_key and no ssl_cert", hint="add ssl_cert for this key, or remove ssl_key")
    if mode == "disabled":
        return {"ssl_disabled": True}
    return {} if mode == "preferred" else {"ssl": _context(endpoint, mode)}


def _context(endpoint: Endpoint, mode: str) -> ssl.SSLContext:
    """Return the TLS context of a mode.

    `required` encrypts and accepts any server, unless there is a certificate authority; the verify modes check the
    chain, `verify_identity` also the host's name. libpq treats `require` beside a root certificate in the same way:
    https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-SSLMODE-STATEMENTS
    """
    is_believing = mode == "required" and not endpoint.option("ssl_ca")
    try:
        context = ssl.create_default_context(cafile=endpoint.option("ssl_ca") or None)
        context.check_hostname = mode == "verify_identity"
        context.verify_mode = ssl.CERT_NONE if is_believing else ssl.CERT_REQUIRED
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates that MySQL makes for itself do not pass it
        if endpoint.option("ssl_cert"):
            context.load_cert_chain(endpoint.option("ssl_cert"), endpoint.option("ssl_key") or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the TLS files of the URL cannot be used: {error}") from error
    return context


def printed(connection: pymysql.Connection, table: str, ask: Callable[..., list[tuple[Any, ...]]] = ask) -> str:
    """Return what SHOW CREATE TABLE prints of a table, whose name is quoted; `ask`: whose errors are raised.

    MariaDB prints the default of a binary column byte by byte: bytes that are no UTF-8 are lone surrogates here.
    """
    connection.use_unicode = False
    try:
        rows = ask(connection, f"SHOW CREATE TABLE {table}")
    finally:
        connection.use_unicode = True
    return bytes(rows[0][1]).decode(errors="surrogateescape")
