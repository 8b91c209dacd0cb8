"""Errors of MySQL and MariaDB as targets, translated: one table from the error's number to waiting, conflict or refusal.

Numbers: https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html and
https://mariadb.com/kb/en/mariadb-error-code-reference/. Row values never get into a message: where the server quotes one, it
is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

import pymysql

from anabranch.connectors.mysql.errors import (
    CUT,
    LOCKED,
    NO_GREETING,
    OTHER_KIND,
    number_and_text,
    plain,
    tls_error,
    tls_hint,
)
from anabranch.errors import (
    NOT_ADMITTED,
    AnabranchError,
    SourceError,
    TargetBusy,
    TargetError,
    TargetFull,
    TargetUnavailable,
    install_hint,
)
from anabranch.model.ids import TableId
from anabranch.waits import said

DEADLOCK = 1213
DUPLICATE = 1062
TAKEN = frozenset({DUPLICATE, 1586})  # another row has values that have to be unique
NO_TABLE = 1146


class Meaning(Enum):
    """The error that is raised. What the job then does: docs/reference/errors-by-server.md."""

    BUSY = "another session was in the way: TargetBusy"
    AWAY = "the server, or the line to it, is not there now: TargetUnavailable"
    FULL = "no room: TargetFull"
    CONFLICT = "these rows do not fit what is there: Conflict"
    REFUSED = "a person has to change something: TargetError"


WAITED_FOR = {Meaning.BUSY: TargetBusy, Meaning.AWAY: TargetUnavailable, Meaning.FULL: TargetFull}


class KnownError(NamedTuple):
    """An error that we have thought about: what it asks for, what it is, and what to do beside what its class says."""

    meaning: Meaning
    what: str
    hint: str = ""


_BUSY, _AWAY, _FULL, _CONFLICT, _REFUSED = Meaning
_LOAD = "load the table again"
_CHANGED = f"the target table was changed: {_LOAD}"
_OTHER_KIND = (
    "the name belongs to something else at the target, perhaps a view: rename it, or choose another target name"
)
_TYPE = (
    "change the column at the target to a type that holds the value (ALTER TABLE … MODIFY …); for tables that the load "
    "creates, choose the type in [types.map]"
)
# Of what an expression gives, or a column of the target that somebody else computes.
_RESULT = f'{_TYPE}; a column that is computed here gets the source\'s values by [target.options] computed = "values"'
_GRANT = "grant the job's user this right; preflight lists the statements"
_LOGIN = "check user, password and host of the target's URL, and the account there (CREATE USER … @ …)"
_ROOM = "make room on the target's disk"
_MEMORY = "the target's server is short of memory: look at its log and its limits"
_DAMAGED = "the server says that its data is damaged: look at its log, CHECK TABLE, restore it"
_READ_ONLY = "the target is read-only: point the job at the primary, or SET GLOBAL read_only = OFF there"
_KEYS = (
    "the source wrote the row with its foreign keys off, or only the target has this key: insert the missing parent row, or "
    "drop the key at the target"
)
_CHECK = "if the source has no such check any more: ALTER TABLE … DROP CHECK … (MariaDB: DROP CONSTRAINT) at the target"
_COMPUTED = "make it an ordinary column at the target (ALTER TABLE … MODIFY …), or leave it out of the job"
_FILES = "SET GLOBAL local_infile = ON at the target"
_TOO_BIG = "SET GLOBAL max_allowed_packet = 1073741824 at the target, and start again"
_WRITE_SET = "raise wsrep_max_ws_size at the target"
_KEYLESS = "the target wants a primary key in every table: give the table one"

# What is not here is Meaning.REFUSED without a hint.
MEANINGS: dict[int, KnownError] = {
    1005: KnownError(_REFUSED, "a table or key cannot be made", "SHOW ENGINE INNODB STATUS at the target says why"),
    1020: KnownError(_BUSY, "the row was changed since it was read"),
    1021: KnownError(_FULL, "the disk is full", _ROOM),
    1022: KnownError(_CONFLICT, "a duplicate key"),
    1026: KnownError(_FULL, "a file cannot be written", _ROOM),
    1030: KnownError(_AWAY, "an error of the storage engine", "look at the log of the target's server"),
    1034: KnownError(_REFUSED, "a damaged index", _DAMAGED),
    1037: KnownError(_AWAY, "out of memory", _MEMORY),
    1038: KnownError(_AWAY, "out of memory to sort", _MEMORY),
    1040: KnownError(_AWAY, "too many connections", "raise max_connections at the target, or lower [load] parallel"),
    1041: KnownError(_AWAY, "out of memory", _MEMORY),
    1043: KnownError(_AWAY, "the line broke in the handshake"),
    1044: KnownError(_REFUSED, "no right to the database", _GRANT),
    1045: KnownError(_REFUSED, "the login is refused", _LOGIN),
    1047: KnownError(_REFUSED, "the server does not know the command", "connect to the server itself, not to a proxy"),
    1048: KnownError(
        _CONFLICT, "NULL in a column that has none", "ALTER TABLE … MODIFY … NULL at the target, as at the source"
    ),
    1049: KnownError(_REFUSED, "no such database", "create the target database first"),
    1050: KnownError(
        _REFUSED,
        "the name is taken",
        "something else has this name: rename it at the target, or the table in the job file ([[rules]] target)",
    ),
    1053: KnownError(_AWAY, "the server shuts down"),
    1054: KnownError(_REFUSED, "no such column", f"the target table was changed: bring the column back, or {_LOAD}"),
    1062: KnownError(_CONFLICT, "a duplicate key"),
    1071: KnownError(
        _REFUSED, "a key is too long", "shorten the key's columns by [types.map]; ROW_FORMAT=DYNAMIC takes 3072 bytes"
    ),
    1077: KnownError(_AWAY, "the server shuts down"),
    1079: KnownError(_AWAY, "the server shuts down"),
    1080: KnownError(_AWAY, "the server ends the connection"),
    1105: KnownError(_REFUSED, "an error that has no number of its own"),
    1114: KnownError(_FULL, "a table is full", _ROOM),
    1118: KnownError(_CONFLICT, "a row is too large for its table", "ALTER TABLE … ROW_FORMAT=DYNAMIC at the target"),
    1129: KnownError(_REFUSED, "our host is blocked", "FLUSH HOSTS at the target"),
    1130: KnownError(_REFUSED, "our host may not connect", _LOGIN),
    1135: KnownError(_AWAY, "no thread for another connection", _MEMORY),
    1136: KnownError(_REFUSED, "another number of columns", _CHANGED),
    1142: KnownError(_REFUSED, "no right to the table", _GRANT),
    1143: KnownError(_REFUSED, "no right to a column", _GRANT),
    1146: KnownError(_REFUSED, "no such table", "the target table is gone: load it again"),
    1148: KnownError(_REFUSED, "LOAD DATA LOCAL is switched off", _FILES),
    1152: KnownError(_AWAY, "the connection was aborted"),
    1153: KnownError(_CONFLICT, "a packet is too large", _TOO_BIG),
    1158: KnownError(_AWAY, "the line broke"),
    1159: KnownError(_AWAY, "the line was silent for too long"),
    1160: KnownError(_AWAY, "the line broke"),
    1161: KnownError(_AWAY, "the line was silent for too long"),
    1169: KnownError(_CONFLICT, "a unique key is broken"),
    1173: KnownError(_REFUSED, "a table without a primary key", _KEYLESS),
    1180: KnownError(_AWAY, "the commit failed", "look at the log of the target's server"),
    1184: KnownError(_AWAY, "the connection was aborted"),
    1194: KnownError(_REFUSED, "the table is damaged", _DAMAGED),
    1195: KnownError(_REFUSED, "the table is damaged", _DAMAGED),
    1197: KnownError(
        _REFUSED,
        "a transaction is larger than the target's log takes",
        "raise max_binlog_cache_size at the target",
    ),
    1203: KnownError(_AWAY, "too many connections of this user", "raise max_user_connections at the target"),
    1205: KnownError(_BUSY, "a lock was not given in time", "another session holds a lock at the target"),
    1206: KnownError(_AWAY, "no room for locks", "raise innodb_buffer_pool_size at the target"),
    1213: KnownError(_BUSY, "deadlock"),
    1216: KnownError(_CONFLICT, "a foreign key of the target is broken", _KEYS),
    1217: KnownError(_CONFLICT, "a foreign key of the target is broken", _KEYS),
    1226: KnownError(_AWAY, "a limit of this user is reached", "raise the user's limit at the target"),
    1227: KnownError(_REFUSED, "a privilege is missing", _GRANT),
    1251: KnownError(_REFUSED, "a way to log in that is not safe", _LOGIN),
    1264: KnownError(_CONFLICT, "a number does not fit its column", _RESULT),
    1265: KnownError(_CONFLICT, "a value does not fit its column", _RESULT),
    1275: KnownError(_REFUSED, "a way to log in that is not safe", _LOGIN),
    1288: KnownError(_REFUSED, "not a table", _OTHER_KIND),
    1290: KnownError(_REFUSED, "the server was started with an option that forbids it"),
    1292: KnownError(_CONFLICT, "a value does not fit its column", _TYPE),
    1300: KnownError(_CONFLICT, "a text that its character set does not know", _TYPE),
    1317: KnownError(
        _BUSY,
        "the statement was ended by an administrator",
        "an administrator or a time limit at the target ends our statements: raise that limit for the job's user",
    ),
    1347: KnownError(_REFUSED, "not a table", _OTHER_KIND),
    1348: KnownError(_REFUSED, "a column that is not written", "the target has a view of this name, perhaps"),
    1364: KnownError(
        _CONFLICT,
        "a column that the source does not have wants a value",
        "ALTER TABLE … ALTER … SET DEFAULT … at the target",
    ),
    1366: KnownError(_CONFLICT, "a value does not fit its column", _TYPE),
    1367: KnownError(_CONFLICT, "a value does not fit its column", _TYPE),
    1369: KnownError(_CONFLICT, "a view's check option"),
    1370: KnownError(_REFUSED, "no right to a routine", _GRANT),
    1406: KnownError(_CONFLICT, "a value is too long for its column", _RESULT),
    1411: KnownError(_CONFLICT, "a value does not fit its column", _TYPE),
    1412: KnownError(_BUSY, "the table was altered meanwhile"),
    1416: KnownError(_CONFLICT, "a value is no geometry", _TYPE),
    1441: KnownError(_CONFLICT, "a point in time out of range", _TYPE),
    1451: KnownError(_CONFLICT, "a foreign key of the target is broken", _KEYS),
    1452: KnownError(_CONFLICT, "a foreign key of the target is broken", _KEYS),
    1525: KnownError(_CONFLICT, "a value does not fit its column", _TYPE),
    1526: KnownError(_CONFLICT, "no partition takes the row", "ALTER TABLE … ADD PARTITION … at the target"),
    1557: KnownError(_CONFLICT, "a duplicate key"),
    1586: KnownError(_CONFLICT, "a duplicate key"),
    1614: KnownError(_BUSY, "deadlock"),
    1637: KnownError(_AWAY, "too many transactions at once"),
    1644: KnownError(
        _CONFLICT,
        "raised by a trigger or routine of the target",
        "correct the row, or the trigger or routine at the target that raised this",
    ),
    1665: KnownError(
        _REFUSED,
        "the target's log takes statements only",
        "SET GLOBAL binlog_format = 'ROW' at the target: READ COMMITTED needs it",
    ),
    1690: KnownError(_CONFLICT, "a number does not fit its column", _RESULT),
    1709: KnownError(
        _REFUSED, "a column of a key is too long", "shorten it by [types.map] or columns.type: 767 bytes here"
    ),
    1712: KnownError(_REFUSED, "a damaged index", _DAMAGED),
    1713: KnownError(_CONFLICT, "a change of a row is too large for the undo log"),
    1748: KnownError(_CONFLICT, "the row is of another partition"),
    1761: KnownError(_CONFLICT, "a duplicate key in a table that refers to this one"),
    1762: KnownError(_CONFLICT, "a duplicate key in a table that refers to this one"),
    1785: KnownError(
        _REFUSED,
        "a table whose engine has no transactions",
        "ALTER TABLE … ENGINE=InnoDB at the target",
    ),
    1792: KnownError(_AWAY, "a transaction that may not write", _READ_ONLY),
    1812: KnownError(_REFUSED, "the table's file is missing", _DAMAGED),
    1820: KnownError(_REFUSED, "the password has expired", _LOGIN),
    1836: KnownError(_AWAY, "the server is read-only", _READ_ONLY),
    1859: KnownError(_CONFLICT, "a duplicate key"),
    1862: KnownError(_REFUSED, "the password has expired", _LOGIN),
    1906: KnownError(_REFUSED, "a computed column", _COMPUTED),
    1927: KnownError(_AWAY, "the connection was killed"),
    1969: KnownError(_BUSY, "a time limit for statements (MariaDB)", "raise max_statement_time for this user"),
    2002: KnownError(_AWAY, "no connection"),
    2003: KnownError(_AWAY, "no connection"),
    2006: KnownError(_AWAY, "the line is lost"),
    2013: KnownError(_AWAY, "the line is lost"),
    2014: KnownError(_AWAY, "the line broke inside an answer"),
    2055: KnownError(_AWAY, "the line is lost"),
    2059: KnownError(_REFUSED, "an unknown way to log in", _LOGIN),
    2061: KnownError(_REFUSED, "the login needs TLS", "set ssl_mode=required in the URL"),
    3024: KnownError(_BUSY, "a time limit for statements (MySQL)", "raise max_execution_time at the target"),
    3032: KnownError(_AWAY, "the server is in offline mode", "SET GLOBAL offline_mode = OFF at the target"),
    3037: KnownError(_CONFLICT, "a value is no geometry", _TYPE),
    3055: KnownError(_CONFLICT, "a value is no geometry", _TYPE),
    3098: KnownError(_REFUSED, "Group Replication refuses the table", _KEYLESS),
    3100: KnownError(
        _REFUSED,
        "Group Replication refuses the transaction",
        "raise group_replication_transaction_size_limit at the target",
    ),
    3101: KnownError(_BUSY, "rolled back because of others (Group Replication)"),
    3105: KnownError(_REFUSED, "a computed column", _COMPUTED),
    3118: KnownError(_REFUSED, "the account is locked", _LOGIN),
    3140: KnownError(_CONFLICT, "a value is no JSON", _TYPE),
    3141: KnownError(_CONFLICT, "a value is no JSON", _TYPE),
    3144: KnownError(_CONFLICT, "a value is no JSON", _TYPE),
    3157: KnownError(_CONFLICT, "JSON that is nested too deeply", _TYPE),
    3159: KnownError(_REFUSED, "only TLS is accepted", "set ssl_mode=required in the URL"),
    3168: KnownError(_AWAY, "the server is not available now"),
    3572: KnownError(_BUSY, "a lock was not given at once"),
    3616: KnownError(_CONFLICT, "a longitude out of range", _TYPE),
    3617: KnownError(_CONFLICT, "a latitude out of range", _TYPE),
    3643: KnownError(_CONFLICT, "a geometry of another reference system", _TYPE),
    3750: KnownError(_REFUSED, "a table without a primary key", _KEYLESS),
    3751: KnownError(_CONFLICT, "a value does not fit an index over an expression"),
    3752: KnownError(_CONFLICT, "a value does not fit an index over an expression"),
    3819: KnownError(_CONFLICT, "a check of the target is broken", _CHECK),
    3948: KnownError(_REFUSED, "LOAD DATA LOCAL is switched off", _FILES),
    4025: KnownError(_CONFLICT, "a check of the target is broken", _CHECK),
    4031: KnownError(_AWAY, "idle for too long"),
    4151: KnownError(_REFUSED, "the account is locked", _LOGIN),
    4166: KnownError(_REFUSED, "LOAD DATA LOCAL is switched off", _FILES),
}

# Numbers that stand for several reasons: part of the text, in small letters, decides; the first counts.
BY_TEXT: dict[int, tuple[tuple[str, KnownError], ...]] = {
    2013: ((NO_GREETING, KnownError(_AWAY, "nothing greets", OTHER_KIND)),),
    1026: (("errcode: 28", KnownError(_FULL, "the disk is full", _ROOM)),),
    1030: (
        ("no space left", KnownError(_FULL, "the disk is full", _ROOM)),
        ("got error 28", KnownError(_FULL, "the disk is full", _ROOM)),
    ),
    1047: (("wsrep", KnownError(_AWAY, "a node of a cluster that is not ready")),),
    1105: (("writeset size", KnownError(_REFUSED, "the cluster refuses the transaction", _WRITE_SET)),),
    1180: (
        ("no space left", KnownError(_FULL, "the disk is full", _ROOM)),
        ("got error 28", KnownError(_FULL, "the disk is full", _ROOM)),
        ("deadlock", KnownError(_BUSY, "rolled back because of others (Galera)")),
        (
            "message too long",
            KnownError(_REFUSED, "the cluster refuses the transaction", _WRITE_SET),
        ),
    ),
    1290: (("read-only", KnownError(_AWAY, "the server is read-only", _READ_ONLY)),),
}
# Where the message quotes a value of a row, or a piece of a statement that has some
_QUOTES = frozenset({1062, 1064, 1292, 1300, 1366, 1367, 1411, 1525, 1557, 1586, 1690, 1761, 1762})
_OF_COLUMN = re.compile(r"'.*'(?= for (?:key|column|function)\b)", re.DOTALL)
_OF_RECORD = re.compile(r"(?<=(?:record|.entry) )'.*'(?=,? (?:would|key))", re.DOTALL)
_ANY = re.compile(r"'.*'", re.DOTALL)


def meaning(number: int, text: str) -> KnownError:
    """Return what an error asks for."""
    known = MEANINGS.get(number, KnownError(_REFUSED, ""))
    lowered = text.lower()
    return next((one for part, one in BY_TEXT.get(number, ()) if part in lowered), known)


def describe(number: int, text: str) -> str:
    """Return the server's message in one line, without row values."""
    if number == 1644:  # its words are the trigger's, which may name anything
        text = "refused by a trigger or routine"
    elif number in _QUOTES:
        for pattern in (_OF_COLUMN, _OF_RECORD, _ANY):
            text, times = pattern.subn("…", text)
            if times:
                break
    words = " ".join(text.split())
    return f"{words} [{number}]" if number else words


