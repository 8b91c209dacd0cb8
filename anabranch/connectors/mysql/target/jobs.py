"""Jobs at a MySQL target: `anabranch.job`, and the first row of `anabranch.checkpoint`.

What does not live here: the checkpoint's compare-and-set (`apply.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pymysql

from anabranch.connectors.mysql.target.errors import DUPLICATE
from anabranch.connectors.mysql.target.removal import remove
from anabranch.connectors.mysql.target.session import Connection, ask, run, transaction
from anabranch.connectors.mysql.target.state_session import StateSession
from anabranch.connectors.sql.migrations import KNOWS, Migration, newest, version_in_use
from anabranch.errors import StateError, TargetError
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint

TARGET = "target"  # the checkpoint row's name of a job's only target
COLUMNS = ("uuid", "source_identity", "definition")  # of a job; what else it says goes into facts

READ_JOB = "SELECT `uuid`, `source_identity`, `definition`, `facts` FROM `anabranch`.`job` WHERE `job` = %s"
LOCK_JOB = "SELECT `facts` FROM `anabranch`.`job` WHERE `job` = %s FOR UPDATE"
ADD_JOB = """
INSERT INTO `anabranch`.`job` (`uuid`, `source_identity`, `definition`, `facts`, `job`) VALUES (%s, %s, %s, %s, %s)
"""
CHANGE_JOB = """
UPDATE `anabranch`.`job` SET `uuid` = %s, `source_identity` = %s, `definition` = %s, `facts` = %s WHERE `job` = %s
"""
READ_CHECKPOINT = """
SELECT `owner`, `epoch`, `sequence`, `position`, `commit_time` FROM `anabranch`.`checkpoint` WHERE `job` = %s AND `target` = %s
"""
CREATE_CHECKPOINT = """
INSERT INTO `anabranch`.`checkpoint` (`job`, `target`, `sequence`, `position`, `commit_time`) VALUES (%s, %s, %s, %s, %s)
"""


APPLIED = (
    "SELECT `sequence`, `position` FROM `anabranch`.`applied` WHERE `job` = %s AND `target` = %s ORDER BY `sequence`"
)
HAS_APPLIED = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = 'applied'"
BEYOND = "SELECT 1 FROM `anabranch`.`applied` WHERE `job` = %s AND `target` = %s AND `sequence` > %s"
CLUSTERED = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'group_replication_group_name')"
KEEP_OUT = "UPDATE `anabranch`.`meta` SET `version` = %s WHERE `version` < %s"


class MysqlJobs:
    """JobStore of the target. `known`: the migrations that this release knows."""

    def __init__(self, session: StateSession, known: Sequence[Migration]) -> None:
        self._session, self._known = session, known

    def job(self, job: str) -> dict[str, str] | None:
        rows = self._session.rows("read the job", READ_JOB, job)
        if not rows:
            return None
        *columns, facts = rows[0]
        rest = json.loads(facts or "{}")
        rest.pop(KNOWS, None)
        return {**{k: v for k, v in zip(COLUMNS, columns, strict=True) if v is not None}, **rest}

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        rest = {name: value for name, value in facts.items() if name not in COLUMNS}
        rest[KNOWS] = str(newest(self._known))
        row = [*(facts.get(name) for name in COLUMNS), json.dumps(rest, ensure_ascii=False), job]
        with self._session("save the job") as connection:
            try:
                _save(connection, job, facts, row)
            except pymysql.err.IntegrityError as error:  # another process has added the job meanwhile
                if error.args[0] != DUPLICATE:
                    raise
                _save(connection, job, facts, row)

    def checkpoint(self, job: str) -> Checkpoint | None:
        rows = self._session.rows("read the checkpoint", READ_CHECKPOINT, job, TARGET)
        return checkpoint_of(rows[0]) if rows else None

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        row = [job, TARGET, position.sequence, position.native, commit_time]
        with self._session("create the checkpoint") as connection:
            add_once(connection, CREATE_CHECKPOINT, row)

    def applied(self, job: str) -> dict[int, str]:
        doing = "read what is applied beyond the checkpoint"
        if not self._session.rows(doing, HAS_APPLIED):
            return {}
        return {int(sequence): native for sequence, native in self._session.rows(doing, APPLIED, job, TARGET)}

    def begin_notes(self) -> None:
        from anabranch.connectors.mysql.target.preflight_cluster import (
            kind,
        )  # `status` goes without what this brings along

        version = version_in_use(self._known)
        with self._session("keep older releases out") as connection:
            if found := kind(dict(ask(connection, CLUSTERED))):
                hint = '[apply] commit_order = "kept": a claim at another node does not wait for locks at this one'
                raise TargetError(
                    f"the target is a part of a {found}, where commits keep the source's order", hint=hint
                )
            run(connection, KEEP_OUT, version, version)

    def taken_off(self, job: str) -> list[str]:
        from anabranch.connectors.mysql.target import taken_off  # `status` goes without what this brings along

        if not self._session.is_there():
            return []
        with self._session("read the keys that were taken off") as connection:
            return taken_off.statements(connection, job)

    def drop(self, job: str) -> None:
        """Drop the job's rows and staging tables; with the last job our tables and, if nothing else is in it, the database."""
        if not self._session.is_there():
            return
        with self._session("remove the job's state") as connection:
            remove(connection, job)


def checkpoint_of(row: tuple[Any, ...]) -> Checkpoint:
    """Return a row of READ_CHECKPOINT."""
    owner, epoch, sequence, native, commit_time = row
    return Checkpoint(owner, epoch, Position(sequence, native), commit_time)


def is_beyond(connection: Connection, job: str, sequence: int) -> bool:
    """Return whether anything is applied beyond a checkpoint."""
    if not ask(connection, HAS_APPLIED):  # an earlier release has made the state
        return False
    return bool(ask(connection, f"{BEYOND} LIMIT 1", job, TARGET, sequence))


def add_once(connection: Connection, statement: str, row: list[Any]) -> bool:
    """Insert a row, unless there is one with its key: that one stays. Returns whether it was inserted."""
    try:
        return run(connection, statement, *row) == 1
    except pymysql.err.IntegrityError as error:
        if error.args[0] != DUPLICATE:
            raise
        return False


def _save(connection: Connection, job: str, facts: Mapping[str, str], row: list[Any]) -> None:
    with transaction(connection):
        found = ask(connection, LOCK_JOB, job)
        if found and json.loads(found[0][0] or "{}").get("target") != facts.get("target"):
            raise StateError("this server is another target of the job", job=job, hint="one server for each target")
        run(connection, CHANGE_JOB if found else ADD_JOB, *row)
