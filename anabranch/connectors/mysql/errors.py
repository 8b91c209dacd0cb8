"""Errors of driver and server, translated: one table, error number -> class and hint.

Numbers: https://dev.mysql.com/doc/mysql-errors/8.0/en/ and https://mariadb.com/kb/en/mariadb-error-code-reference/.
What does not live here: errors about the log's content (`capture.py`), which no driver knows.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pymysql

from anabranch.errors import (
    AnabranchError,
    LogLost,
    SchemaError,
    SourceBusy,
    SourceError,
    SourceUnavailable,
    install_hint,
)
from anabranch.waits import said

_ACCESS = "check user, password and host of the URL, and the grants of this user"
_GRANT = "the job's user lacks a right: `anabranch recipe` prints the GRANT statements that a source needs"
# What ER_SPECIFIC_ACCESS_DENIED_ERROR names; SUPER is a right to more than what is asked for.
_NAMED = re.compile(r"you need \(at least one of\) the ([A-Z_, ]+) privilege")
_CHANGED = (
    "the table was dropped, renamed or altered at the source since its definition was read: "
    "it parks when capture comes to that statement, then start again"
)
OTHER_LOGIN = (
    "give this user an authentication plugin that does not reveal the password: caching_sha2_password, mysql_native_password "
    "(SET old_passwords = 0 before SET PASSWORD), on MariaDB ed25519 or unix_socket"
)
_MODE = "SET GLOBAL gtid_mode = {} at the source until capture has read past this place, then start again"
_TLS = "set ssl_mode, ssl_ca, ssl_cert and ssl_key in the URL as the server wants them"
_OTHER_ID = "give this job another [source.options] server_id"
_PASSWORD = "give the job's user a new password (ALTER USER) and put it where the job file takes it from"
_ROOM = "make room on the source's disk"
NO_GREETING = "no greeting"  # among the words of our connections: a MySQL speaks first, a PostgreSQL waits
OTHER_KIND = (
    "a MySQL or MariaDB greets whoever connects: check that the server runs, and that host and port of the URL are not those"
    " of a server of another kind, a PostgreSQL perhaps"
)
LOCKED = 1205  # a lock was not given in time


class KnownError(NamedTuple):
    """An error that we have thought about: what it is raised as, what it is, and what to do beside what its class says."""

    error: type[SourceError]
    what: str
    hint: str = ""


# What is not here is a SourceError without a hint.
MEANING: dict[int, KnownError] = {
    1021: KnownError(SourceUnavailable, "the disk is full", _ROOM),
    1040: KnownError(
        SourceUnavailable, "too many connections", "the server has no connection left: raise max_connections"
    ),
    1041: KnownError(SourceUnavailable, "the server is out of memory"),
    1043: KnownError(SourceUnavailable, "the line broke in the handshake"),
    1044: KnownError(SourceError, "no right to the database", _GRANT),
    1045: KnownError(SourceError, "the login is refused", _ACCESS),
    1047: KnownError(
        SourceError, "the server does not know the command", "connect to the server itself, not to a proxy"
    ),
    1049: KnownError(
        SourceError,
        "no such database",
        "the source has no such database: check the URL, and whether it was dropped",
    ),
    1053: KnownError(SourceUnavailable, "the server shuts down"),
    1054: KnownError(SchemaError, "no such column", _CHANGED),
    1077: KnownError(SourceUnavailable, "the server shuts down"),
    1079: KnownError(SourceUnavailable, "the server shuts down"),
    1080: KnownError(SourceUnavailable, "the server ends the connection"),
    1114: KnownError(SourceUnavailable, "no room for a table of the query", _ROOM),
    1129: KnownError(SourceError, "our host is blocked", "run FLUSH HOSTS at the source"),
    1130: KnownError(SourceError, "our host may not connect", _ACCESS),
    1135: KnownError(SourceUnavailable, "no thread for another connection"),
    1142: KnownError(SourceError, "no right to the table", _GRANT),
    1146: KnownError(SchemaError, "no such table", _CHANGED),
    1152: KnownError(SourceUnavailable, "the connection was aborted"),
    1153: KnownError(
        SourceError,
        "a packet is too large",
        "SET GLOBAL max_allowed_packet = 1073741824 at the source, and start again",
    ),
    1158: KnownError(SourceUnavailable, "the line broke"),
    1159: KnownError(SourceUnavailable, "the line was silent for too long"),
    1160: KnownError(SourceUnavailable, "the line broke"),
    1161: KnownError(SourceUnavailable, "the line was silent for too long"),
    1176: KnownError(SchemaError, "no such index", _CHANGED),
    1184: KnownError(SourceUnavailable, "the connection was aborted"),
    1194: KnownError(SourceError, "the table is damaged", "REPAIR TABLE at the source"),
    1195: KnownError(SourceError, "the table is damaged", "REPAIR TABLE at the source"),
    1203: KnownError(
        SourceUnavailable,
        "too many connections of this user",
        "the user has no connection left: raise max_user_connections",
    ),
    1205: KnownError(
        SourceBusy,
        "a lock was not given in time",
        "another session holds a lock at the source: end it, or start again later",
    ),
    1213: KnownError(SourceBusy, "deadlock"),
    1220: KnownError(SourceError, "a replication command failed"),
    1226: KnownError(SourceUnavailable, "a limit of this user is reached", "the user has reached its resource limit"),
    1227: KnownError(SourceError, "a privilege is missing", _GRANT),
    1236: KnownError(LogLost, "the log is not sent (its reason decides, see below)"),
    1251: KnownError(SourceError, "a way to log in that is not safe", OTHER_LOGIN),
    1275: KnownError(SourceError, "a way to log in that is not safe", OTHER_LOGIN),
    1317: KnownError(SourceUnavailable, "the statement was killed", "the statement was interrupted at the source"),
    1381: KnownError(SourceError, "no binary log", "switch on the binary log (log_bin) and restart the server"),
    1412: KnownError(
        SourceUnavailable,
        "the table changed while it was read",
        "the table was truncated or altered while it was read: it has to be read again",
    ),
    1820: KnownError(SourceError, "the password has expired", _PASSWORD),
    1862: KnownError(SourceError, "the password has expired", _PASSWORD),
    1927: KnownError(SourceUnavailable, "the connection was killed"),
    1969: KnownError(
        SourceUnavailable, "a time limit for statements (MariaDB)", "raise max_statement_time for this user"
    ),
    2002: KnownError(SourceUnavailable, "no connection"),
    2003: KnownError(SourceUnavailable, "no connection"),
    2006: KnownError(SourceUnavailable, "the line is lost"),
    2013: KnownError(SourceUnavailable, "the line is lost"),
    2014: KnownError(SourceUnavailable, "the line broke inside an answer"),
    2026: KnownError(SourceError, "TLS failed", _TLS),
    2055: KnownError(SourceUnavailable, "the line is lost"),
    2059: KnownError(SourceError, "an unknown way to log in", f"this way to log in is not supported: {OTHER_LOGIN}"),
    2061: KnownError(SourceError, "the login needs TLS", "this user's authentication plugin needs TLS: " + _TLS),
    3024: KnownError(SourceUnavailable, "a time limit for statements (MySQL)", "raise max_execution_time"),
    3032: KnownError(SourceUnavailable, "the server is in offline mode", "SET GLOBAL offline_mode = OFF at the source"),
    3118: KnownError(SourceError, "the account is locked", "the account is locked at the source"),
    3159: KnownError(SourceError, "only TLS is accepted", _TLS),
    4031: KnownError(SourceUnavailable, "idle for too long", "the connection was idle for too long"),
    4052: KnownError(
        SourceError,
        "the server id is taken",
        "give this job another [source.options] server_id: a replica or another job uses this one",
    ),
    4151: KnownError(SourceError, "the account is locked", "the account is locked at the source"),
}

# Numbers that stand for several reasons: part of the text, in small letters, decides; the first counts.
BY_TEXT: dict[int, tuple[tuple[str, KnownError], ...]] = {
    2013: ((NO_GREETING, KnownError(SourceUnavailable, "nothing greets", OTHER_KIND)),),
    1047: (("wsrep", KnownError(SourceUnavailable, "a node of a cluster that is not ready", "")),),
    1236: (
        ("same server_uuid/server_id", KnownError(SourceError, "the server id is taken", _OTHER_ID)),
        ("same server_id", KnownError(SourceError, "the server id is taken", _OTHER_ID)),
        (
            "max_allowed_packet",
            KnownError(
                SourceError, "an event is too large", "SET GLOBAL max_allowed_packet = 1073741824 at the source"
            ),
        ),
        (
            "binary log is not open",
            KnownError(SourceError, "no binary log", "switch on the binary log (log_bin) and restart the server"),
        ),
        ("semi-sync", KnownError(SourceError, "semi-synchronous replication failed")),
        ("killed", KnownError(SourceUnavailable, "the connection was killed")),
        (
            "anonymous transaction when auto_position",
            KnownError(LogLost, "transactions without GTIDs where GTIDs say the place"),
        ),
        (
            "anonymous transaction when @@global.gtid_mode = on",
            KnownError(SourceError, "transactions without GTIDs", _MODE.format("ON_PERMISSIVE")),
        ),
        (
            "gtid-transaction when @@global.gtid_mode = off",
            KnownError(SourceError, "transactions with GTIDs", _MODE.format("OFF_PERMISSIVE")),
        ),
    ),
}

# A TLS connection that did not come about: part of what the TLS library or the driver says -> what to do. The first counts.
TLS_FAILED: tuple[tuple[str, str], ...] = (
    ("hostname mismatch", "the server's certificate is for another host name: connect by a name that is in it, or set "
     "ssl_mode=verify_ca in the URL"),
    ("ip address mismatch", "the server's certificate does not have this address: connect by a name that is in it, or set "
     "ssl_mode=verify_ca in the URL"),
    ("expired", "the server's certificate is out of date: renew it there"),
    ("verify failed", "the server's certificate is not signed by the authority in ssl_ca: name the right file in the URL"),
    ("doesn't support it", "switch TLS on at the server (ssl_ca, ssl_cert, ssl_key in its configuration), or set "
     "ssl_mode=disabled in the URL"),
    *((words, "the server's TLS is too old to be safe: use a newer server, or ssl_mode=disabled over a network that you trust")
      for words in ("unsupported protocol", "protocol version", "handshake failure", "no protocols", "key too small",
                    "wrong version number")),
)  # fmt: skip
CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # the other end is gone, which is no matter of TLS
# PyMySQL, which closes the connection then: a server that has waited for net_write_timeout ends its answer inside a row.
_OUT_OF_TURN = "Packet sequence number wrong"
_NO_WAY_TO_LOG_IN = "received unknown auth switch request"  # PyMySQL: the server asks as MySQL 4.0 did


def translate(error: BaseException) -> AnabranchError:
    """Return the error of our tree for one of the driver or of the socket. Never contains a secret."""
    if isinstance(error, AnabranchError):
        return error
    tls = tls_error(error)
    if isinstance(tls, CUT):
        return SourceUnavailable(f"the line to the source broke: {plain(tls)}")
    if tls is not None:
        return SourceError(f"TLS with the source failed: {plain(tls)}", hint=tls_hint(str(tls)))
    if isinstance(error, OSError):
        return SourceUnavailable(f"the line to the source broke: {error or type(error).__name__}")
    if isinstance(error, RuntimeError):  # PyMySQL: the package `cryptography` is missing
        return SourceError(f"the driver cannot log in: {error}", hint=f"{install_hint('mysql')}; or use TLS")
    number, text = number_and_text(error)
    if number == LOCKED and (who := said()):
        return SourceUnavailable(of_number(number, text).message, hint=who)
    if text == _NO_WAY_TO_LOG_IN:
        return SourceError(
            "the server asks for the password in the form of MySQL 4.0: anabranch does not send it", hint=OTHER_LOGIN
        )
    return of_number(number, text)


def of_number(number: int, text: str) -> SourceError:
    """Translate an error number and text that came over the replication protocol."""
    known, lowered = MEANING.get(number, KnownError(SourceError, "")), text.lower()
    kind, _, hint = next((one for part, one in BY_TEXT.get(number, ()) if part in lowered), known)
    if number == 2026 or (number in (2003, 2013) and "SSL" in text and "EOF" not in text):
        kind, hint = SourceError, tls_hint(text)
    if named := _NAMED.search(text):
        rights = [right for right in named[1].split(", ") if right != "SUPER"] or ["SUPER"]
        hint = f"GRANT {rights[0]} ON *.* TO the job's user; `anabranch recipe` prints all that a source needs"
    return kind(f"the source says {number}: {text}" if number else f"the driver says: {text}", hint=hint)


@contextmanager
def translated() -> Iterator[None]:
    """Translate driver and socket errors raised inside."""
    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        raise translate(error) from error


def tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS library's error, or the one in the driver's."""
    inner = getattr(error, "original_exception", error)
    return inner if isinstance(inner, ssl.SSLError) else None


def plain(error: ssl.SSLError) -> str:
    """Return the message without the library's own places: `[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed:
    … (_ssl.c:1006)`.
    """
    return re.sub(r"^\[.*?\] | \(_ssl\.c:\d+\)$", "", str(error.args[-1]))


def tls_hint(text: str) -> str:
    return next((hint for words, hint in TLS_FAILED if words in text.lower().replace("_", " ")), _TLS)


def number_and_text(error: BaseException) -> tuple[int, str]:
    """Return the number and the text of a driver's error, 0 for one without a number."""
    if error.args[:1] == (0,):  # PyMySQL: InterfaceError(0, "") on a connection that is gone
        return 2013, "the connection is closed"
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        return error.args[0], str(error.args[1])
    if str(error).startswith(_OUT_OF_TURN):
        return 2014, str(error)
    return 0, str(error) or type(error).__name__
