"""Errors of PostgreSQL, translated: one table from SQLSTATE to waiting, conflict or refusal.

Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html. Row values never get into a message: of a data
exception only the words are kept, of a constraint its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

import psycopg
from psycopg import sql

from anabranch.errors import NOT_ADMITTED, TargetBusy, TargetError, TargetFull, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.waits import said

LOCKED = "55P03"  # a lock was not given in time
TAKEN = frozenset({"23505", "23P01"})  # another row has values that have to be unique, or that exclude these


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


_LOAD = "load the table again"
_OTHER_KIND = (
    "the name belongs to something else at the target, perhaps a view: rename it, or choose another target name"
)
_TYPE = (
    "change the column at the target to a type that holds the value (ALTER TABLE … ALTER COLUMN … TYPE …); for tables that"
    " the load creates, choose the type in [types.map]"
)
_RESULT = (
    f"{_TYPE}; a column that is computed there: ALTER TABLE … DROP COLUMN … at the target, or [[tables]] columns.drop"
)
OTHER_KIND_OF_SERVER = (
    "no PostgreSQL answers there, a MySQL or MariaDB perhaps: check host and port of the URL, and what it begins with"
)
_POOLER = "connect to the server itself, or to a pooler that gives a session its own connection"
PASSED_ON = "connect to the server itself, or to a pooler that passes the settings of the startup packet (options) on"
_DAMAGED = "the server says that its data is damaged: look at its log, REINDEX or restore it"

# SQLSTATE, or its first characters; the longest entry wins. What is not here is Meaning.REFUSED without a hint.
MEANINGS: dict[str, KnownError] = {
    "08": KnownError(Meaning.AWAY, "the line is lost, or did not come about"),
    "21": KnownError(Meaning.CONFLICT, "one row would be changed twice"),
    "22": KnownError(Meaning.CONFLICT, "a value does not fit its column", _TYPE),
    "22001": KnownError(Meaning.CONFLICT, "a value is too long for its column", _RESULT),
    "22003": KnownError(Meaning.CONFLICT, "a number does not fit its column", _RESULT),
    "22021": KnownError(Meaning.CONFLICT, "a zero character in text", '[types] nul = "strip" removes zero characters'),
    "22P02": KnownError(
        Meaning.CONFLICT,
        "a type of the target does not know the value",
        "if the type is an enum that got a label at the source: ALTER TYPE … ADD VALUE … at the target, as at the source, then"
        " start again; if a label had this name for a moment: load the table again",
    ),
    "22P05": KnownError(
        Meaning.CONFLICT,
        "a zero character in JSON",
        '[target.options] json = "json" or "text" keeps zero characters in JSON',
    ),
    "23": KnownError(Meaning.CONFLICT, "a constraint of the target is broken"),
    "23503": KnownError(
        Meaning.CONFLICT,
        "a foreign key of the target is broken",
        "the source wrote the row with its foreign keys off, or only the target has this key: insert the missing parent row,"
        " or drop the key at the target; for a user who may set session_replication_role the key is not checked",
    ),
    "23514": KnownError(
        Meaning.CONFLICT,
        "a check of the target is broken",
        "if the source has no such check any more: ALTER TABLE … DROP CONSTRAINT … at the target",
    ),
    "25006": KnownError(
        Meaning.AWAY,
        "the server, or its session, is read-only",
        "the target is read-only: point the job at the primary",
    ),
    "25P03": KnownError(Meaning.AWAY, "idle in a transaction for too long"),
    "25P04": KnownError(Meaning.AWAY, "a transaction took too long (transaction_timeout)"),
    "26": KnownError(Meaning.REFUSED, "a prepared statement is gone", _POOLER),
    "28": KnownError(Meaning.REFUSED, "the login is refused", "check user, password and pg_hba.conf of the target"),
    "3D": KnownError(Meaning.REFUSED, "no such database", "create the target database first"),
    "3F": KnownError(Meaning.REFUSED, "no such schema", "the target's schema is gone: load the table again"),
    "40": KnownError(Meaning.BUSY, "rolled back because of others: serialization failure"),
    "40P01": KnownError(Meaning.BUSY, "deadlock"),
    "42501": KnownError(
        Meaning.REFUSED, "a right is missing", "grant the job's user this right; preflight lists the statements"
    ),
    "42703": KnownError(
        Meaning.REFUSED, "no such column", f"the target table was changed: bring the column back, or {_LOAD}"
    ),
    "42804": KnownError(Meaning.REFUSED, "a column has another type", f"the target table was changed: {_LOAD}"),
    "42809": KnownError(Meaning.REFUSED, "not a table", _OTHER_KIND),
    "428C9": KnownError(
        Meaning.REFUSED,
        "a column that is GENERATED ALWAYS",
        "ALTER TABLE … ALTER COLUMN … SET GENERATED BY DEFAULT at the target (a computed column: DROP EXPRESSION)",
    ),
    "42P01": KnownError(Meaning.REFUSED, "no such table", "the target table is gone: load it again"),
    "42P05": KnownError(Meaning.REFUSED, "a prepared statement is there already", _POOLER),
    "42P07": KnownError(
        Meaning.REFUSED,
        "the name is taken",
        "something else has this name: rename it at the target, or the table in the job file ([[rules]] target)",
    ),
    "42P10": KnownError(
        Meaning.REFUSED,
        "no unique key to find rows by",
        "the target table needs a primary key on exactly the source's key columns",
    ),
    "44": KnownError(Meaning.CONFLICT, "a view's check option"),
    "53": KnownError(Meaning.AWAY, "the server lacks memory or locks"),
    "53100": KnownError(Meaning.FULL, "the disk is full", "make room on the target's disk"),
    "53300": KnownError(
        Meaning.AWAY,
        "too many connections",
        "raise max_connections, or the user's limit, at the target, or lower [load] parallel",
    ),
    "53400": KnownError(Meaning.REFUSED, "a limit of the configuration", "raise temp_file_limit at the target"),
    "54": KnownError(Meaning.CONFLICT, "a limit of the program, e.g. an index entry that is too large"),
    "55000": KnownError(
        Meaning.REFUSED,
        "the table is not in a state for this",
        "a published table needs a key for updates: ALTER TABLE … REPLICA IDENTITY FULL at the target",
    ),
    "55006": KnownError(Meaning.BUSY, "in use by another session"),
    "55P03": KnownError(
        Meaning.BUSY, "a lock was not given in time", "another session holds a lock on the target table"
    ),
    "57": KnownError(Meaning.AWAY, "the server ends the session, shuts down or starts up"),
    "57014": KnownError(
        Meaning.BUSY,
        "cancelled by an administrator or a time limit",
        "an administrator or a time limit at the target ends our statements: raise that limit for the job's user",
    ),
    "57P04": KnownError(Meaning.REFUSED, "the database was dropped", "create the target database first"),
    "58": KnownError(Meaning.AWAY, "an error of the server's system", "look at the log of the target's server"),
    "72": KnownError(Meaning.BUSY, "the snapshot is too old"),
    "P0": KnownError(
        Meaning.CONFLICT,
        "raised by a trigger or function of the target",
        "correct the row, or the trigger or function at the target that raised this",
    ),
    "XX": KnownError(Meaning.REFUSED, "an internal error of the server", "look at the log of the target's server"),
    "XX001": KnownError(Meaning.REFUSED, "damaged data", _DAMAGED),
    "XX002": KnownError(Meaning.REFUSED, "a damaged index", _DAMAGED),
}

# a connection that is refused carries no SQLSTATE, only the server's or the library's words; the first that are found count
REFUSALS: dict[str, str] = {
    "invalid response to SSL negotiation": "OTHER",  # this and the next one: a server of another kind, whose greeting it is
    "expected authentication request": "OTHER",
    "too many clients": "53300",
    "too many connections": "53300",  # also for role "…", for database "…"
    "connection slots are reserved": "53300",
    "no more connections allowed": "53300",  # this and the next two: PgBouncer
    "unsupported startup parameter": "POOLER",
    "no such database": "3D",
    "authentication failed": "28",
    "no password supplied": "28",
    "no pg_hba.conf entry": "28",
    "permission denied for database": "42501",
    "permission denied": "28",
    'role "': "28",
    "is not currently accepting connections": "08",
    'database "': "3D",
    "SSL SYSCALL error": "08",  # a line that was cut: https://github.com/postgres/postgres/blob/master/src/interfaces/libpq/fe-secure-openssl.c
    "closed unexpectedly": "08",
    "unexpected eof": "08",
    "certificate": "TLS",
    "SSL": "TLS",
}
UNSTATED = {"POOLER": PASSED_ON, "OTHER": OTHER_KIND_OF_SERVER}
# The same for TLS that did not come about: https://www.postgresql.org/docs/current/libpq-ssl.html
TLS_FAILED: dict[str, str] = {
    "does not match host name": "the target's certificate is for another host name: connect by a name that is in it, or "
    "set ssl_mode=verify_ca in the URL",
    "verify failed": "the target's certificate is not signed by the authority in ssl_ca: name the right file in the URL",
    "does not support SSL": "switch TLS on at the target (ssl = on), or set ssl_mode=disabled in the URL",
    "does not exist": "name a file in ssl_ca that is there",
}


def meaning(error: psycopg.Error) -> tuple[Meaning, str]:
    """Return what an error asks for, with a hint. Without a SQLSTATE it is a zero character that the driver will not
    send, or the connection.
    """
    state = state_of(error)
    if state in UNSTATED:
        return Meaning.REFUSED, UNSTATED[state]
    if state == "TLS":
        hint = next(
            (hint for words, hint in TLS_FAILED.items() if words in str(error)), "check ssl_mode, ssl_ca, ssl_cert"
        )
        return Meaning.REFUSED, hint
    return _known(state)


def state_of(error: psycopg.Error) -> str:
    """Return the SQLSTATE; where there is none, what the words of the server or the library stand for."""
    if error.sqlstate is None and isinstance(error, psycopg.DataError):
        return "22021"
    return error.sqlstate or next((code for words, code in REFUSALS.items() if words in str(error)), "08")


def _known(state: str) -> tuple[Meaning, str]:
    found = MEANINGS.get(state) or MEANINGS.get(state[:2])
    return (found.meaning, found.hint) if found else (Meaning.REFUSED, "")


def describe(error: psycopg.Error) -> str:
    """Return the server's message in one line, without row values."""
    state, message = error.sqlstate or "", error.diag.message_primary or str(error)
    if state.startswith("22") or (not state and isinstance(error, psycopg.DataError)):
        message = re.sub(r'".*"', "…", message, flags=re.DOTALL)
    elif state.startswith("P0"):
        message = f"refused in {(error.diag.context or 'a trigger').splitlines()[0]}"
    column = error.diag.column_name or _column_of_copy(error.diag.context or "")
    words = " ".join(message.split()) + (f" (column {column})" if column else "")
    return f"{words} [{state}]" if state else words


