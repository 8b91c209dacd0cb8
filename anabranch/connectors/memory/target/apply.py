"""Writer of the twin: epochs on copies of the tables that they touch, put in place when they commit.

What does not live here: changes of rows (row_changes.py), staging them (stage.py).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from anabranch.connectors.memory.database import Database, Relation, Texts, Transaction
from anabranch.connectors.memory.target.row_changes import (
    change_row,
    exchange,
    insert,
    is_later,
    merge_multiset,
    plain_rows,
    put,
    refuse_newer,
    remove,
    rows_of,
    update,
)
from anabranch.connectors.memory.target.stage import counts_of, digest_of
from anabranch.connectors.memory.target.store import keep_ddl, place_of
from anabranch.contracts import Begun, Conflict, Emptying, Enforced, OlderRow, RowAgain, ValueRules
from anabranch.errors import Fenced, StateError
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import Age, FoundRow, NotedConflict
from anabranch.rows.net import (
    DELETE,
    INSERT,
    UPDATE,
    Cascade,
    CascadeAction,
    CascadeRule,
    RowChange,
    StagedNet,
    TableNet,
    TargetTable,
)


class MemoryWriter:
    """Delivery: what an epoch does and its checkpoint are there together or not at all; a fenced owner commits nothing."""

    def __init__(self, database: Database, rules: ValueRules) -> None:
        self._database, self._rules = database, rules
        self._job, self._owner = "", ""
        self._open: Transaction | None = None
        self._moves: tuple[Checkpoint, Checkpoint] | None = None
        self._states: list[TableState] = []
        self._conflicts: list[NotedConflict] = []
        self._ddl: list[DdlChange] = []
        self._asides: dict[int, AsideChange] = {}  # of this epoch, by number
        self._forgotten: list[TableId] = []
        self._deleted: list[DeletedRow] = []
        self._standing: list[StandingRow] = []
        self._settled: dict[int, bool] = {}  # number -> is it kept, as discarded?

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def claim(self, job: str, owner: str) -> Checkpoint:
        with self._database.lock:
            state = self._database.job(job)
            if state.checkpoint is None:
                raise StateError("the target has no checkpoint of this job", job=job)
            self._job, self._owner = job, owner
            state.checkpoint = replace(state.checkpoint, owner=owner)
            return state.checkpoint

    def enforced(self) -> Enforced:
        """Return that nothing acts: the twin has no foreign keys and no triggers."""
        return Enforced(keys=False, triggers=False)

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> Begun:
        self.rollback()
        found = self._found(now)
        if _place(found) == _place(now):
            self._open, self._moves = Transaction(self._database, origin or None), (now, then)
            return Begun.OPEN
        return Begun.APPLIED if _place(found) == _place(then) else Begun.REPLAN

    def _found(self, now: Checkpoint) -> Checkpoint:
        found = self._database.job(self._job).checkpoint
        if not self._owner or found is None:
            raise StateError("nothing was claimed yet")
        if found.owner != now.owner:
            raise Fenced(f"the checkpoint belongs to another owner since epoch {found.epoch}", job=self._job)
        return found

    def commit(self) -> None:
        done, (now, then) = self._transaction(), self._moves or (None, None)
        assert now is not None and then is not None
        with self._database.lock:
            if _place(self._found(now)) != _place(now):
                raise Fenced("another epoch came between", job=self._job)
            state = self._database.job(self._job)
            state.checkpoint = replace(then, owner=self._owner)
            for one in self._states:
                there = state.tables.get(one.source)
                state.tables[one.source] = replace(one, schema=one.schema or (there.schema if there else None))
            for table in self._forgotten:
                if (known := state.tables.get(table)) is not None and known.is_untouched:
                    del state.tables[table]
            for conflict in self._conflicts:
                number = max((one.number for one in state.conflicts), default=0) + 1
                state.conflicts.append(replace(conflict, number=number, noted_at=time.time_ns() // 1000))
            for change in self._ddl:
                keep_ddl(state, change)
            state.deleted |= {one.id: one for one in self._deleted}
            state.standing |= {one.id: one for one in self._standing}
            state.aside |= self._asides
            for number, discarded in self._settled.items():
                found = state.aside.pop(number)
                state.aside |= {number: replace(found, wish="", is_discarded=True)} if discarded else {}
            self._database.commit(done)
        self.rollback()

    def rollback(self) -> None:
        self._open, self._moves, self._states, self._conflicts, self._ddl = None, None, [], [], []
        self._asides, self._settled, self._forgotten, self._deleted, self._standing = {}, {}, [], [], []

    def close(self) -> None:
        self.rollback()

    def save_table(self, job: str, state: TableState) -> None:
        self._transaction()
        self._states.append(state)

    def forget_table(self, job: str, table: TableId) -> None:
        self._transaction()
        self._forgotten.append(table)

    def sweep(self) -> None:
        self._database.staged.clear()

    def _transaction(self) -> Transaction:
        if self._open is None:
            raise StateError("no epoch is open")
        return self._open

    def _relation(self, table: TargetTable) -> Relation:
        return self._transaction().table(table.target)

    # --- net changes --------------------------------------------------------------------------------------------------

    def merge(self, net: TableNet) -> list[dict[str, str | None]]:
        relation, again = self._relation(net.table), []
        refuse_newer(net, relation)
        for key in rows_of(net.table, net.deletes):
            remove(net.table, relation, key, net.checked)
        exchange(net.table, relation, [one for one in net.updates if one.contends])
        for updates in sorted((one for one in net.updates if not one.contends), key=lambda one: not one.moves_keys):
            again += update(net.table, relation, updates, net.checked)
        for values in rows_of(net.table, net.inserts):
            insert(net.table, relation, values, net.checked)
        merge_multiset(net, relation)
        return again

    def merge_staged(self, staged: StagedNet) -> list[dict[str, str | None]]:
        net = self._database.staged.pop(staged.staging, None)
        if net is None or (counts_of(net), digest_of(net)) != (dict(staged.counts), staged.digest):
            raise Conflict(staged.table.source, "what was staged is not there as it was staged")
        return self.merge(net)

    def truncate(self, tables: Sequence[TargetTable], how: Emptying) -> None:
        for table in tables:
            self._relation(table).rows.clear()

    # --- single rows --------------------------------------------------------------------------------------------------

    def change(self, row: RowChange) -> bool:
        relation, table = self._relation(row.table), row.table
        if row.operation == INSERT:
            insert(table, relation, row.values, row.checked)
            return True
        if row.operation == DELETE:
            return remove(table, relation, row.old_key or row.old_values, row.checked)
        return change_row(table, relation, row.old_key or row.old_values, row.values, row.checked)

    def row(self, table: TargetTable, key: Texts, age: Age | None) -> FoundRow | None:
        relation = self._relation(table)
        place = relation.find(key)
        if place is None:
            return None
        values = relation.texts(relation.rows[place])
        is_newer = age is not None and is_later(values[age.column], age.value, age.or_equal)
        return FoundRow({name: values[name] for name in table.columns}, is_newer)

    def note(self, job: str, conflict: NotedConflict) -> None:
        self._transaction()
        self._conflicts.append(conflict)

    def note_ddl(self, job: str, change: DdlChange) -> None:
        self._transaction()
        self._ddl.append(change)

    @contextmanager
    def alone(self, at_once: bool = False) -> Iterator[None]:
        done, noted = self._transaction(), len(self._conflicts)
        before = {name: relation.copy() for name, relation in done.touched.items()}
        try:
            yield
        except BaseException:  # whatever it was: put back, and passed on
            done.touched = before
            del self._conflicts[noted:]
            raise

    # --- notes of a pair --------------------------------------------------------------------------------------------

    def note_deleted(self, job: str, deleted: DeletedRow) -> None:
        self._transaction()
        self._deleted.append(deleted)

    def remove_older(self, job: str, rows: Sequence[OlderRow]) -> int:
        self.rollback()
        found = 0
        with self._database.transaction() as open_:
            state = self._database.job(job)
            for one in rows:
                relation = open_.table(one.table.target)
                place = relation.find(one.key)
                there = relation.texts(relation.rows[place]) if place is not None else None
                age = one.deleted.age
                is_newer = there is not None and age is not None and is_later(there[one.newest_by], age)
                if there is None or not one.goes(FoundRow(there, is_newer)):
                    continue
                open_.delete(one.table.target, one.key)
                number = max((one.number for one in state.conflicts), default=0) + 1
                noted = replace(one.conflict, found=there, number=number, noted_at=time.time_ns() // 1000)
                state.conflicts.append(noted)
                found += 1
            state.cleared |= {one.deleted.id for one in rows}
        return found

    def note_standing(self, job: str, row: StandingRow) -> None:
        self._transaction()
        self._standing.append(row)

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        self.rollback()
        return self._database.standing(job, limit, after)

    def write_again(self, job: str, rows: Sequence[RowAgain]) -> int:
        self.rollback()
        found = 0
        with self._database.transaction() as open_:
            for one in rows:
                name, key = one.table.target, one.standing.key
                relation = open_.table(name)
                place = relation.find(key)
                values = relation.texts(relation.rows[place]) if place is not None else None
                is_newer = values is not None and is_later(values[one.newest_by], one.standing.age)
                changes = one.changes(FoundRow(values, is_newer) if values is not None else None)
                for change in changes:
                    if change.operation == INSERT:
                        open_.insert(name, change.values)
                    elif change.operation == UPDATE:
                        open_.update(name, key, change.values)
                    else:
                        open_.delete(name, key)
                found += bool(changes)
                self._database.job(job).standing.pop(one.standing.id, None)
        return found

    def pair_notes(self, job: str) -> PairNotes:
        self.rollback()
        return self._database.pair_notes(job)

    def forget_notes(self, job: str, deleted: Collection[str], cleared: Collection[str]) -> None:
        self.rollback()
        with self._database.lock:
            state = self._database.job(job)
            state.cleared -= set(cleared)
            for id in deleted:
                state.deleted.pop(id, None)

    def set_aside(self, job: str, change: AsideChange) -> int:
        self._transaction()
        number = max((*self._database.job(job).aside, *self._asides), default=0) + 1
        self._asides[number] = replace(change, number=number, set_aside_at=time.time_ns() // 1000)
        return number

    def settle_aside(self, job: str, before: TableState, numbers: Sequence[int], discarded: bool) -> None:
        self._transaction()
        state = self._database.job(job)
        waiting = [number for number in numbers if number in state.aside and not state.aside[number].is_discarded]
        if place_of(state.tables.get(before.source)) != place_of(before) or len(waiting) != len(numbers):
            raise Fenced("the table's state was changed meanwhile", job=job, table=str(before.source))
        self._settled |= dict.fromkeys(numbers, discarded)

    # --- cascades -----------------------------------------------------------------------------------------------------

    def cascade(self, cascade: Cascade, rules: Sequence[CascadeRule]) -> list[dict[str, str | None]]:
        if cascade.spares_children:
            return []  # no key of the twin acts: when the children go, all goes
        parents = list(plain_rows(cascade.child, cascade.columns, cascade.parents))
        new = list(plain_rows(cascade.child, cascade.columns, cascade.replacements)) or [{}] * len(parents)
        relation = self._relation(cascade.child)
        rows = list(map(relation.texts, relation.rows.values()))
        hit = [row for row in rows if any(old.items() <= row.items() for old in parents)] if cascade.tells_keys else []
        for old, values in zip(parents, new, strict=True):
            self._act(cascade.child, cascade.action, old, values, rules)
        return [{name: row[name] for name in cascade.child.key} for row in hit]

    def _act(
        self, child: TargetTable, action: CascadeAction, old: Texts, new: Texts, rules: Sequence[CascadeRule]
    ) -> None:
        relation = self._relation(child)
        for before in [row for row in map(relation.texts, relation.rows.values()) if old.items() <= row.items()]:
            place = relation.find(before)
            if place is None or relation.texts(relation.rows[place]) != before:
                continue  # keys have led back to it
            del relation.rows[place]
            after = None
            if action is not CascadeAction.DELETE:
                after = before | (dict(new) if action is CascadeAction.UPDATE else dict.fromkeys(old))
                put(child, relation, after)
            self._follow(child, before, after, rules)

    def _follow(self, table: TargetTable, before: Texts, after: Texts | None, rules: Sequence[CascadeRule]) -> None:
        """Change the next level: children of a row that went or changed."""
        for rule in (rule for rule in rules if rule.parent.target == table.target):
            old = {c: before[p] for c, p in zip(rule.columns, rule.parent_columns, strict=True)}
            new = {c: after[p] for c, p in zip(rule.columns, rule.parent_columns, strict=True)} if after else {}
            action = rule.on_delete if after is None else rule.on_update
            if action is not None and old != new and None not in old.values():
                self._act(rule.child, action, old, new, rules)


def _place(checkpoint: Checkpoint) -> tuple[int, int]:
    return checkpoint.epoch, checkpoint.position.sequence
