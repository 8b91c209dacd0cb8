"""Writer and Stager of the twin: epochs on copies of the tables that they touch, put in place when they commit."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from anabranch.connectors.memory.database import Database, Relation, Texts, Transaction
from anabranch.connectors.memory.target.store import place_of
from anabranch.contracts import Begun, Conflict, Emptying, Enforced, ValueRules
from anabranch.errors import Fenced, StateError
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import Age, FoundRow, NotedConflict
from anabranch.rows.lines import texts
from anabranch.rows.net import (
    DELETE,
    INSERT,
    Cascade,
    CascadeAction,
    CascadeRule,
    RowChange,
    StagedNet,
    TableNet,
    TargetTable,
    Updates,
)

DELTA = "_delta"


class MemoryWriter:
    """Delivery: what an epoch does and its checkpoint are there together or not at all; a fenced owner commits nothing."""

    def __init__(self, database: Database, rules: ValueRules) -> None:
        self._database, self._rules = database, rules
        self._job, self._owner = "", ""
        self._open: Transaction | None = None
        self._moves: tuple[Checkpoint, Checkpoint] | None = None
        self._states: list[TableState] = []
        self._conflicts: list[NotedConflict] = []
        self._asides: dict[int, AsideChange] = {}  # of this epoch, by number
        self._forgotten: list[TableId] = []
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
            state.aside |= self._asides
            for number, discarded in self._settled.items():
                found = state.aside.pop(number)
                state.aside |= {number: replace(found, wish="", is_discarded=True)} if discarded else {}
            self._database.commit(done)
        self.rollback()

    def rollback(self) -> None:
        self._open, self._moves, self._states, self._conflicts = None, None, [], []
        self._asides, self._settled, self._forgotten = {}, {}, []

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
        _refuse_newer(net, relation)
        for key in _rows(net.table, net.deletes):
            _remove(net.table, relation, key, net.checked)
        _exchange(net.table, relation, [one for one in net.updates if one.contends])
        for updates in sorted((one for one in net.updates if not one.contends), key=lambda one: not one.moves_keys):
            again += _update(net.table, relation, updates, net.checked)
        for values in _rows(net.table, net.inserts):
            _insert(net.table, relation, values, net.checked)
        _merge_multiset(net, relation)
        return again

    def merge_staged(self, staged: StagedNet) -> list[dict[str, str | None]]:
        net = self._database.staged.pop(staged.staging, None)
        if net is None or (_counts(net), _digest(net)) != (dict(staged.counts), staged.digest):
            raise Conflict(staged.table.source, "what was staged is not there as it was staged")
        return self.merge(net)

    def truncate(self, tables: Sequence[TargetTable], how: Emptying) -> None:
        for table in tables:
            self._relation(table).rows.clear()

    # --- single rows --------------------------------------------------------------------------------------------------

    def change(self, row: RowChange) -> bool:
        relation, table = self._relation(row.table), row.table
        if row.operation == INSERT:
            _insert(table, relation, row.values, row.checked)
            return True
        if row.operation == DELETE:
            return _remove(table, relation, row.old_key or row.old_values, row.checked)
        return _change_row(table, relation, row.old_key or row.old_values, row.values, row.checked)

    def row(self, table: TargetTable, key: Texts, age: Age | None) -> FoundRow | None:
        relation = self._relation(table)
        place = relation.find(key)
        if place is None:
            return None
        values = relation.texts(relation.rows[place])
        is_newer = age is not None and _is_later(values[age.column], age.value, age.or_equal)
        return FoundRow({name: values[name] for name in table.columns}, is_newer)

    def note(self, job: str, conflict: NotedConflict) -> None:
        self._transaction()
        self._conflicts.append(conflict)

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
        parents = list(_plain_rows(cascade.child, cascade.columns, cascade.parents))
        new = list(_plain_rows(cascade.child, cascade.columns, cascade.replacements)) or [{}] * len(parents)
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
                _put(child, relation, after)
            self._follow(child, before, after, rules)

    def _follow(self, table: TargetTable, before: Texts, after: Texts | None, rules: Sequence[CascadeRule]) -> None:
        """Change the next level: children of a row that went or changed."""
        for rule in (rule for rule in rules if rule.parent.target == table.target):
            old = {c: before[p] for c, p in zip(rule.columns, rule.parent_columns, strict=True)}
            new = {c: after[p] for c, p in zip(rule.columns, rule.parent_columns, strict=True)} if after else {}
            action = rule.on_delete if after is None else rule.on_update
            if action is not None and old != new and None not in old.values():
                self._act(rule.child, action, old, new, rules)


class MemoryStager:
    def __init__(self, database: Database) -> None:
        self._database = database

    def stage(self, job: str, nets: Iterable[TableNet]) -> list[StagedNet]:
        found = []
        for net in nets:
            name = uuid.uuid4().hex
            self._database.staged[name] = net
            found.append(StagedNet(net.table, name, _counts(net), _digest(net), net.checked))
        return found

    def close(self) -> None:
        pass


# --- rows -------------------------------------------------------------------------------------------------------------


def _place(checkpoint: Checkpoint) -> tuple[int, int]:
    return checkpoint.epoch, checkpoint.position.sequence


def _rows(table: TargetTable, rows: Any) -> Iterator[dict[str, str | None]]:
    """Yield rows of an Arrow table as text forms by column; none for None."""
    return _plain_rows(table, rows.column_names if rows is not None else (), rows)


def _plain_rows(table: TargetTable, names: Sequence[str], rows: Any) -> Iterator[dict[str, str | None]]:
    if rows is not None and rows.num_rows:
        columns = [texts(table.type_of(name), rows.column(name)).to_pylist() for name in names]
        yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _remove(table: TargetTable, relation: Relation, values: Texts, checked: bool) -> bool:
    place = relation.find(values)
    if place is not None:
        del relation.rows[place]
    elif checked:
        raise Conflict(table.source, "delete: the row is not there", _named(table, values))
    return place is not None


def _refuse_newer(net: TableNet, relation: Relation) -> None:
    parts = [(net.deletes, net.ages), *((one.old_keys, one.ages) for one in net.updates)]
    for rows, ages in parts if net.newest_by else ():
        age_texts = _plain_rows(
            net.table, [net.newest_by], pa.table({net.newest_by: ages}) if ages is not None else None
        )
        for key, age in zip(_rows(net.table, rows), age_texts, strict=True):
            place = relation.find(key)
            there = relation.texts(relation.rows[place])[net.newest_by] if place is not None else None
            if _is_later(there, age[net.newest_by]):
                raise Conflict(
                    net.table.source, f"a row of the target is newer by {net.newest_by}", _named(net.table, key)
                )


def _is_later(there: str | None, value: str | None, or_equal: bool = False) -> bool:
    """Compare by number where both are numbers, else by text, which is right for dates and times of one length."""
    if there is None or value is None:
        return there is not None
    try:
        one, other = Decimal(there), Decimal(value)
        return one >= other if or_equal else one > other
    except InvalidOperation:
        return there >= value if or_equal else there > value


def _insert(table: TargetTable, relation: Relation, values: Texts, checked: bool) -> None:
    place = relation.find({name: values[name] for name in table.key}) if table.key else None
    if place is not None and checked:
        raise Conflict(table.source, "insert: the key is there already", _named(table, values))
    kept = relation.texts(relation.rows.pop(place)) if place is not None else {}
    _put(table, relation, {**kept, **values})


def _put(table: TargetTable, relation: Relation, values: Texts) -> None:
    """Put a row at a key that is free."""
    if not all(check(values) for check in relation.checks):
        raise Conflict(table.source, "a check is broken", _named(table, values))
    met = relation.meets(values)
    if met is not None:
        raise Conflict(table.source, f"the unique key ({', '.join(met)}) is there already", _named(table, values))
    relation.put(relation.row(values))


def _exchange(table: TargetTable, relation: Relation, contending: Sequence[Updates]) -> None:
    """Take every row out before the first comes back, so that keys and unique values may be handed on."""
    pairs = [
        pair
        for updates in contending
        for pair in zip(_rows(table, updates.old_keys), _rows(table, updates.values), strict=True)
    ]
    taken = [(_take(table, relation, old), new) for old, new in pairs]
    for before, new in taken:
        _insert(table, relation, {**before, **new}, True)


def _update(table: TargetTable, relation: Relation, updates: Updates, checked: bool) -> list[dict[str, str | None]]:
    """Update rows. Returns the keys of missing ones."""
    pairs = zip(_rows(table, updates.old_keys), _rows(table, updates.values), strict=True)
    found = [(old, new, _change_row(table, relation, old, new, checked)) for old, new in pairs]
    return [{name: {**old, **new}[name] for name in table.key} for old, new, was_there in found if not was_there]


def _take(table: TargetTable, relation: Relation, key: Texts) -> dict[str, str | None]:
    place = relation.find(key)
    if place is None:
        raise Conflict(table.source, "update: the row is not there", _named(table, key))
    return relation.texts(relation.rows.pop(place))


def _change_row(table: TargetTable, relation: Relation, old: Texts, new: Texts, checked: bool) -> bool:
    """Set values in one row. Not checked, it may be at its new place already (K3): then the old one goes."""
    place, arrived = relation.find(old), None
    if table.key and any(new.get(name, old[name]) != old[name] for name in table.key):
        arrived = relation.find({name: new.get(name, old[name]) for name in table.key})
        if arrived is not None and checked:
            raise Conflict(table.source, "update: the new key is there already", _named(table, old))
    if place is None and arrived is None:
        if checked:
            raise Conflict(table.source, "update: the row is not there", _named(table, old))
        return False
    before = relation.rows.pop(place) if place is not None else None
    if arrived is not None:
        before = relation.rows.pop(arrived)
    assert before is not None
    _put(table, relation, {**relation.texts(before), **new})
    return True


def _merge_multiset(net: TableNet, relation: Relation) -> None:
    if net.multiset is None:
        return
    names = [name for name in net.multiset.column_names if name != DELTA]
    deltas = net.multiset.column(DELTA).to_pylist()
    rows = list(zip(_plain_rows(net.table, names, net.multiset), deltas, strict=True))
    for values, delta in rows:
        for _ in range(-delta):
            _remove(net.table, relation, values, True)
    for values, delta in rows:
        for _ in range(delta):
            _put(net.table, relation, values)


def _named(table: TargetTable, values: Texts) -> dict[str, str | None]:
    return {name: values.get(name) for name in table.key}


# --- staging ----------------------------------------------------------------------------------------------------------


def _parts(net: TableNet) -> dict[str, Any]:
    updates = {f"update{i}": one.values for i, one in enumerate(net.updates)}
    parts = {"delete": net.deletes, "insert": net.inserts, "multiset": net.multiset, **updates}
    return {name: part for name, part in parts.items() if part is not None}


def _counts(net: TableNet) -> dict[str, int]:
    return {name: part.num_rows for name, part in _parts(net).items()}


def _digest(net: TableNet) -> int:
    """Return a digest that is equal for equal rows within a process."""
    rows = Counter((name, str(row)) for name, part in _parts(net).items() for row in part.to_pylist())
    return hash(frozenset(rows.items()))
