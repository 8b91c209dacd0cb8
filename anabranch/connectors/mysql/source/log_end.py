"""The server's identity, and the end of its binary log: asked with the statements of each family and version.

What does not live here: the text forms and order of places (`positions.py`), the log's content (`capture.py`).
"""

from __future__ import annotations

from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.connection import ask, family, variables
from anabranch.connectors.mysql.identity import NAMES, identity_of
from anabranch.connectors.mysql.source.positions import Place, gtid_set
from anabranch.connectors.mysql.versions import knows
from anabranch.errors import SourceError

# https://mariadb.com/kb/en/gtid/#gtid_binlog_pos
EXECUTED = {"mysql": "SELECT @@GLOBAL.gtid_executed", "mariadb": "SELECT @@GLOBAL.gtid_binlog_pos"}
TRIES = 5  # to read place and set without a commit between them


def identity(connection: pymysql.Connection) -> str:
    """Return text that is equal for the same server."""
    return identity_of(family(connection), variables(connection, *NAMES))


def server_id(connection: pymysql.Connection) -> int:
    """Return the id that this server writes into its events. It can be changed while the server runs."""
    return int(variables(connection, "server_id")["server_id"])


def log_status(connection: pymysql.Connection) -> tuple[str, ...]:
    """Return the row of SHOW MASTER STATUS: file, offset, filters. Raises SourceError when there is no binary log."""
    is_renamed = knows(connection, "binary log status")
    rows = ask(connection, "SHOW BINARY LOG STATUS" if is_renamed else "SHOW MASTER STATUS")
    if not rows:
        raise SourceError(
            "the source has no binary log", hint="set log_bin in the server's configuration and restart it"
        )
    return tuple("" if value is None else str(value) for value in rows[0])


def log_sizes(connection: pymysql.Connection) -> dict[str, int]:
    """Return bytes of every file of the log that the server has.
    https://dev.mysql.com/doc/refman/8.0/en/show-binary-logs.html
    """
    return {str(row[0]): int(row[1]) for row in ask(connection, "SHOW BINARY LOGS")}


def is_filtered(connection: pymysql.Connection) -> bool:
    """Return whether the server leaves some databases out of its log (binlog_do_db, binlog_ignore_db)."""
    return any(log_status(connection)[2:4])


def place_at(connection: pymysql.Connection, file: str, offset: int, gtid: str = "") -> Place:
    """Return a place in this server's log."""
    return Place(identity(connection), family(connection), file, offset, gtid)


def log_end(connection: pymysql.Connection) -> Place:
    """Return the end, without GTIDs."""
    file, offset, *_ = log_status(connection)
    return place_at(connection, file, int(offset))


def executed(connection: pymysql.Connection) -> str:
    """Return the set of everything executed, normalised; "" without GTIDs."""
    if not knows(connection, "GTIDs"):
        return ""
    kind = family(connection)
    return str(gtid_set(kind, str(ask(connection, EXECUTED[kind])[0][0] or "")))


def log_end_with_gtids(connection: pymysql.Connection) -> Place:
    """Return the end with the set of what is before it: no commit came between the two answers.

    On a server that is never quiet: the set read first, which is contained in the place. Where gtid_mode is not ON, there
    may be more before it than the set names."""
    for _ in range(TRIES):
        before = executed(connection)
        place = log_end(connection)
        if executed(connection) == before:
            break
    is_anonymous = place.family == "mysql" and variables(connection, "gtid_mode").get("gtid_mode") != "ON"
    return replace(place, gtid=before, anonymous=is_anonymous)
