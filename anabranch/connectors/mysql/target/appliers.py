"""Sessions beside the writer's own that carry out source transactions at once and commit them in turn (`[apply] appliers`).

Each holds a lock of its own, by which whoever claims the job finds and ends it (`ownership.py`). What does not live here:
whose turn it is (`apply/appliers.py`), the statements (`one_by_one.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pymysql

from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.known_columns import KnownTable
from anabranch.connectors.mysql.target.one_by_one import GUARD, CannotSay, ended, statement
from anabranch.connectors.mysql.target.ownership import MOVE, NOTE, TARGET
from anabranch.connectors.mysql.target.session import Connection, bound, run
from anabranch.connectors.mysql.target.single_rows import Statements
from anabranch.connectors.mysql.target.staging import StagingTables
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import ChangeShape, TargetTable
from anabranch.rows.small import Values

# A later transaction that waits for its turn may have what an earlier one waits for: the earlier one gives up (K22). In
# seconds; there is no shorter one.
# https://dev.mysql.com/doc/refman/8.0/en/innodb-parameters.html#sysvar_innodb_lock_wait_timeout
SETTINGS = "SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1"


# Readers of the log know by the first change of a transaction which job has written it (model/markers.py).
MARKS = (
    "INSERT INTO `anabranch`.`checkpoint` (`job`, `target`, `sequence`, `position`) VALUES (%s, %s, 0, '')",
    "DELETE FROM `anabranch`.`checkpoint` WHERE `job` = %s AND `target` = %s",
)


class MysqlApplier:
    """An `ApplierSession` of an owner. Not for two threads. `mark`: the name of a row among the job's checkpoints that comes
    and goes in each transaction. `altered`: says which column is no longer what values are written
    for, "" for none.

    Delivery: a transaction and the checkpoint behind it, or the note of its place, commit together or not at all."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        job: str,
        mark: str,
        nul: str,
        altered: Callable[[StagingTables, TargetTable], str],
    ) -> None:
        self._connect, self._job, self._mark, self._nul, self._altered = connect, job, mark, nul, altered
        self._stages: StagingTables | None = None
        self._tables: dict[ChangeShape, Statements] = {}
        self._suits: dict[TargetTable, KnownTable] = {}  # as they were when they were not `altered`

    def ready(self) -> None:
        """Connect, if that has to be, and undo what is open. What is known of tables is asked again."""
        if self._stages is None or not self._stages.connection.open:
            self.close()
            connection = self._connect()
            with translated("open a session of an applier"):
                run(connection, SETTINGS)
                connection.commit()
            self._stages = StagingTables(connection)
        self.rollback()
        self._tables.clear()
        self._suits.clear()

    def carry_out(self, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
        stages = self._ready_stages()

        def altered(table: TargetTable) -> str:
            known = stages.known.of(table.target)
            why = "" if self._suits.get(table) is known else self._altered(stages, table)
            if not why:
                self._suits[table] = known
            return why

        def send() -> None:
            made = [bound(stages.connection, mark, (self._job, self._mark)) for mark in MARKS]
            made += [statement(stages, self._tables, shape, values, self._nul, altered) for shape, values in changes]
            stages.connection.together([part for one in made for part in (one, GUARD)])

        return self._try("carry out a transaction", send)

    def commit(self, now: Checkpoint, then: Checkpoint) -> bool:
        there = (then.epoch, then.position.sequence, then.position.native, then.commit_time)
        return self._commit(MOVE, (*there, self._job, TARGET, now.owner, now.epoch, now.position.sequence))

    def commit_ahead(self, now: Checkpoint, at: Position) -> bool:
        here = (self._job, TARGET, now.owner, now.epoch, now.position.sequence)
        return self._commit(NOTE, (at.sequence, at.native, *here))

    def _commit(self, last: str, values: Sequence[object]) -> bool:
        """Commit behind a last statement, which has to change one row."""
        connection = self._ready_stages().connection
        parts = [bound(connection, last, values), GUARD, *connection.committing]

        def send() -> None:
            connection.together(parts)

        if not self._try("commit a transaction", send):
            return False
        ended(self._ready_stages(), self._tables)
        return True

    def _try(self, doing: str, send: Callable[[], None]) -> bool:
        """Send something. Returns False, with all undone, where the server does not take it. Raises where the line is lost."""
        connection = self._ready_stages().connection
        with translated(doing):
            try:
                send()
            except CannotSay:
                self.rollback()
                return False
            except pymysql.err.Error:
                if not connection.open:
                    raise
                self.rollback()
                return False
        return True

    def rollback(self) -> None:
        if self._stages is None:
            return
        with translated("undo a transaction"):
            self._stages.connection.rollback()
        ended(self._stages, self._tables)

    def close(self) -> None:
        if self._stages is not None and self._stages.connection.open:
            self._stages.connection.close()
        self._stages = None

    def _ready_stages(self) -> StagingTables:
        assert self._stages is not None
        return self._stages
