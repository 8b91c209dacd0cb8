"""Applying epochs to PostgreSQL over the one committing connection: claim, compare-and-set, merge, commit.

What does not live here: whose turn it is (`ownership.py`), how a net change is merged (`merge_rows.py`, `merge.py`,
`exchange.py`, `keyless.py`), foreign-key actions (`cascade.py`), single rows (`single_rows.py`), the same compare-and-set for
many small transactions (`do_block.py`, `pipelined.py`), what errors mean (`errors.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import psycopg
from psycopg.pq import TransactionStatus

from anabranch.connectors.postgresql import pair_notes
from anabranch.connectors.postgresql.changed_types import changed_types
from anabranch.connectors.postgresql.connection import Connection, connect, session_name, together
from anabranch.connectors.postgresql.errors import missing_parent, translate, translated
from anabranch.connectors.postgresql.labels import UNKNOWN, add_labels
from anabranch.connectors.postgresql.row_security import policies_named
from anabranch.connectors.postgresql.target import (
    altered_columns,
    applied,
    aside,
    conflicts,
    ddl_notes,
    dropped_tables,
    merge_rows,
    ownership,
    single_rows,
    stage,
)
from anabranch.connectors.postgresql.target import cascade as cascades
from anabranch.connectors.postgresql.target.appliers import PostgresApplier, reacts
from anabranch.connectors.postgresql.target.catalog import may_bypass_constraints
from anabranch.connectors.postgresql.target.coming_columns import Coming
from anabranch.connectors.postgresql.target.emptying import empty
from anabranch.connectors.postgresql.target.enforced import Followers
from anabranch.connectors.postgresql.target.heirs import written_with
from anabranch.connectors.postgresql.target.named_tables import table_named
from anabranch.connectors.postgresql.target.one_by_one import OneByOne
from anabranch.connectors.postgresql.target.own_source import OwnSource
from anabranch.connectors.postgresql.target.session_origin import SessionOrigin
from anabranch.connectors.postgresql.target.shared_tables import refuse_truncate
from anabranch.connectors.postgresql.target.stage_sweep import sweep
from anabranch.connectors.postgresql.target.staging import StagingTables
from anabranch.connectors.postgresql.target.store import FORGET_UNTOUCHED, TARGET, require_same, save_table
from anabranch.connectors.postgresql.target.unchanged_types import ColumnTypes, changed_table, mixed_table
from anabranch.connectors.sql.appliers import Appliers
from anabranch.connectors.sql.merge_pieces import Texts
from anabranch.connectors.sql.single_rows import named_key
from anabranch.contracts import Begun, Conflict, Emptying, Enforced, Needed, OlderRow, RowAgain, ValueRules
from anabranch.errors import Fenced, Redefined, StateError, TargetBusy
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.altered import AlteredTable, ColumnAdded
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import Age, FoundRow, NotedConflict
from anabranch.rows.dropped import DroppedTable
from anabranch.rows.net import DELETE, INSERT, Cascade, CascadeRule, RowChange, StagedNet, TableNet, TargetTable
from anabranch.rows.small import SmallTransactions

PLANS_S = 10.0  # how long plans are kept that were made for a table as large as it was then
# https://www.postgresql.org/docs/current/sql-discard.html
NEW_PLANS = "DISCARD PLANS"
# https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-SESSION-REPLICATION-ROLE
BYPASS = "SET session_replication_role = replica"
DEFER = "SET CONSTRAINTS ALL DEFERRED"  # https://www.postgresql.org/docs/current/sql-set-constraints.html
ASK = "SET CONSTRAINTS ALL IMMEDIATE"


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
        self._appliers = Appliers(self._applier)
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
        self._altered: list[TableId] = []  # tables, in this transaction
        self._is_piped = False  # transactions were carried out one by one over this connection: statements know columns

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def claim(self, job: str, owner: str) -> Checkpoint:
        self.close()
        self._job, self._owner = job, owner
        connection = self._session()
        with translated("claim the checkpoint"):
            last = ownership.checkpoint(connection, job)
            connection.commit()
            if last.owner not in ("", owner):
                ownership.end_holder(connection, session_name(job, last.owner))
            found = ownership.own(connection, job, owner)
            connection.commit()
            _sweep(connection, job)
        return found

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
        self._saves, self._forgotten, self._altered = [], [], []
        with translated("begin an epoch"):
            with together(connection):
                self._make_plans_anew(connection)
                moved = ownership.move(connection, self._job, now, then)
            if moved.rowcount == 1:
                self._let_keys_wait(connection)
                return Begun.OPEN
            found = ownership.checkpoint(connection, self._job)
            connection.rollback()
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        same = (found.epoch, found.position.sequence) == (then.epoch, then.position.sequence)
        return Begun.APPLIED if same else Begun.REPLAN

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        connection = self._session()
        assert self._one_by_one is not None
        self._is_piped = True
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            self.rollback()
        try:
            with translated("apply transactions one by one"):
                self._own_source.refuse(connection, self._job)
                connection.commit()
                self._one_by_one.carry_out(now, transactions)
                found = ownership.checkpoint(connection, self._job)
                connection.commit()
        except BaseException:  # whatever it was, it is passed on
            self.close()  # its commits may still be without the disk
            raise
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        return found

    def appliers(self, number: int, tables: Sequence[TargetTable]) -> Sequence[PostgresApplier]:
        if not psycopg.Pipeline.is_supported():  # a libpq before 14
            return ()
        connection = self._outside()
        with translated("ask what the target does by itself"):
            self._own_source.refuse(connection, self._job)
            self._is_piped = True
            alone = reacts(connection, [table.target for table in tables], self._is_off)
            connection.commit()
        if alone:
            return ()
        return self._appliers.ready(number, self._job)

    def _applier(self, number: int) -> PostgresApplier:
        return PostgresApplier(self._another, self._job, self._owner, number)

    def _another(self) -> Connection:
        """Return one more session of the owner."""
        connection = connect(self._endpoint, session_name(self._job, self._owner))
        if self._bypass:
            self._switch_off(connection)
        return connection

    # --- changes ------------------------------------------------------------------------------------------------------

    def merge(self, net: TableNet) -> list[Texts]:
        connection, stages = self._transaction(writes=net.table)
        with (
            self._policies_named(),
            self._knowing_labels(net.table.source),
            translated(f"merge into {net.table.target}", net.table.source),
        ):
            return merge_rows.merge_net(connection, stages, net, self._rules.nul)

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

    def note_ddl(self, job: str, change: DdlChange) -> None:
        connection, _ = self._transaction()
        with translated("note a change of a definition", change.source):
            ddl_notes.keep(connection, job, change)

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
        with self._policies_named(), translated(f"empty {', '.join(map(str, targets))}", tables[0].source):
            is_asked = self._followers is not None  # checks of keys may be pending
            empty(connection, targets, by_delete=how == Emptying.DELETE or is_asked)

    # --- definitions ----------------------------------------------------------------------------------------------------

    @property
    def alters_apart(self) -> bool:
        return False

    def refuse_standing(self, altered: AlteredTable) -> None: ...

    def alter(self, now: Checkpoint, altered: AlteredTable) -> Sequence[str]:
        connection, _ = self._transaction()
        with translated(f"alter {altered.table.target}", altered.table.source):
            left = altered_columns.alter(connection, altered, self._rules)
        self._altered.append(altered.table.target)
        return left

    def keeps_up_with(self, altered: AlteredTable) -> bool:
        """Return whether columns only come: prepared statements are for what was there, which stays as it was."""
        return not self._is_piped and all(isinstance(step, ColumnAdded) for step in altered.steps)

    @property
    def drops_apart(self) -> bool:
        return False

    def kept_name(self, table: TableId, suffix: str) -> TableId:
        return dropped_tables.kept_name(table, suffix)

    def refuse_dropping(self, dropped: Sequence[DroppedTable]) -> None: ...

    def drop_tables(self, now: Checkpoint, dropped: Sequence[DroppedTable]) -> None:
        connection, _ = self._transaction()
        targets = [one.table.target for one in dropped]
        with translated(f"drop {', '.join(map(str, targets))}", dropped[0].table.source):
            self._own_source.refuse(connection, self._job, sorted(targets))
            dropped_tables.drop(connection, dropped)

    def forget_dropped(self, job: str, table: TableId) -> None:
        connection, _ = self._transaction()
        with translated("forget a table", table):
            dropped_tables.forget(connection, job, table)

    def coming(self) -> Coming:
        return Coming(self._outside, lambda: self._transaction()[0], self._rules)

    # --- states of tables -----------------------------------------------------------------------------------------------

    def save_table(self, job: str, state: TableState) -> None:
        self._transaction()
        self._saves.append((job, state))

    def forget_table(self, job: str, table: TableId) -> None:
        self._transaction()
        self._forgotten.append((job, str(table)))

    def forget_applied(self, job: str, upto: int) -> int:
        connection, _ = self._transaction()
        with translated("forget what was applied beyond the checkpoint"):
            return applied.forget(connection, job, TARGET, upto)

    # --- notes of a pair ----------------------------------------------------------------------------------------------

    def note_deleted(self, job: str, deleted: DeletedRow) -> None:
        connection, _ = self._transaction()
        with translated("note a delete", deleted.table):
            pair_notes.keep(connection, job, deleted)

    def remove_older(self, job: str, rows: Sequence[OlderRow]) -> int:
        def work(connection: Connection) -> int:
            found = sum(self._remove_older(connection, job, one) for one in rows)
            with translated("note deletes as cleared"):
                pair_notes.keep_cleared(connection, job, [one.deleted.id for one in rows])
            return found

        return self._like_a_user({one.table.target for one in rows}, work)

    def note_standing(self, job: str, row: StandingRow) -> None:
        connection, _ = self._transaction()
        with translated("note a row that stays", row.table):
            pair_notes.keep_standing(connection, job, row)

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        connection = self._outside()
        with translated("read notes of rows that stay"):
            found = pair_notes.standing(connection, job, limit, after)
            connection.commit()
        return found

    def write_again(self, job: str, rows: Sequence[RowAgain]) -> int:
        def work(connection: Connection) -> int:
            found = sum(self._write_again(connection, one) for one in rows)
            with translated("remove notes of rows that stay"):
                pair_notes.forget_standing(connection, job, [one.standing.id for one in rows])
            return found

        return self._like_a_user({one.table.target for one in rows}, work)

    def _like_a_user(self, targets: Collection[TableId], work: Callable[[Connection], int]) -> int:
        """Do the work in a transaction of its own, which no marker tells from those of users."""
        connection = self._outside()
        self._origin.take(connection, "")
        with translated("ask whether the target is the source"):
            self._own_source.refuse(connection, self._job, sorted(targets))
        try:
            found = work(connection)
            with translated("commit rows of a pair"):
                connection.commit()
        except BaseException:  # whatever it was, it is passed on
            self.rollback()
            raise
        return found

    def _remove_older(self, connection: Connection, job: str, one: OlderRow) -> int:
        assert self._stages is not None
        table, age = one.table, Age(one.newest_by, one.deleted.age)
        with self._policies_named(), translated(f"remove a row of {table.target}", table.source, dict(one.key)):
            there = conflicts.row(connection, table, one.key, age, self._rules.nul)
            if there is None or not one.goes(there):
                return 0
            removal = RowChange(table, DELETE, dict(one.key))
            single_rows.change(connection, self._stages, removal, self._rules.nul)
            conflicts.note(connection, job, replace(one.conflict, found=there.values))
        return 1

    def _write_again(self, connection: Connection, one: RowAgain) -> bool:
        assert self._stages is not None
        table, noted = one.table, one.standing
        with self._policies_named(), translated(f"write a row of {table.target}", table.source, dict(noted.key)):
            there = conflicts.row(connection, table, noted.key, Age(one.newest_by, noted.age), self._rules.nul)
            changes = one.changes(there)
            for change in changes:
                single_rows.change(connection, self._stages, change, self._rules.nul)
        return bool(changes)

    def pair_notes(self, job: str) -> PairNotes:
        connection = self._outside()
        with translated("read notes of deletes"):
            found = pair_notes.read(connection, job)
            connection.commit()
        return found

    def forget_notes(self, job: str, deleted: Collection[str], cleared: Collection[str]) -> None:
        connection = self._outside()
        with translated("remove notes of deletes"):
            pair_notes.forget(connection, job, deleted, cleared)
            connection.commit()

    def _outside(self) -> Connection:
        """Return the session, in which no epoch is open."""
        connection = self._session()
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            self.rollback()
        return self._session()

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
            raise translate(
                error, "commit an epoch", table_named(self._endpoint, error), missing_parent(error)
            ) from None
        self._types.committed(types)
        stages.committed()
        with translated("drop staging tables"):
            for altered in self._altered:
                self._types.forget(altered)
                stages.drop(altered)
            stages.trim()
        self._altered = []

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
        self._appliers.close()
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
            self._one_by_one, self._is_piped = OneByOne(connection, self._job, self._owner), False
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
            raise translate(
                error, "check a row alone", table_named(self._endpoint, error), missing_parent(error)
            ) from None
        connection.execute(DEFER)

    def _policies_named(self) -> AbstractContextManager[None]:
        return policies_named(lambda: connect(self._endpoint, "anabranch-apply-policies", autocommit=True))

    def _transaction(self, writes: TargetTable | None = None) -> tuple[Connection, StagingTables]:
        """Return the open epoch. A connection that was lost inside it is not opened again here: the epoch is over."""
        if self._open is None or self._stages is None:
            raise StateError("no epoch is open")
        if writes is not None:
            self._types.writes(writes.target)
        return self._open, self._stages


def _sweep(connection: Connection, job: str) -> None:
    connection.autocommit = True
    try:
        sweep(connection, job)
    finally:
        connection.autocommit = False