def translate(
    error: BaseException, doing: str, table: TableId | None = None, key: Mapping[str, str | None] | None = None
) -> Exception:
    """Translate an error of the driver or of the socket. Without a table a conflict is a TargetError."""
    if isinstance(error, AnabranchError):
        return _of_target(error, doing)
    if (tls := tls_error(error)) is not None:
        if isinstance(tls, CUT):
            return TargetUnavailable(f"{doing}: the line broke: {plain(tls)}")
        return TargetError(f"{doing}: TLS failed: {plain(tls)}", hint=tls_hint(str(tls)))
    if isinstance(error, OSError):
        return TargetUnavailable(f"{doing}: the line broke: {error or type(error).__name__}")
    if isinstance(error, RuntimeError):  # PyMySQL: the package `cryptography` is missing
        return TargetError(f"{doing}: the driver cannot log in: {error}", hint=f"{install_hint('mysql')}; or use TLS")
    return _of_number(*number_and_text(error), doing, table, key)


def _of_number(
    number: int, text: str, doing: str, table: TableId | None, key: Mapping[str, str | None] | None
) -> Exception:
    kind, _, hint = meaning(number, text)
    if number == 2026 or (number in (2003, 2013) and "SSL" in text and "EOF" not in text):
        kind, hint = _REFUSED, tls_hint(text)
    what = f"{doing}: {describe(number, text)}"
    if grant := database_grant(number, text):
        refused = TargetError(what, hint=grant)
        refused.code = NOT_ADMITTED
        return refused
    if number == LOCKED and (who := said()):
        hint = f"{hint}: {who}"
    if kind is _CONFLICT and table is not None:
        from anabranch.contracts import Conflict  # all contracts come with it: not for who only asks

        return Conflict(table, what + (f" — {hint}" if hint else ""), key, is_taken=number in TAKEN)
    return WAITED_FOR.get(kind, TargetError)(what, hint=hint, table=str(table) if table else None)


