"""The view `kafkaoffset` in the database that is named as the job's user: the progress of jobs with the names and order of
columns that programs for exBase know.

It is over `anabranch.checkpoint`, so that it needs no writes, and known by that; whatever else has its name stays. What does
not live here: the checkpoint (`apply.py`), when the view is made and removed (`store.py`, `removal.py`).
"""

from __future__ import annotations

import pymysql

from anabranch.connectors.mysql.target.migrate import DENIED
from anabranch.connectors.mysql.target.session import Connection, ask, logged, one, quoted, run
from anabranch.errors import StateError

NAME = "kafkaoffset"
RIGHTS = ("SELECT", "CREATE", "CREATE VIEW", "SHOW VIEW", "DROP")  # on the user's own database
# Of `repl@host` what is in front of the last @. https://dev.mysql.com/doc/refman/8.0/en/information-functions.html#function_user
OWN = "SELECT LEFT(USER(), CHAR_LENGTH(USER()) - CHAR_LENGTH(SUBSTRING_INDEX(USER(), '@', -1)) - 1)"
# exBase keeps its numbers as text at a MySQL; 20000 characters are a MEDIUMTEXT.
CREATE = """
CREATE VIEW {view} AS
SELECT CAST(CONCAT(`job`, '#incremental') AS CHAR(128)) AS `jobid`, CAST(NULL AS CHAR(64)) AS `topic`,
       CAST(`sequence` AS CHAR(20000)) AS `lastoffset`, CAST(NULL AS CHAR(20000)) AS `lastsuboffset`,
       CAST(CASE WHEN `position` REGEXP '^[0-9A-F]+/[0-9A-F]+$'
                 THEN CONV(SUBSTRING_INDEX(`position`, '/', 1), 16, 10) * 4294967296
                      + CONV(SUBSTRING_INDEX(`position`, '/', -1), 16, 10) END AS CHAR(20000)) AS `last_scn_number`,
       CAST(NULL AS CHAR(20000)) AS `scnnumber`, CAST(NULL AS CHAR(128)) AS `transaction_id`,
       CAST(NULL AS DATETIME(6)) AS `applytime`, CAST(NULL AS DATETIME) AS `updatetime`, `position` AS `commitposition`
  FROM `anabranch`.`checkpoint`
"""
SEEN = f"SELECT TABLE_TYPE = 'VIEW' FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = '{NAME}'"
OURS = f"""
SELECT TABLE_SCHEMA FROM information_schema.VIEWS WHERE TABLE_NAME = '{NAME}'
   AND VIEW_DEFINITION LIKE '%%`anabranch`.`checkpoint`%%'
"""


def own_database(connection: Connection) -> str:
    """Return the name of the database that exBase keeps its tables in: the user's."""
    return str(one(connection, OWN))


def is_shown(connection: Connection) -> bool | None:
    """Return whether the view is there; None where something else has its name."""
    schema = own_database(connection)
    if one(connection, SEEN, schema) is None:
        return False
    return True if schema in shown_in(connection) else None


def shown_in(connection: Connection) -> list[str]:
    """Return the databases that have a view of ours, as far as the user sees them."""
    return [str(schema) for (schema,) in ask(connection, OURS)]


def taken(connection: Connection) -> tuple[str, str]:
    """Return message and hint about something else of that name."""
    place = f"{quoted(own_database(connection))}.{quoted(NAME)}"
    hint = f"RENAME TABLE {place} TO {place[:-1]}_before`, or leave [compat] exbase out"
    return f"{place} is there, and is no view of ours", hint


def show(connection: Connection) -> None:
    """Make the view, under the caller's lock. Raises StateError where something else has its name."""
    found = is_shown(connection)
    if found is None:
        message, hint = taken(connection)
        raise StateError(message, hint=hint)
    if not found:
        schema = quoted(own_database(connection))
        with logged(connection):
            run(connection, f"CREATE DATABASE IF NOT EXISTS {schema}")
            run(connection, CREATE.format(view=f"{schema}.{quoted(NAME)}"))


def hide(connection: Connection) -> None:
    """Remove views of ours; one that the user may not remove stays, without rows."""
    for schema in shown_in(connection):
        try:
            run(connection, f"DROP VIEW IF EXISTS {quoted(schema)}.{quoted(NAME)}")
        except pymysql.err.Error as error:
            if error.args[0] not in DENIED:
                raise
