"""Applying epochs to MySQL and MariaDB over the one committing connection: claim, compare-and-set, merge, commit.

No statement of an epoch commits by itself. What does not live here: whose turn it is (`ownership.py`), how a net change is
merged (`merge_rows.py`, `merge.py`, `exchange.py`, `keyless.py`), staging tables (`staging.py`), foreign-key actions
(`cascade.py`), single rows (`held_rows.py`, `single_rows.py`), labels (`followed_labels.py`), what errors mean (`errors.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pymysql

from anabranch.connectors.mysql import pair_notes
from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target import (
    altered_columns,
    aside_epoch,
    conflicts,
    ddl_notes,
    dropped_tables,
    emptying,
    merge_rows,
    one_by_one,
    ownership,
    single_rows,
    stage,
    standing,
    states,
)
from anabranch.connectors.mysql.target import cascade as cascades
from anabranch.connectors.mysql.target.appliers import MysqlApplier
from anabranch.connectors.mysql.target.coming_columns import Coming
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.followed_labels import FollowedLabels
from anabranch.connectors.mysql.target.followers import Followers
from anabranch.connectors.mysql.target.held_rows import HeldRows
from anabranch.connectors.mysql.target.known_columns import KnownTable
from anabranch.connectors.mysql.target.options import USUAL, MysqlTargetOptions
from anabranch.connectors.mysql.target.own_source import OwnSource
from anabranch.connectors.mysql.target.session import Connection, ask, connect, logged, run, session_name, table_name
from anabranch.connectors.mysql.target.shared_tables import refuse_truncate
from anabranch.connectors.mysql.target.stage_sweep import drop_taken, sweep
from anabranch.connectors.mysql.target.staging import NotInside, StagingTables
from anabranch.connectors.sql.appliers import Appliers
from anabranch.connectors.sql.merge_pieces import MergePiece, Texts
from anabranch.connectors.sql.single_rows import named_key
from anabranch.contracts import Begun, Conflict, Emptying, Enforced, Needed, OlderRow, RowAgain, ValueRules
from anabranch.errors import Fenced, StateError, TargetBusy, TargetError, TargetUnavailable
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.altered import AlteredTable
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import Age, FoundRow, NotedConflict
from anabranch.rows.dropped import DroppedTable
from anabranch.rows.net import DELETE, INSERT, Cascade, CascadeRule, RowChange, StagedNet, TableNet, TargetTable
from anabranch.rows.small import SmallTransactions

STATE = "anabranch"


class MysqlWriter:
    """Carries out epochs at a MySQL or MariaDB target. Foreign keys are off in its session if that is asked for, else asked for
    each row; triggers always fire.

    Delivery: what an epoch does and its checkpoint commit together or not at all; a fenced owner commits nothing."""

    def __init__(
        self,
        endpoint: Endpoint,
        rules: ValueRules,
        bypass_constraints: bool = False,
        options: MysqlTargetOptions = USUAL,
    ) -> None:
        self._endpoint, self._rules, self._options = endpoint, rules, options
        self._keys_act = not bypass_constraints
        self._job, self._owner = "", ""
        self._open: Connection | None = None
        self._stages: StagingTables | None = None
        self._own_source = OwnSource()
        self._followers: Followers | None = None  # of this transaction, where keys act
        self._held: HeldRows | None = None  # of this transaction
        self._is_open = False  # an epoch is
        self._savepoints = 0
        self._written: set[TableId] = set()  # tables, in this transaction
        self._taken: list[StagedNet] = []  # merged in this transaction
        self._suits: dict[TargetTable, KnownTable] = {}  # whose columns were looked at
        self._labels = FollowedLabels(endpoint, self.close)
        self._appliers = Appliers(self._applier)
        self._wanted: dict[MergePiece, None] = {}  # staging tables to be made between transactions

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def claim(self, job: str, owner: str) -> Checkpoint:
        self.close()
        self._job, self._owner = job, owner
        connection = self._session()
        with translated("claim the checkpoint"):
            last = ownership.checkpoint(connection, job)
            connection.commit()
            if last.owner not in ("", owner):
                ownership.end_holders(connection, job, last.owner)
            found = ownership.own(connection, job, owner)
            connection.commit()
            sweep(connection, job)
        return found

    def enforced(self) -> Enforced:
        return Enforced(keys=self._keys_act, triggers=True)

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        """Begin an epoch. No origin can be named: the log here says by `server_id` and GTID where rows come from, and who sets
        those needs a right with which one may do nearly anything (decision 203)."""
        if origin:
            raise TargetError(f"the log of this target cannot say that rows come from {origin}", job=self._job)
        connection = self._session()
        assert self._stages is not None
        if self._is_open:
            self.rollback()
            connection = self._session()
        if self._wanted:
            wanted, self._wanted = self._wanted, {}  # what cannot be made is noted again by who needs it
            with translated("make staging tables"):
                self._stages.before(wanted)
        self._written, self._taken, self._savepoints = set(), [], 0
        with translated("begin an epoch"):
            self._is_open = ownership.move(connection, self._job, now, then)
            if self._is_open:
                self._followers = Followers(self._stages) if self._keys_act else None
                self._held = HeldRows(self._stages, self._rules.nul)
                return Begun.OPEN
            found = ownership.checkpoint(connection, self._job)
            connection.rollback()
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        same = (found.epoch, found.position.sequence) == (then.epoch, then.position.sequence)
        return Begun.APPLIED if same else Begun.REPLAN

    def one_by_one(self, now: Checkpoint, transactions: SmallTransactions) -> Checkpoint:
        self.rollback()
        connection = self._session()
        assert self._stages is not None
        try:
            with translated("apply transactions one by one"):
                self._own_source.refuse(connection, self._job)
                is_altered = partial(self._altered, self._stages)
                one_by_one.carry_out(self._stages, self._job, now, transactions, self._rules.nul, is_altered)
                found = ownership.checkpoint(connection, self._job)
                connection.commit()
        except BaseException:  # whatever it was, it is passed on
            self.close()
            raise
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        return found

    def appliers(self, number: int, tables: Sequence[TargetTable]) -> Sequence[MysqlApplier]:
        connection = self._outside()
        with translated("ask whether the target is the source"):
            self._own_source.refuse(connection, self._job)
            connection.commit()
        return self._appliers.ready(number, self._job)

    def _applier(self, number: int) -> MysqlApplier:
        connect = partial(self._opened, ownership.applier_name(self._job, self._owner, number))
        return MysqlApplier(connect, self._job, f"{self._owner}.{number}", self._rules.nul, self._unlike)

    # --- changes ------------------------------------------------------------------------------------------------------

    def merge(self, net: TableNet) -> list[Texts]:
        _, stages = self._transaction(writes=net.table)
        self._let_rows_in(net.table)
        doing = f"merge into {net.table.target}"
        with self._labels.known(net.table), self._waiting_for_stages(), translated(doing, net.table.source):
            return merge_rows.merge_net(stages, net, self._rules.nul)

    def follow_labels(self, needed: Needed) -> None:
        self._labels.needed = needed

    def merge_staged(self, staged: StagedNet) -> list[Texts]:
        _, stages = self._transaction(writes=staged.table)
        self._let_rows_in(staged.table)
        with (
            self._waiting_for_stages(),
            translated(f"merge staged changes into {staged.table.target}", staged.table.source),
        ):
            again = stage.merge_staged(stages, staged)
        self._taken.append(staged)
        return again

    def cascade(self, cascade: Cascade, rules: Sequence[CascadeRule]) -> list[Texts]:
        _, stages = self._transaction(writes=cascade.child)
        self._let_rows_in()
        doing = f"carry out a foreign key's action on {cascade.child.target}"
        with self._waiting_for_stages(alone=True), translated(doing, cascade.child.source):
            return cascades.carry_out(stages, cascade, rules, self._rules.nul, self._keys_act)

    def change(self, row: RowChange) -> bool:
        self._transaction(writes=row.table)
        assert self._held is not None
        doing = f"{row.operation} in {row.table.target}"
        with (
            self._labels.known(row.table),
            self._waiting_for_stages(alone=True),
            translated(doing, row.table.source, named_key(row)),
        ):
            if self._followers is not None and row.keys_off and row.operation != INSERT:
                self._followers.refuse(row, self._rules.nul)
            return self._held.change(row)

    def row(self, table: TargetTable, key: Mapping[str, str | None], age: Age | None) -> FoundRow | None:
        connection, _ = self._transaction()
        assert self._held is not None
        with translated(f"look at a row of {table.target}", table.source, dict(key)):
            self._held.let_in(table, key)
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
        connection, stages = self._transaction()
        self._savepoints += 1
        name = f"`alone_{self._savepoints}`"
        with translated("set a savepoint"):
            run(connection, f"SAVEPOINT {name}")
        try:
            yield
            if at_once:
                self._let_rows_in()
        except TargetUnavailable:  # the epoch is over: a deadlock has rolled all of it back
            raise
        except BaseException:  # whatever it was: what was done inside is taken back, and it is passed on
            stages.went_back()
            with translated("go back to a savepoint"):
                run(connection, f"ROLLBACK TO SAVEPOINT {name}")
            raise
        with translated("keep what a savepoint was set for"):
            run(connection, f"RELEASE SAVEPOINT {name}")

    def set_aside(self, job: str, change: AsideChange) -> int:
        connection, _ = self._transaction()
        with translated("set a row aside", change.source):
            return aside_epoch.add(connection, job, change)

    def settle_aside(self, job: str, before: TableState, numbers: Sequence[int], discarded: bool) -> None:
        connection, _ = self._transaction()
        with translated("settle what is set aside"):
            states.require_same(connection, job, [before])
            if aside_epoch.settle(connection, job, numbers, discarded) != len(numbers):
                raise Fenced("what was set aside is settled already", job=job, table=str(before.source))

    def empty_apart(self, now: Checkpoint, tables: Sequence[TargetTable]) -> None:
        self.rollback()
        connection, targets = self._session(), [table.target for table in tables]
        with translated(f"empty {', '.join(map(str, targets))}"):
            takes = [emptying.takes_truncate(connection, self._job, table) for table in tables]
            if self._keys_act or not all(takes):
                connection.commit()
                return
            self._own_source.refuse(connection, self._job, targets)
            connection.commit()
            found = emptying.truncate(connection, self._job, now, tables)
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)

    def truncate(self, tables: Sequence[TargetTable], how: Emptying) -> None:
        """Empty tables, by DELETE: TRUNCATE would commit what the epoch has done so far (K17). Where the job asks for it, it
        came before the epoch (`empty_apart`)."""
        connection, _ = self._transaction()
        targets = [table.target for table in tables]
        for table in tables:
            self._transaction(writes=table)
            with translated(f"empty {table.target}", table.source):
                refuse_truncate(connection, self._job, table)
                if self._followers is not None:
                    self._followers.refuse_truncate(table, targets)
        assert self._held is not None
        with translated(f"empty {', '.join(map(str, targets))}", tables[0].source):
            self._held.forget(tables)
            for target in targets:
                run(connection, f"DELETE FROM {table_name(target)}")

    # --- definitions ----------------------------------------------------------------------------------------------------

    @property
    def alters_apart(self) -> bool:
        return True

    def refuse_standing(self, altered: AlteredTable) -> None:
        connection = self._outside()
        with translated(f"look at {altered.table.target}", altered.table.source):
            altered_columns.refuse_standing(connection, altered, self._rules)
            connection.commit()

    def alter(self, now: Checkpoint, altered: AlteredTable) -> Sequence[str]:
        connection = self._outside()
        with translated(f"alter {altered.table.target}", altered.table.source):
            try:
                self._own_source.refuse(connection, self._job, [altered.table.target])
                found, left = altered_columns.alter(connection, self._job, now, altered, self._rules)
                assert self._stages is not None
                self._stages.known.forget(altered.table.target)
            except BaseException:  # whatever it was: the session's mode is another one, and it is passed on
                self.close()
                raise
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        return left

    @property
    def drops_apart(self) -> bool:
        return True

    def kept_name(self, table: TableId, suffix: str) -> TableId:
        return dropped_tables.kept_name(table, suffix)

    def refuse_dropping(self, dropped: Sequence[DroppedTable]) -> None:
        connection = self._outside()
        with translated("look at tables that are to be dropped", dropped[0].table.source):
            dropped_tables.refuse(connection, dropped)
            connection.commit()

    def drop_tables(self, now: Checkpoint, dropped: Sequence[DroppedTable]) -> None:
        connection, targets = self._outside(), [one.table.target for one in dropped]
        with translated(f"drop {', '.join(map(str, targets))}", dropped[0].table.source):
            try:
                self._own_source.refuse(connection, self._job, targets)
                found = dropped_tables.drop(connection, self._job, now, dropped)
            finally:
                self.close()  # and with it what is known of the tables, and the session's settings
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)

    def forget_dropped(self, job: str, table: TableId) -> None:
        connection, _ = self._transaction()
        with translated("forget a table", table):
            dropped_tables.forget(connection, job, table)

    def keeps_up_with(self, altered: AlteredTable) -> bool:
        return True  # every transaction asks for the columns that it writes to

    def coming(self) -> Coming:
        return Coming(self._outside, lambda: self._transaction()[1], lambda: self._held, self._rules)

    # --- states of tables -----------------------------------------------------------------------------------------------

    def save_table(self, job: str, state: TableState) -> None:
        connection, _ = self._transaction()
        with translated("save a table's state", state.source):
            states.save_state(connection, job, state)

    def forget_table(self, job: str, table: TableId) -> None:
        connection, _ = self._transaction()
        with translated("forget a table's state", table):
            run(connection, states.FORGET_UNTOUCHED, job, str(table))

    def forget_applied(self, job: str, upto: int) -> int:
        with translated("forget what was applied beyond the checkpoint"):
            return run(self._transaction()[0], ownership.FORGET, job, ownership.TARGET, upto)

    # --- notes of a pair ----------------------------------------------------------------------------------------------

    def note_deleted(self, job: str, deleted: DeletedRow) -> None:
        connection, _ = self._transaction()
        with translated("note a delete", deleted.table):
            pair_notes.keep(partial(run, connection), job, deleted)

    def remove_older(self, job: str, rows: Sequence[OlderRow]) -> int:
        def work(connection: Connection) -> int:
            found = sum(self._remove_older(connection, job, one) for one in rows)
            with translated("note deletes as cleared"):
                pair_notes.keep_cleared(partial(run, connection), job, [one.deleted.id for one in rows])
            return found

        return self._like_a_user({one.table.target for one in rows}, work)

    def note_standing(self, job: str, row: StandingRow) -> None:
        connection, _ = self._transaction()
        with translated("note a row that stays", row.table):
            pair_notes.keep_standing(partial(run, connection), job, row)

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        connection = self._outside()
        with translated("read notes of rows that stay"):
            found = pair_notes.standing(partial(ask, connection), job, limit, after)
            connection.commit()
        return found

    def write_again(self, job: str, rows: Sequence[RowAgain]) -> int:
        def work(connection: Connection) -> int:
            found = sum(self._write_again(connection, one) for one in rows)
            with translated("remove notes of rows that stay"):
                pair_notes.forget_standing(partial(run, connection), job, [one.standing.id for one in rows])
            return found

        return self._like_a_user({one.table.target for one in rows}, work)

    def _like_a_user(self, targets: Collection[TableId], work: Callable[[Connection], int]) -> int:
        """Do the work in a transaction of its own, which no marker tells from those of users."""
        connection = self._outside()
        with translated("ask whether the target is the source"):
            self._own_source.refuse(connection, self._job, targets)
            connection.commit()
        try:
            with logged(connection):
                while True:
                    try:
                        found = work(connection)
                        break
                    except NotInside as missing:  # a staging table, by which some keys are found
                        connection.rollback()
                        assert self._stages is not None
                        self._stages.rolled_back()
                        with translated("make a staging table"):
                            self._stages.before({missing.piece: None})
                with translated("commit rows of a pair"):
                    connection.commit()
            assert self._stages is not None
            with translated("empty staging tables"):
                self._stages.committed()
        except BaseException:  # whatever it was, it is passed on
            self.rollback()
            raise
        return found

    def _remove_older(self, connection: Connection, job: str, one: OlderRow) -> int:
        assert self._stages is not None
        table, age = one.table, Age(one.newest_by, one.deleted.age)
        with translated(f"remove a row of {table.target}", table.source, dict(one.key)):
            there = conflicts.row(connection, table, one.key, age, self._rules.nul)
            if there is None or not one.goes(there):
                return 0
            single_rows.change(self._stages, RowChange(table, DELETE, dict(one.key)), self._rules.nul)
            conflicts.note(connection, job, replace(one.conflict, found=there.values))
        return 1

    def _write_again(self, connection: Connection, one: RowAgain) -> bool:
        assert self._stages is not None
        table, noted = one.table, one.standing
        with translated(f"write a row of {table.target}", table.source, dict(noted.key)):
            there = conflicts.row(connection, table, noted.key, Age(one.newest_by, noted.age), self._rules.nul)
            changes = one.changes(there)
            for change in changes:
                single_rows.change(self._stages, change, self._rules.nul)
        return bool(changes)

    def pair_notes(self, job: str) -> PairNotes:
        connection = self._outside()
        with translated("read notes of deletes"):
            found = pair_notes.read(partial(ask, connection), job)
            connection.commit()
        return found

    def forget_notes(self, job: str, deleted: Collection[str], cleared: Collection[str]) -> None:
        connection = self._outside()
        with translated("remove notes of deletes"):
            pair_notes.forget(partial(run, connection), job, deleted, cleared)
            connection.commit()

    def _outside(self) -> Connection:
        """Return the session, in which no epoch is open."""
        self.rollback()
        return self._session()

    # --- ending -------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        connection, stages = self._transaction()
        self._let_rows_in()
        self._forget_held()
        if self._written:
            with translated("ask whether the target is the source"):
                self._own_source.refuse(connection, self._job, self._written)
        with translated("commit an epoch"):
            connection.commit()
        self._is_open = False
        with translated("empty staging tables"):
            stages.committed()
            drop_taken(connection, self._taken)
        self._taken = []

    def sweep(self) -> None:
        self.rollback()
        with translated("remove staging tables"):
            sweep(self._session(), self._job)

    def rollback(self) -> None:
        self._is_open = False
        self._forget_held()
        if self._open is None or self._stages is None:
            return
        try:
            self._open.rollback()
        except (pymysql.err.Error, OSError):
            self.close()  # the server has rolled back what the line lost
        else:
            self._stages.rolled_back()

    def close(self) -> None:
        self._forget_held()
        self._appliers.close()
        if self._open is not None and self._open.open:
            self._open.close()
        self._open = self._stages = self._followers = None
        self._is_open = False

    # --- the connection -----------------------------------------------------------------------------------------------

    def _session(self) -> Connection:
        """Return the claimed owner's connection, opened again after it was lost: the compare-and-set says where it stands."""
        if not self._owner:
            raise StateError("nothing was claimed yet")
        if self._open is None or not self._open.open:
            connection = self._opened(session_name(self._job, self._owner))
            self._open, self._stages, self._is_open = connection, StagingTables(connection), False
        return self._open

    def _opened(self, name: str) -> Connection:
        """Return a session that holds the lock of this name."""
        connection = connect(self._endpoint, name, checks_keys=self._keys_act)
        try:
            with translated("take the lock of the job's owner"):
                connection.select_db(STATE)  # a DELETE that names a table by its alias wants to be in some database
                ownership.lock(connection, name)
                connection.commit()
        except BaseException:  # whatever it was, it is passed on
            connection.close()
            raise
        return connection

    def _transaction(self, writes: TargetTable | None = None) -> tuple[Connection, StagingTables]:
        """Return the open epoch. A connection that was lost inside it is not opened again here: the epoch is over."""
        if self._open is None or self._stages is None or not self._is_open:
            raise StateError("no epoch is open")
        if writes is not None:
            self._written.add(writes.target)
            self._refuse_altered(self._stages, writes)
        return self._open, self._stages

    def _refuse_altered(self, stages: StagingTables, table: TargetTable) -> None:
        """Raise Conflict where columns are no longer what the values are written for. They stay so until the epoch ends."""
        with translated(f"look at {table.target}", table.source):
            why = self._altered(stages, table)
        if why:
            raise Conflict(table.source, why)

    def _altered(self, stages: StagingTables, table: TargetTable) -> str:
        """Say which column is no longer what the values are written for, "" for none. Driver errors pass."""
        if not standing.depends_on_definition(table):
            return ""
        known = stages.known.of(table.target)
        if self._suits.get(table) is known:
            return ""
        why = self._unlike(stages, table)
        if not why:
            self._suits[table] = known
        return why

    def _unlike(self, stages: StagingTables, table: TargetTable) -> str:
        if not standing.depends_on_definition(table):
            return ""
        return standing.unlike(stages.known.of(table.target), table, self._rules, family(stages.connection))

    def _let_rows_in(self, of: TargetTable | None = None) -> None:
        """Let in what is held back, of one table or of all, before something concerns many rows. Raises Conflict."""
        if self._held is not None:
            with translated("let rows in that were held back"):
                self._held.settle(of)

    def _forget_held(self) -> None:
        if self._held is not None:
            self._held.ended()
        self._held = None

    @contextmanager
    def _waiting_for_stages(self, alone: bool = False) -> Iterator[None]:
        """Note a staging table that cannot be made now, for `begin`. A change that goes `alone` already is tried again."""
        try:
            yield
        except NotInside as missing:
            self._wanted[missing.piece] = None
            if alone:
                raise TargetBusy(missing.what, table=str(missing.table), hint="tried again by itself") from None
            raise
