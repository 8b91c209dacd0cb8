"""Applying epochs to PostgreSQL over the one committing connection: claim, compare-and-set, merge, commit.

What does not live here: how a net change is merged (`merge.py`, `exchange.py`, `keyless.py`), foreign-key actions
(`cascade.py`), single rows (`single_rows.py`), the same compare-and-set for many small transactions (`do_block.py`,
`pipelined.py`), what errors mean (`errors.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import groupby
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from anabranch.connectors.postgresql.changed_types import changed_types
from anabranch.connectors.postgresql.connection import Connection, connect, session_name, table_name, together
from anabranch.connectors.postgresql.errors import missing_parent, translate, translated
from anabranch.connectors.postgresql.labels import UNKNOWN, add_labels
from anabranch.connectors.postgresql.row_security import policies_named
from anabranch.connectors.postgresql.target import aside, conflicts, merge, single_rows, stage
from anabranch.connectors.postgresql.target import cascade as cascades
from anabranch.connectors.postgresql.target.catalog import may_bypass_constraints
from anabranch.connectors.postgresql.target.column_types import ColumnTypes, changed_table, mixed_table
from anabranch.connectors.postgresql.target.enforced import Followers
from anabranch.connectors.postgresql.target.exchange import exchange
from anabranch.connectors.postgresql.target.heirs import written_with
from anabranch.connectors.postgresql.target.newer_rows import refuse_newer
from anabranch.connectors.postgresql.target.one_by_one import OneByOne
from anabranch.connectors.postgresql.target.own_source import OwnSource
from anabranch.connectors.postgresql.target.session_origin import SessionOrigin
from anabranch.connectors.postgresql.target.shared_tables import refuse_truncate
from anabranch.connectors.postgresql.target.stage_sweep import sweep
from anabranch.connectors.postgresql.target.staging import ANALYZE_ROWS, StagingTables, copy_rows
from anabranch.connectors.postgresql.target.store import (
    FORGET_UNTOUCHED,
    READ_CHECKPOINT,
    TARGET,
    checkpoint_of,
    require_same,
    save_table,
)
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, Texts
from anabranch.connectors.sql.single_rows import named_key
from anabranch.contracts import Begun, Conflict, Emptying, Enforced, Needed, ValueRules
from anabranch.errors import Fenced, Redefined, StateError, TargetBusy, TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import Age, FoundRow, NotedConflict
from anabranch.rows.net import INSERT, Cascade, CascadeRule, RowChange, StagedNet, TableNet, TargetTable
from anabranch.rows.small import SmallTransactions

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()"
TERMINATE = f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) AS sessions"
TERMINATE_WAIT_S = 5.0
# Up to here a statement for each row, all sent at once, is quicker than staging them (0.05 ms a row against 3 ms and more), or
# than COPY into the table (1.5 ms). Measured with 5 to 200 rows, 2026-11-23.
FEW_ROWS, FEW_INSERTS = 100, 16
PLANS_S = 10.0  # how long plans are kept that were made for a table as large as it was then
# https://www.postgresql.org/docs/current/sql-discard.html
NEW_PLANS = "DISCARD PLANS"
OWN = """
UPDATE anabranch.checkpoint SET owner = %s WHERE job = %s AND target = %s
RETURNING owner, epoch, sequence, position, commit_time
"""
MOVE = """
UPDATE anabranch.checkpoint SET epoch = %s, sequence = %s, position = %s, commit_time = %s
 WHERE job = %s AND target = %s AND owner = %s AND epoch = %s AND sequence = %s
"""
# https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE
BYPASS = "SET session_replication_role = replica"
DEFER = "SET CONSTRAINTS ALL DEFERRED"  # https://www.postgresql.org/docs/current/sql-set-constraints.html
ASK = "SET CONSTRAINTS ALL IMMEDIATE"
REFERENCED = """
SELECT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conparentid = 0
                  AND confrelid = ANY(%s::regclass[]) AND conrelid <> ALL(%s::regclass[]))
