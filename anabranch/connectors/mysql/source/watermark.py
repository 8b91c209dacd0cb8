"""Our one table at the source: a row of it, committed, proves what the engine has taken over from the log (K2).

Only a MySQL without GTIDs needs it. What does not live here: when it is written (`snapshot.py`).
"""

from __future__ import annotations

from contextlib import closing

import pymysql

from anabranch.connectors.mysql.connection import ask, connect
from anabranch.connectors.mysql.versions import knows
from anabranch.errors import AnabranchError
from anabranch.model.endpoint import Endpoint

SCHEMA, TABLE = "anabranch", "watermark"
SLOTS = 64  # rows: loaders that write at the same moment do not wait for each other
_CREATE = (
    f"CREATE DATABASE IF NOT EXISTS {SCHEMA}",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{TABLE} (slot INT PRIMARY KEY, written {{type}} NOT NULL) ENGINE=InnoDB",
)
_WRITE = f"REPLACE INTO {SCHEMA}.{TABLE} VALUES (CONNECTION_ID() % {SLOTS}, {{now}})"
# A row that is written as it was is no change, and is not logged: what is written has to differ each time.
_CLOCK = {"type": "TIMESTAMP(6)", "now": "CURRENT_TIMESTAMP(6)"}
_COARSE = {"type": "CHAR(36) CHARACTER SET ascii", "now": "UUID()"}  # where clocks stop at seconds
# ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR; ER_LOCK_DEADLOCK with the DROP, whose victim is the write: nothing is written.
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
AGAIN = (1146, 1049, 1213)
TRIES = 10
_TABLES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"


def write(connection: pymysql.Connection) -> None:
    """Write the row; committed when this returns. The table is created only when it is not there, which needs one more
    right.

    Jobs of one source share it, and one of them may be dropped at this moment: then it is created again.
    """
    kind = _CLOCK if knows(connection, "fractions of seconds") else _COARSE
    for tries in range(TRIES):
        try:
            if not _exists(connection):
                for statement in _CREATE:
                    ask(connection, statement.format(**kind))
            ask(connection, _WRITE.format(**kind))
        except AnabranchError as error:
            code = error.__cause__.args[0] if isinstance(error.__cause__, pymysql.err.Error) else None
            if tries == TRIES - 1 or code not in AGAIN:
                raise
        else:
            return


def remains(endpoint: Endpoint, remove: bool) -> list[str]:
    """Return the table, if it is there; with `remove` it is dropped, with its database when nothing else is in it."""
    with closing(connect(endpoint)) as connection:
        if not _exists(connection):
            return []
        if remove:
            ask(connection, f"DROP TABLE {SCHEMA}.{TABLE}")
            if not ask(connection, _TABLES, SCHEMA):
                ask(connection, f"DROP DATABASE {SCHEMA}")
    return [f"table {SCHEMA}.{TABLE}"]


def _exists(connection: pymysql.Connection) -> bool:
    return (TABLE,) in ask(connection, _TABLES, SCHEMA)
