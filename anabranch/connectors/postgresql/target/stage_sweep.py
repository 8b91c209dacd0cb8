"""Staging tables of executors that nobody fills any more: their names, and removing them.

What does not live here: making and filling them (`stage.py`).
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, job_digest

SCHEMA = "anabranch"
LEFTOVERS = "SELECT tablename FROM pg_tables WHERE schemaname = 'anabranch' AND starts_with(tablename, %s)"
SWEEP_WAIT = "SET LOCAL lock_timeout = '100ms'"


def stage_prefix(job: str) -> str:
    """Return what the names of a job's staging tables begin with."""
    return f"stage_{job_digest(job)}_"


def sweep(connection: Connection, job: str) -> None:
    """Remove a job's staging tables that no running attempt holds. Needs a connection outside a transaction."""
    for (name,) in connection.execute(LEFTOVERS, [stage_prefix(job)]).fetchall():
        try:
            with connection.transaction():
                connection.execute(SWEEP_WAIT)
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, name)))
        except psycopg.errors.LockNotAvailable:
            continue  # a task is still writing to it: the next sweep finds it
