"""Staging tables of executors that nobody fills any more, or that an epoch has taken: their names, and removing them.

Dropping a table commits what is open: all of it stands between epochs. What does not live here: making, filling and merging
them (`stage.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

import pymysql

from anabranch.connectors.mysql.target.session import Connection, ask, job_digest, one, run, table_name
from anabranch.model.ids import TableId
from anabranch.rows.net import StagedNet

SCHEMA = "anabranch"
LEFTOVERS = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND LEFT(TABLE_NAME, %s) = %s"
IS_FILLED = "SELECT IS_USED_LOCK(%s)"
WAIT = "SELECT @@SESSION.lock_wait_timeout"
SWEEP_WAIT_S = 1  # seconds, the least that there is
HELD = (1205, 1099)  # somebody is still writing to it, or reading it


def stage_prefix(job: str) -> str:
    """Return what the names of a job's staging tables begin with."""
    return f"stage_{job_digest(job)}_"


def lock_name(attempt: str) -> str:
    """Return the name of the lock that an attempt holds while it fills its tables."""
    return f"anabranch-stage-{attempt}"


def sweep(connection: Connection, job: str) -> None:
    """Remove a job's staging tables that no running attempt fills. Call it between transactions."""
    prefix = stage_prefix(job)
    names = [str(name) for (name,) in ask(connection, LEFTOVERS, SCHEMA, len(prefix), prefix)]
    connection.commit()
    running = {attempt: _is_filled(connection, attempt) for attempt in {_attempt(name, prefix) for name in names}}
    drop(connection, [name for name in names if not running[_attempt(name, prefix)]])


def drop_taken(connection: Connection, taken: Iterable[StagedNet]) -> None:
    """Remove the tables of changes that an epoch has merged. Call it behind the commit."""
    drop(connection, [name for staged in taken for name in staged.counts])


def drop(connection: Connection, names: Iterable[str]) -> None:
    """Remove staging tables. One that somebody holds is left to the next sweep."""
    names = list(names)
    if not names:
        return
    usual = int(one(connection, WAIT))
    run(connection, f"SET SESSION lock_wait_timeout = {SWEEP_WAIT_S}")
    try:
        for name in names:
            _drop(connection, TableId(SCHEMA, name))
    finally:
        if connection.open:
            run(connection, f"SET SESSION lock_wait_timeout = {usual}")


def _drop(connection: Connection, table: TableId) -> None:
    try:
        run(connection, f"DROP TABLE IF EXISTS {table_name(table)}")
    except pymysql.err.Error as error:
        if error.args[0] not in HELD:
            raise


def _attempt(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).partition("_")[0]


def _is_filled(connection: Connection, attempt: str) -> bool:
    return one(connection, IS_FILLED, lock_name(attempt)) is not None