def _of_target(error: AnabranchError, doing: str) -> AnabranchError:
    """Return an error of our tree; one that speaks of a source, from what both ends share, as one of the target."""
    if not isinstance(error, SourceError):
        return error
    return TargetError(f"{doing}: {error.message}", hint=error.hint)


def database_grant(number: int, text: str) -> str:
    """Return the statement that lets the user into a database which it may not enter; "" for every other error."""
    found = re.search(r"user '(.*)'@'(.*)' to database '(.*)'", text)
    if number != 1044 or found is None:
        return ""
    database = found[3].replace("`", "``")
    return f"GRANT ALL ON `{database}`.* TO '{found[1]}'@'{found[2]}'"


@contextmanager
def translated(
    doing: str, source_table: TableId | None = None, key: Mapping[str, str | None] | None = None
) -> Iterator[None]:
    """Turn errors of the driver inside the block into ours; `doing` says what was being done, `key` with which row."""
    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        raise translate(error, doing, source_table, key) from None


@contextmanager
def connecting(doing: str) -> Iterator[None]:
    """Turn whatever keeps a connection from being made into errors of ours: also what both ends share says of a source."""
    try:
        yield
    except (pymysql.err.Error, OSError, RuntimeError, SourceError) as error:
        raise translate(error, doing) from None
