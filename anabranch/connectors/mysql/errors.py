"""What the driver's and the server's errors mean to us: one table, error number -> class and hint.

Numbers: https://dev.mysql.com/doc/mysql-errors/8.0/en/ and https://mariadb.com/kb/en/mariadb-error-code-reference/.
What does not live here: errors about the log's content (`capture.py`), which no driver knows.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from anabranch.errors import AnabranchError, LogLost, SchemaError, SourceError, SourceUnavailable, install_hint

_ACCESS = "check user, password and host of the URL, and the grants of this user"
_GRANT = "preflight prints the GRANT statement that is missing"
_CHANGED = (
    "the table was dropped, renamed or altered at the source since its definition was read: "
    "it parks when capture comes to that statement, then start again"
)
OTHER_LOGIN = (
    "give this user one of the ways to log in that tell nobody the password: caching_sha2_password, mysql_native_password "
    "(SET old_passwords = 0 before SET PASSWORD), on MariaDB ed25519 or unix_socket"
)
_MODE = "SET GLOBAL gtid_mode = {} at the source until capture has read past this place, then start again"
_TLS = "set ssl_mode, ssl_ca, ssl_cert and ssl_key in the URL as the server wants them"

MEANING: dict[int, tuple[type[SourceError], str]] = {
    1040: (SourceUnavailable, "the server has no connection left: raise max_connections"),
    1043: (SourceUnavailable, ""),
    1044: (SourceError, _GRANT),
    1045: (SourceError, _ACCESS),
    1049: (SourceError, "the source has no such database: check the URL, and whether it was dropped"),
    1053: (SourceUnavailable, ""),
    1054: (SchemaError, _CHANGED),
    1077: (SourceUnavailable, ""),
    1079: (SourceUnavailable, ""),
    1080: (SourceUnavailable, ""),
    1129: (SourceError, "run FLUSH HOSTS at the source"),
    1130: (SourceError, _ACCESS),
    1142: (SourceError, _GRANT),
    1146: (SchemaError, _CHANGED),
    1152: (SourceUnavailable, ""),
    1158: (SourceUnavailable, ""),
    1159: (SourceUnavailable, ""),
    1160: (SourceUnavailable, ""),
    1161: (SourceUnavailable, ""),
    1176: (SchemaError, _CHANGED),
    1184: (SourceUnavailable, ""),
    1203: (SourceUnavailable, "the user has no connection left: raise max_user_connections"),
    1205: (SourceUnavailable, "a lock at the source was not given in time"),
    1213: (SourceUnavailable, "a deadlock at the source"),
    1220: (SourceError, ""),
    1226: (SourceUnavailable, "the user has reached its resource limit"),
    1227: (SourceError, _GRANT),
    1236: (LogLost, ""),
    1251: (SourceError, OTHER_LOGIN),
    1275: (SourceError, OTHER_LOGIN),
    1317: (SourceUnavailable, "the statement was interrupted at the source"),
    1381: (SourceError, "switch on the binary log (log_bin) and restart the server"),
    1412: (SourceUnavailable, "the table was truncated or altered while it was read: it has to be read again"),
    1927: (SourceUnavailable, ""),
    2002: (SourceUnavailable, ""),
    2003: (SourceUnavailable, ""),
    2006: (SourceUnavailable, ""),
    2013: (SourceUnavailable, ""),
    2014: (SourceUnavailable, ""),
    2026: (SourceError, _TLS),
    2055: (SourceUnavailable, ""),
    2059: (SourceError, f"this way to log in is not supported: {OTHER_LOGIN}"),
    2061: (SourceError, "this user's authentication plugin needs TLS: " + _TLS),
    3118: (SourceError, "the account is locked at the source"),
    3159: (SourceError, _TLS),
    4031: (SourceUnavailable, "the connection was idle for too long"),
    4052: (SourceError, "give this job another [capture] server_id: a replica or another job uses this one"),
    4151: (SourceError, "the account is locked at the source"),
}

# The same number, 1236, stands for every reason why a dump ends; what its text says decides.
DUMP_ENDED: tuple[tuple[str, type[SourceError], str], ...] = (
    ("same server_uuid/server_id", SourceError, "give this job another [capture] server_id"),
    ("same server_id", SourceError, "give this job another [capture] server_id"),
    ("max_allowed_packet", SourceError, "SET GLOBAL max_allowed_packet = 1073741824 at the source"),
    ("binary log is not open", SourceError, "switch on the binary log (log_bin) and restart the server"),
    ("semi-sync", SourceError, ""),
    ("killed", SourceUnavailable, ""),
    ("anonymous transaction when auto_position", LogLost, ""),
    ("anonymous transaction when @@global.gtid_mode = on", SourceError, _MODE.format("ON_PERMISSIVE")),
    ("gtid-transaction when @@global.gtid_mode = off", SourceError, _MODE.format("OFF_PERMISSIVE")),
)

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
    *((words, "the server's TLS is too old to be safe: use a newer server, or ssl_mode=disabled over a line of your own")
      for words in ("unsupported protocol", "protocol version", "handshake failure", "no protocols", "key too small",
                    "wrong version number")),
)  # fmt: skip
CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # the other end is gone, which is no matter of TLS
_NO_WAY_TO_LOG_IN = "received unknown auth switch request"  # PyMySQL: the server asks as MySQL 4.0 did


def translate(error: BaseException) -> AnabranchError:
    """The error of our tree for one of the driver or of the socket. Never contains a secret."""
    if isinstance(error, AnabranchError):
        return error
    tls = _tls_error(error)
    if isinstance(tls, CUT):
        return SourceUnavailable(f"the line to the source broke: {_plain(tls)}")
    if tls is not None:
        return SourceError(f"TLS with the source failed: {_plain(tls)}", hint=_tls_hint(str(tls)))
    if isinstance(error, OSError):
        return SourceUnavailable(f"the line to the source broke: {error or type(error).__name__}")
    if isinstance(error, RuntimeError):  # PyMySQL: the package `cryptography` is missing
        return SourceError(f"the driver cannot log in: {error}", hint=f"{install_hint('mysql')}; or use TLS")
    number, text = _number_and_text(error)
    if text == _NO_WAY_TO_LOG_IN:
        return SourceError(
            "the server asks for the password in the form of MySQL 4.0: it is not told", hint=OTHER_LOGIN
        )
    return of_number(number, text)


def of_number(number: int, text: str) -> SourceError:
    """The same for an error number and text that came over the replication protocol."""
    kind, hint = MEANING.get(number, (SourceError, ""))
    if number == 1236:
        lowered = text.lower()
        kind, hint = next(((k, h) for part, k, h in DUMP_ENDED if part in lowered), (kind, hint))
    if number == 2026 or (number in (2003, 2013) and "SSL" in text and "EOF" not in text):
        kind, hint = SourceError, _tls_hint(text)
    return kind(f"the source says {number}: {text}" if number else f"the driver says: {text}", hint=hint)


@contextmanager
def translated() -> Iterator[None]:
    """Driver and socket errors inside come out as errors of our tree."""
    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        raise translate(error) from error


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """The TLS library's error, or the one in the driver's."""
    inner = getattr(error, "original_exception", error)
    return inner if isinstance(inner, ssl.SSLError) else None


def _plain(error: ssl.SSLError) -> str:
    """`[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: … (_ssl.c:1006)` without the library's own places."""
    return re.sub(r"^\[.*?\] | \(_ssl\.c:\d+\)$", "", str(error.args[-1]))


def _tls_hint(text: str) -> str:
    return next((hint for words, hint in TLS_FAILED if words in text.lower().replace("_", " ")), _TLS)


def _number_and_text(error: BaseException) -> tuple[int, str]:
    if error.args[:1] == (0,):  # PyMySQL: InterfaceError(0, "") on a connection that is gone
        return 2013, "the connection is closed"
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        return error.args[0], str(error.args[1])
    return 0, str(error) or type(error).__name__