def _column_of_copy(context: str) -> str:
    found = re.match(r"COPY [^,]*, line \d+, column ([^:]+)", context)
    return found[1] if found else ""


def translate(
    error: psycopg.Error, doing: str, table: TableId | None = None, key: Mapping[str, str | None] | None = None
) -> Exception:
    """Translate the driver's error. Without a table a conflict is a TargetError."""
    kind, hint = meaning(error)
    if "row-level security" in str(error):  # our sessions do not let policies filter (settings.py)
        hint = "ALTER ROLE … BYPASSRLS for the job's user at the target: a policy would hide rows from it; preflight names it"
    what = f"{doing}: {describe(error)}"
    if grant := connect_grant(error):
        refused = TargetError(what, hint=grant)
        refused.code = NOT_ADMITTED
        return refused
    if error.sqlstate == LOCKED and (who := said()):
        hint = f"{hint}: {who}"
    if kind is Meaning.CONFLICT and table is not None:
        from anabranch.contracts import Conflict  # all contracts come with it: not for who only asks

        return Conflict(table, what + (f" — {hint}" if hint else ""), key, is_taken=error.sqlstate in TAKEN)
    return WAITED_FOR.get(kind, TargetError)(what, hint=hint, table=str(table) if table else None)


def connect_grant(error: psycopg.Error) -> str:
    """Return the statement that lets the user into a database which it may not enter; "" for every other error."""
    found = re.search(r'permission denied for database "(.*)"', str(error))
    if found is None:
        return ""
    user = error.pgconn.user.decode() if error.pgconn else ""
    role = sql.Identifier(user).as_string(None) if user else "the job's user"
    return f"GRANT CONNECT ON DATABASE {sql.Identifier(found[1]).as_string(None)} TO {role}"


def missing_parent(error: psycopg.Error) -> dict[str, str | None]:
    """Return the value of a foreign key that has no row to refer to, as the error's detail says in any language:
    (column)=(value).
    """
    found = re.search(r"\((.+?)\)=\((.*)\)", error.diag.message_detail or "", re.DOTALL)
    if error.sqlstate != "23503" or not found:
        return {}
    names, values = found[1].split(", "), found[2].split(", ")
    return dict(zip(names, values, strict=True)) if len(names) == len(values) else {}


@contextmanager
def translated(doing: str, table: TableId | None = None, key: Mapping[str, str | None] | None = None) -> Iterator[None]:
    """Turn psycopg errors inside the block into ours; `doing` says what was being done, `key` with which row."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, doing, table, key) from None
