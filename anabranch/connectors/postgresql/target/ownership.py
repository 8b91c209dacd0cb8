"""Ownership of a job at a PostgreSQL target: the row of a job's checkpoint, by its owner, its epoch and its sequence.

What does not live here: what an epoch does (apply.py), many small transactions (do_block.py, pipelined.py).
"""

from __future__ import annotations

import time
from typing import Any

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.target.store import READ_CHECKPOINT, TARGET, checkpoint_of
from anabranch.errors import StateError
from anabranch.model.state import Checkpoint

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()"
TERMINATE = f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) AS sessions"
TERMINATE_WAIT_S = 5.0
OWN = """
UPDATE anabranch.checkpoint SET owner = %s WHERE job = %s AND target = %s
RETURNING owner, epoch, sequence, position, commit_time
"""
MOVE = """
UPDATE anabranch.checkpoint SET epoch = %s, sequence = %s, position = %s, commit_time = %s
 WHERE job = %s AND target = %s AND owner = %s AND epoch = %s AND sequence = %s
"""


def checkpoint(connection: Connection, job: str) -> Checkpoint:
    """Return the job's checkpoint. Raises StateError where it has none."""
    return _required(connection.execute(READ_CHECKPOINT, [job, TARGET]).fetchone(), job)


def own(connection: Connection, job: str, owner: str) -> Checkpoint:
    """Make the checkpoint the owner's own, and return it. Raises StateError where the job has none."""
    return _required(connection.execute(OWN, [owner, job, TARGET]).fetchone(), job)


def move(connection: Connection, job: str, now: Checkpoint, then: Checkpoint) -> psycopg.Cursor[Any]:
    """Ask to move the checkpoint; by the answer one row was changed, or the checkpoint is not at `now`."""
    there = [then.epoch, then.position.sequence, then.position.native, then.commit_time]
    here = [job, TARGET, now.owner, now.epoch, now.position.sequence]
    return connection.execute(MOVE, [*there, *here], prepare=True)


def end_holder(connection: Connection, name: str) -> None:
    """End a previous owner's sessions and wait until they are gone. Where we may not, its compare-and-set fails."""
    try:
        connection.execute(TERMINATE, [name])
        connection.commit()
    except psycopg.errors.InsufficientPrivilege:
        connection.rollback()
        return
    give_up = time.monotonic() + TERMINATE_WAIT_S
    while connection.execute(SESSIONS, [name]).fetchone() and time.monotonic() < give_up:
        connection.commit()
        time.sleep(0.02)
    connection.commit()


def _required(row: tuple[Any, ...] | None, job: str) -> Checkpoint:
    if row is None:
        raise StateError("the target has no checkpoint of this job", job=job, hint="load the job's tables first")
    return checkpoint_of(row)