"""
# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-PARTITION
ROOT = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = pg_partition_root(to_regclass(format('%%I.%%I', %s::text, %s::text)))
"""


class PostgresWriter:
    """Carries out epochs at a PostgreSQL target. Foreign keys and triggers are off in its session if that is asked for and
    its user may; else keys that are deferrable are asked at commit, all others at the end of each statement.

    Delivery: what an epoch does and its checkpoint commit together or not at all; a fenced owner commits nothing."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules, bypass_constraints: bool = False) -> None:
        self._endpoint, self._rules, self._bypass = endpoint, rules, bypass_constraints
        self._job, self._owner = "", ""
        self._open: Connection | None = None
        self._stages: StagingTables | None = None
        self._one_by_one: OneByOne | None = None
        self._types = ColumnTypes()
        self._own_source = OwnSource()
        self._origin = SessionOrigin()
        self._may_bypass: bool | None = None  # as found at the first connection
        self._followers: Followers | None = None  # of this transaction, where keys act
        self._waits = False  # are constraints that can wait asked at the end of this transaction?
        self._saves: list[tuple[str, TableState]] = []  # sent with the commit
        self._forgotten: list[tuple[str, str]] = []  # so are they
        self._planned = 0.0  # when plans were last made anew
        self._needed: Needed | None = None  # what tables need at the source now

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def claim(self, job: str, owner: str) -> Checkpoint:
        self.close()
        self._job, self._owner = job, owner
        connection = self._session()
        with translated("claim the checkpoint"):
            last = self._checkpoint(connection)
            connection.commit()
            if last.owner not in ("", owner):
                _end_sessions(connection, session_name(job, last.owner))
            row = connection.execute(OWN, [owner, job, TARGET]).fetchone()
            connection.commit()
            _sweep(connection, job)
        if row is None:
            raise self._no_checkpoint()
        return checkpoint_of(row)

    def enforced(self) -> Enforced:
        acts = not self._is_off
        return Enforced(keys=acts, triggers=acts)  # session_replication_role is for both

    @property
    def _is_off(self) -> bool:
        return self._bypass and bool(self._may_bypass)

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        connection = self._session()
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            self.rollback()
        self._origin.take(connection, origin)
        self._saves, self._forgotten = [], []
        with translated("begin an epoch"):
            there = [then.epoch, then.position.sequence, then.position.native, then.commit_time]
            here = [self._job, TARGET, now.owner, now.epoch, now.position.sequence]
            with together(connection):
                self._make_plans_anew(connection)
                moved = connection.execute(MOVE, [*there, *here], prepare=True)
            if moved.rowcount == 1:
                self._let_keys_wait(connection)
                return Begun.OPEN
            found = self._checkpoint(connection)
            connection.rollback()
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        same = (found.epoch, found.position.sequence) == (then.epoch, then.position.sequence)
        return Begun.APPLIED if same else Begun.REPLAN

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        connection = self._session()
        assert self._one_by_one is not None
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            self.rollback()
        try:
            with translated("apply transactions one by one"):
                self._own_source.refuse(connection, self._job)
                connection.commit()
                self._one_by_one.carry_out(now, transactions)
                found = self._checkpoint(connection)
                connection.commit()
        except BaseException:  # whatever it was, it is passed on
            self.close()  # its commits may still be without the disk
            raise
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        return found

    # --- changes ------------------------------------------------------------------------------------------------------

    def merge(self, net: TableNet) -> list[Texts]:
        connection, stages = self._transaction(writes=net.table)
        again: list[Texts] = []
        with (
            self._policies_named(),
            self._knowing_labels(net.table.source),
            translated(f"merge into {net.table.target}", net.table.source),
        ):
            few = 1 if net.refers_to_itself else FEW_ROWS
            for contend, pieces in groupby(merge.pieces(net), key=lambda one: one[0].contends):
                if contend:
                    self._exchange(connection, stages, pieces)
                    continue
                for piece, arrays in pieces:
                    again += self._merge_piece(connection, stages, piece, arrays, few)
        return again

    def _exchange(
        self, connection: Connection, stages: StagingTables, pieces: Iterable[tuple[MergePiece, Sequence[Any]]]
    ) -> None:
        with ExitStack() as held:
            staged = [
                (piece, held.enter_context(stages.filled(piece, arrays, self._rules.nul)), len(arrays[0]))
                for piece, arrays in pieces
            ]
            for piece, stage_, _ in staged:
                if piece.newest_by:
                    refuse_newer(connection, piece, stage_)
            exchange(connection, staged, prepare=sum(rows for _, _, rows in staged) <= ANALYZE_ROWS)

    def _merge_piece(
        self, connection: Connection, stages: StagingTables, piece: MergePiece, arrays: Sequence[Any], few: int
    ) -> list[Texts]:
        rows, nul = len(arrays[0]), self._rules.nul
        few = min(few, FEW_INSERTS) if piece.action is MergeAction.INSERT else few
        if rows <= few and piece.action is not MergeAction.MULTISET and not piece.newest_by:
            return single_rows.merge_few(connection, piece, arrays, nul)
        if piece.action is MergeAction.INSERT and piece.checked:
            taken = copy_rows(connection, piece.table.target, piece.columns, arrays, nul, piece.values)
            if taken != rows:  # a trigger of the target has left rows out
                raise Conflict(piece.table.source, f"expected {rows} inserts, found {taken}")
            return []
        with stages.filled(piece, arrays, nul) as staged:
            if piece.newest_by:
                refuse_newer(connection, piece, staged)
            return merge.carry_out(connection, piece, staged, rows, prepare=rows <= ANALYZE_ROWS)

    def follow_labels(self, needed: Needed) -> None:
        self._needed = needed

    @contextmanager
    def _knowing_labels(self, table: TableId) -> Iterator[None]:
        try:
            yield
        except Conflict as conflict:
            is_unknown = isinstance(conflict.__context__, psycopg.Error) and conflict.__context__.sqlstate == UNKNOWN
            found = self._needed(table) if is_unknown and self._needed else None
            if found is None:
                raise
            then, now = found
            if added := add_labels(self._endpoint, now.needs):
                what = f"the source's types have labels that the target's lacked: {'; '.join(added)}"
                raise TargetBusy(what, table=str(table), hint="the change is tried again") from None
            if why := changed_types(then, now):
                raise Redefined(why, table=str(table)) from None
            raise

    def merge_staged(self, staged: StagedNet) -> list[Texts]:
        connection, _ = self._transaction(writes=staged.table)
        with (
            self._policies_named(),
            translated(f"merge staged changes into {staged.table.target}", staged.table.source),
        ):
            return stage.merge_staged(connection, staged)

    def cascade(self, cascade: Cascade, rules: Sequence[CascadeRule]) -> list[Texts]:
        connection, stages = self._transaction(writes=cascade.child)
        doing = f"carry out a foreign key's action on {cascade.child.target}"
        with self._policies_named(), translated(doing, cascade.child.source):
            keys_act = self._followers is not None
            return cascades.carry_out(connection, stages, cascade, rules, self._rules.nul, keys_act)

    def change(self, row: RowChange) -> bool:
        connection, stages = self._transaction(writes=row.table)
        source, doing = row.table.source, f"{row.operation} in {row.table.target}"
        with self._policies_named(), self._knowing_labels(source), translated(doing, source, named_key(row)):
            if not self._waits:  # unique keys too: their rows may meet on the way to where the source took them
                self._defer(connection)
            if self._followers is not None and row.keys_off and row.operation != INSERT:
                self._followers.refuse(row)
            return single_rows.change(connection, stages, row, self._rules.nul)

    def row(self, table: TargetTable, key: Mapping[str, str | None], age: Age | None) -> FoundRow | None:
        connection, _ = self._transaction()
        with self._policies_named(), translated(f"look at a row of {table.target}", table.source, dict(key)):
            return conflicts.row(connection, table, key, age, self._rules.nul)

    def note(self, job: str, conflict: NotedConflict) -> None:
        connection, _ = self._transaction()
        with translated("note a conflict", conflict.source):
            conflicts.note(connection, job, conflict)

    @contextmanager
    def alone(self, at_once: bool = False) -> Iterator[None]:
        connection, _ = self._transaction()
        with translated("set a savepoint"):
            if not self._waits:  # going back to the savepoint would take back what is said behind it
                self._defer(connection)
            with connection.transaction():  # inside another one, a savepoint
                yield
                if at_once:
                    self._ask(connection)

    def set_aside(self, job: str, change: AsideChange) -> int:
        connection, _ = self._transaction()
        with translated("set a row aside", change.source):
            return aside.add(connection, job, change)

    def settle_aside(self, job: str, before: TableState, numbers: Sequence[int], discarded: bool) -> None:
        connection, _ = self._transaction()
        with translated("settle what is set aside"):
            require_same(connection, job, before)
            if aside.settle(connection, job, numbers, discarded) != len(numbers):
                raise Fenced("what was set aside is settled already", job=job, table=str(before.source))

    def truncate(self, tables: Sequence[TargetTable], how: Emptying) -> None:
        """Empty tables. Tables that others refer to are emptied by DELETE in any case: TRUNCATE refuses them whatever
        the session's role.

        So are all tables where foreign keys act: TRUNCATE refuses them while their checks are due.
        """
        connection, _ = self._transaction()
        targets = [table.target for table in tables]
        for table in tables:
            with self._policies_named(), translated(f"empty {table.target}", table.source):
                refuse_truncate(connection, self._job, table)
                if self._followers is not None:
                    self._followers.refuse_truncate(table, targets)
        for target in targets:
            self._types.writes(target)
        names = [table_name(target) for target in targets]
        with self._policies_named(), translated(f"empty {', '.join(map(str, targets))}", tables[0].source):
            shown = [name.as_string(connection) for name in names]
            row = connection.execute(REFERENCED, [shown, shown]).fetchone()
            if how == Emptying.DELETE or (row and row[0]) or self._followers is not None:  # whose checks may be pending
                for name in names:
                    connection.execute(sql.SQL("DELETE FROM {}").format(name))
            else:
                connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))

    def save_table(self, job: str, state: TableState) -> None:
        self._transaction()
        self._saves.append((job, state))

    def forget_table(self, job: str, table: TableId) -> None:
        self._transaction()
        self._forgotten.append((job, str(table)))

    # --- ending -------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        connection, stages = self._transaction()
        if written := self._types.written:  # tables may have become partitions, or parents, of what the job reads
            with translated("ask whether the target is the source"):
                self._own_source.refuse(connection, self._job, written)
        try:
            with together(connection):
                for job, state in self._saves:
                    save_table(connection, job, state)
                for forgotten in self._forgotten:
                    connection.execute(FORGET_UNTOUCHED.encode(), forgotten)
                types = self._types.ask(connection)
                connection.commit()
        except psycopg.Error as error:
            if table := changed_table(error):
                self.close()  # and with it all that was made for the old types
                what = f"the types of the columns of {table} were changed meanwhile, or tables came below it"
                raise TargetBusy(what, hint="tried again with them by itself") from None
            stages.rolled_back()
            self._types.rolled_back()
            if table := mixed_table(error):
                raise written_with(table) from None
            raise translate(error, "commit an epoch", self._table_of(error), missing_parent(error)) from None
        self._types.committed(types)
        stages.committed()
        with translated("drop staging tables"):
            stages.trim()

    def sweep(self) -> None:
        connection = self._session()
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            self.rollback()
        with translated("remove staging tables"):
            _sweep(self._session(), self._job)

    def rollback(self) -> None:
        if self._open is None or self._open.closed or self._stages is None:
            return
        try:
            self._open.rollback()
        except psycopg.OperationalError:
            self.close()  # the server has rolled back what the line lost
        else:
            self._stages.rolled_back()
            self._types.rolled_back()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = self._stages = None

    # --- the connection -----------------------------------------------------------------------------------------------

    def _session(self) -> Connection:
        """Return the claimed owner's connection, opened again after it was lost: the compare-and-set says where it stands."""
        if not self._owner:
            raise StateError("nothing was claimed yet")
        if self._open is None or self._open.closed:
            connection = connect(self._endpoint, session_name(self._job, self._owner))
            with translated("ask whether the target is the source"):
                self._own_source.refuse(connection, self._job)
                connection.commit()
            if self._bypass:
                self._switch_off(connection)
            self._open, self._stages, self._types = connection, StagingTables(connection), ColumnTypes()
            self._origin = SessionOrigin()
            self._one_by_one = OneByOne(connection, self._job, self._owner)
        return self._open

    def _switch_off(self, connection: Connection) -> None:
        """Switch foreign keys and triggers off, if we may. A later connection has to find it as the first did: epochs
        are planned by it.
        """
        with translated("switch foreign keys and triggers off for this session"):
            if self._may_bypass is None:
                self._may_bypass = may_bypass_constraints(connection)
            if self._may_bypass:
                connection.execute(BYPASS)
            connection.commit()

    def _make_plans_anew(self, connection: Connection) -> None:
        """Discard the plans of prepared statements now and then.

        A plan is kept until its table is analysed. A table that grows from a page to a million rows in the meantime
        would be read as a whole for each row.
        """
        now = time.monotonic()
        if now - self._planned >= PLANS_S:
            self._planned = now
            connection.execute(NEW_PLANS)

    def _let_keys_wait(self, connection: Connection) -> None:
        """Defer the keys that can wait to the end of the transaction, where keys act."""
        self._followers = None if self._is_off else Followers(connection)
        self._waits = self._is_off
        if self._bypass and not self._may_bypass:
            self._defer(connection)

    def _defer(self, connection: Connection) -> None:
        connection.execute(DEFER)
        self._waits = True

    def _ask(self, connection: Connection) -> None:
        """Check deferred constraints now, then defer them again. A rollback to a savepoint restores what was deferred there."""
        try:
            connection.execute(ASK)
        except psycopg.Error as error:
            raise translate(error, "check a row alone", self._table_of(error), missing_parent(error)) from None
        connection.execute(DEFER)

    def _policies_named(self) -> AbstractContextManager[None]:
        return policies_named(lambda: connect(self._endpoint, "anabranch-apply-policies", autocommit=True))

    def _table_of(self, error: psycopg.Error) -> TableId | None:
        """Return the target table that a deferred constraint names, or a partition of which it does. Asked over another
        connection: ours is in the middle of it.
        """
        schema, name = error.diag.schema_name, error.diag.table_name
        if not schema or not name:
            return None
        try:
            with closing(connect(self._endpoint, "anabranch-apply-root", autocommit=True)) as other:
                root = other.execute(ROOT, [schema, name]).fetchone()
        except (TargetError, psycopg.Error):
            root = None
        return TableId(*(root or (schema, name)))

    def _transaction(self, writes: TargetTable | None = None) -> tuple[Connection, StagingTables]:
        """Return the open epoch. A connection that was lost inside it is not opened again here: the epoch is over."""
        if self._open is None or self._stages is None:
            raise StateError("no epoch is open")
        if writes is not None:
            self._types.writes(writes.target)
        return self._open, self._stages

    def _checkpoint(self, connection: Connection) -> Checkpoint:
        row = connection.execute(READ_CHECKPOINT, [self._job, TARGET]).fetchone()
        if row is None:
            raise self._no_checkpoint()
        return checkpoint_of(row)

    def _no_checkpoint(self) -> StateError:
        return StateError("the target has no checkpoint of this job", job=self._job, hint="load the job's tables first")


def _end_sessions(connection: Connection, name: str) -> None:
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


def _sweep(connection: Connection, job: str) -> None:
    connection.autocommit = True
    try:
        sweep(connection, job)
    finally:
        connection.autocommit = False
