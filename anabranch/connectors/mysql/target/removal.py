"""Remove what a job has in the database `anabranch`, and with the last job the database.

What does not live here: replicated tables, which nobody takes away here, also where they stand in this database.
"""

from __future__ import annotations

import pymysql

from anabranch.connectors.mysql.target.migrate import DENIED
from anabranch.connectors.mysql.target.progress_view import hide
from anabranch.connectors.mysql.target.session import Connection, logged, one, quoted, run, transaction
from anabranch.connectors.mysql.target.stage_sweep import sweep
from anabranch.connectors.mysql.target.state_session import only_one

TABLES = (
    "load_chunk",
    "table_state",
    "checkpoint",
    "job",
    "taken_off",
    "conflict",
    "skipped",
    "set_aside",
    "trace",
)  # rows of jobs
LATER = ("cutover", "verified", "pair_note", "ddl", "applied")  # the same; a release before may not have made them
HAS = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = %s"
# `meta` goes first: who is stopped on the way has left no state, and the next `prepare` makes what is missing.
ALL = ("meta", *TABLES, *LATER)
# Whatever somebody else keeps there
OTHERS = """
SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch'
UNION ALL SELECT 1 FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'anabranch'
UNION ALL SELECT 1 FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'anabranch' LIMIT 1
"""


def remove(connection: Connection, job: str) -> None:
    """Remove the rows of a job and its staging tables; with the last job our tables, and the database if it is empty then."""
    with only_one(connection):
        sweep(connection, job)
        mine = [*TABLES, *(name for name in LATER if one(connection, HAS, name))]
        with transaction(connection):
            for name in mine:
                run(connection, f"DELETE FROM `anabranch`.{quoted(name)} WHERE `job` = %s", job)
        if any(one(connection, f"SELECT 1 FROM `anabranch`.{quoted(name)} LIMIT 1") for name in mine):
            return
        with logged(connection):
            _remove_state(connection)


def _remove_state(connection: Connection) -> None:
    hide(connection)
    for name in ALL:
        run(connection, f"DROP TABLE IF EXISTS `anabranch`.{quoted(name)}")
    if one(connection, OTHERS) is None:
        try:
            run(connection, "DROP DATABASE `anabranch`")
        except pymysql.err.Error as error:
            if error.args[0] not in DENIED:
                raise
