"""Turns of owners: the checkpoint's compare-and-set, and the lock by which the sessions of an owner are found (K9).

A session that may write holds the lock of its job and owner. Who takes over ends whoever holds the lock of the owner before,
and waits until that session is gone: with it goes what it had not committed. Where it may not be ended, its next
compare-and-set finds another owner. What does not live here: reading the row for others (`jobs.py`).
https://dev.mysql.com/doc/refman/8.0/en/locking-functions.html · https://dev.mysql.com/doc/refman/8.0/en/kill.html
"""

from __future__ import annotations

import hashlib
import time

import pymysql

from anabranch.connectors.mysql.target.jobs import READ_CHECKPOINT, checkpoint_of
from anabranch.connectors.mysql.target.jobs import TARGET as TARGET
from anabranch.connectors.mysql.target.session import Connection, ask, one, run, session_name
from anabranch.errors import StateError, TargetBusy
from anabranch.model.state import Checkpoint

OWN = "UPDATE `anabranch`.`checkpoint` SET `owner` = %s WHERE `job` = %s AND `target` = %s"
MOVE = """
UPDATE `anabranch`.`checkpoint` SET `epoch` = %s, `sequence` = %s, `position` = %s, `commit_time` = %s
 WHERE `job` = %s AND `target` = %s AND `owner` = %s AND `epoch` = %s AND `sequence` = %s
"""
# The share lock waits for whoever moves or claims the checkpoint, and they for it; in READ COMMITTED a plain SELECT takes none.
# https://dev.mysql.com/doc/refman/8.0/en/innodb-locking-reads.html
NOTE = """
INSERT INTO `anabranch`.`applied` (`job`, `target`, `sequence`, `position`)
SELECT `job`, `target`, %s, %s FROM `anabranch`.`checkpoint`
 WHERE `job` = %s AND `target` = %s AND `owner` = %s AND `epoch` = %s AND `sequence` = %s LOCK IN SHARE MODE
"""
FORGET = "DELETE FROM `anabranch`.`applied` WHERE `job` = %s AND `target` = %s AND `sequence` <= %s"
HOLDER = "SELECT IS_USED_LOCK(%s)"
LOCK, LOCK_WAIT_S = "SELECT GET_LOCK(%s, %s)", 10
END_WAIT_S = 10.0
MOST_APPLIERS = 16  # of an owner, of this release or a later one
GONE, NOT_OURS = 1094, 1095  # no such session; it is another user's


def lock(connection: Connection, name: str) -> None:
    """Take the lock of a job's owner, from a session of ours that lost its line, if there is one."""
    end_holder(connection, name)
    if one(connection, LOCK, name, LOCK_WAIT_S) != 1:
        raise TargetBusy(
            "a session of this job that lost its line is still at the target", hint="tried again by itself"
        )


def end_holder(connection: Connection, name: str) -> None:
    """End the session that holds a lock, and wait until it is gone. Where we may not, its compare-and-set fails."""
    give_up = time.monotonic() + END_WAIT_S
    while (holder := one(connection, HOLDER, name)) is not None and holder != connection.thread_id():
        try:
            run(connection, f"KILL {int(holder)}")
        except pymysql.err.Error as error:
            if error.args[0] == NOT_OURS:
                return
            if error.args[0] != GONE:
                raise
        if time.monotonic() > give_up:
            return
        time.sleep(0.02)


def applier_name(job: str, owner: str, number: int) -> str:
    """Return the name of a session of an owner beside the writer's own, and of its lock. Owners have names as long as a lock's
    may be, so a digest stands for owner and number."""
    return session_name(job, hashlib.sha256(f"{owner}.{number}".encode()).hexdigest()[:32])


def end_holders(connection: Connection, job: str, owner: str) -> None:
    """End all sessions of an owner: the writer's own, and those of its appliers."""
    for name in (session_name(job, owner), *(applier_name(job, owner, number) for number in range(MOST_APPLIERS))):
        end_holder(connection, name)


def checkpoint(connection: Connection, job: str) -> Checkpoint:
    """Return the job's row. Raises StateError where there is none."""
    rows = ask(connection, READ_CHECKPOINT, job, TARGET)
    if not rows:
        raise StateError("the target has no checkpoint of this job", job=job, hint="load the job's tables first")
    return checkpoint_of(rows[0])


def own(connection: Connection, job: str, owner: str) -> Checkpoint:
    """Put an owner into the row, and return it."""
    run(connection, OWN, owner, job, TARGET)
    return checkpoint(connection, job)


def move(connection: Connection, job: str, now: Checkpoint, then: Checkpoint) -> bool:
    """Move the row from `now` to `then`; False, and nothing was done, where it stands elsewhere or is another owner's."""
    there = (then.epoch, then.position.sequence, then.position.native, then.commit_time)
    return run(connection, MOVE, *there, job, TARGET, now.owner, now.epoch, now.position.sequence) == 1
