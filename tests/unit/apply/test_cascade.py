"""Foreign-key actions that the log leaves out (K1), against a source that does them and a target that does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.apply.cascades.cascade import refuse_far_cascades
from anabranch.apply.cascades.takeovers import takeovers_in
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext
from anabranch.apply.images import order_of
from anabranch.apply.plan import group, stages
from anabranch.apply.row_steps import RemovedByKeys, steps
from anabranch.apply.work import Work
from anabranch.errors import StateError
from anabranch.model.schema import Action
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Chunk
from anabranch.rows.net import Cascade, CascadeAction, RowChange, TableNet
from rigs.chunks import INT, chunk_of, context, reference, schema

PARENT = schema("parent", {"id": INT, "v": INT}, ["id"])
CHILD = schema("child", {"id": INT, "pid": INT}, ["id"], [reference(["pid"], "parent", Action.CASCADE, Action.CASCADE)])
GRAND = schema("grand", {"id": INT, "cid": INT}, ["id"], [reference(["cid"], "child", Action.CASCADE)])
NOTE = schema("note", {"id": INT, "pid": INT}, ["id"], [reference(["pid"], "parent", Action.SET_NULL, Action.CASCADE)])
ALL = [PARENT, CHILD, GRAND, NOTE]
FOREIGN = {"child": "pid", "grand": "cid", "note": "pid"}

State = dict[str, dict[int, dict[str, Any]]]


class Mismatch(Exception):
    """What a Writer would call a conflict."""


class ModelTarget:
    """Carries stages out as a Writer must: checks, no enforcement, cascades by rule."""

    def __init__(self, state: State, context: ApplyContext) -> None:
        self.told: set[tuple[str, int]] = set()
        self.state = {name: {k: dict(v) for k, v in rows.items()} for name, rows in state.items()}
        self.context = context

    def merge(self, net: TableNet) -> None:
        rows = self.state[net.table.source.name]
        for key in net.deletes.to_pylist() if net.deletes else []:
            if rows.pop(key["id"], None) is None and net.checked:
                raise Mismatch
        for update in sorted(net.updates, key=lambda u: not u.moves_keys):
            for old, new in zip(update.old_keys.to_pylist(), update.values.to_pylist(), strict=True):
                row = rows.pop(old["id"], None)
                if row is None and net.checked:
                    raise Mismatch
                if row is not None:
                    self.put(rows, row | new)
        for new in net.inserts.to_pylist() if net.inserts else []:
            if net.checked:
                self.put(rows, new)
            else:
                rows[new["id"]] = new

    def put(self, rows: dict[int, dict[str, Any]], row: dict[str, Any]) -> None:
        if row["id"] in rows:
            raise Mismatch
        rows[row["id"]] = row

    def cascade(self, cascade: Cascade) -> list[int]:
        rows, column = self.state[cascade.child.source.name], cascade.columns[0]
        olds = [p[column] for p in cascade.parents.to_pylist()]
        news = [p[column] for p in cascade.replacements.to_pylist()] if cascade.replacements else [None] * len(olds)
        moves = dict(zip(olds, news, strict=True))
        hit = [key for key, row in rows.items() if row[column] in moves]
        for key in hit:
            if cascade.action is CascadeAction.DELETE:
                row = rows.pop(key)
                self.follow(cascade.child.source.name, row["id"], cascade)
            else:
                rows[key][column] = moves[rows[key][column]]
        return hit if cascade.tells_keys else []

    def follow(self, table: str, key: int, cascade: Cascade) -> None:
        for child, column in FOREIGN.items():
            parent = {"child": "parent", "note": "parent", "grand": "child"}[child]
            if parent == table and any(rule.child.source.name == child for rule in cascade.rules):
                rows = self.state[child]
                for k in [k for k, r in rows.items() if r[column] == key]:
                    if child == "note":
                        rows[k][column] = None
                    else:
                        del rows[k]
                        self.follow(child, k, cascade)

    def change(self, change: RowChange) -> None:
        rows = self.state[change.table.source.name]
        values = {k: None if v is None else int(v) for k, v in change.values.items()}
        if change.operation == "insert":
            if change.checked:
                self.put(rows, values)
            else:
                rows[values["id"]] = values
            return
        row = rows.pop(int(change.old_key["id"]), None)
        if row is None and change.checked:
            raise Mismatch
        if change.operation == "update" and row is not None:
            self.put(rows, row | values)


@st.composite
def histories(draw):
    """Start state, and what the log shows of changes by a source that cascades."""
    state: State = {"parent": {}, "child": {}, "grand": {}, "note": {}}
    parents = {"child": "parent", "note": "parent", "grand": "child"}

    def possible(name: str):
        return sorted(state[parents[name]]) if name in parents else [0]

    def insert(name: str):
        free = [k for k in range(1, 5) if k not in state[name]]
        if not free or not possible(name):
            return None
        key, value = draw(st.sampled_from(free)), draw(st.sampled_from(possible(name)))
        state[name][key] = {"id": key, FOREIGN.get(name, "v"): value}
        return (name, "i", dict(state[name][key]))

    def delete(name: str):
        if not state[name]:
            return None
        row = state[name].pop(draw(st.sampled_from(sorted(state[name]))))
        gone(name, row["id"])
        return (name, "d", row)

    def gone(name: str, key: int):
        for child in [c for c, p in parents.items() if p == name]:
            for k in [k for k, r in state[child].items() if r[FOREIGN[child]] == key]:
                if child == "note":
                    state[child][k]["pid"] = None
                else:
                    del state[child][k]
                    gone(child, k)

    def update(name: str):
        if not state[name] or not possible(name):
            return None
        key = draw(st.sampled_from(sorted(state[name])))
        before = dict(state[name][key])
        state[name][key][FOREIGN.get(name, "v")] = draw(st.sampled_from(possible(name) if name in parents else [1, 2]))
        return (name, "u", before, dict(state[name][key]))

    def rekey():
        """A parent changes its key: children follow unseen."""
        free = [k for k in range(1, 7) if k not in state["parent"]]
        if not free or not state["parent"]:
            return None
        old, new = draw(st.sampled_from(sorted(state["parent"]))), draw(st.sampled_from(free))
        before = state["parent"].pop(old)
        state["parent"][new] = before | {"id": new}
        for child in ("child", "note"):
            for r in state[child].values():
                r["pid"] = new if r["pid"] == old else r["pid"]
        return ("parent", "u", before, dict(state["parent"][new]))

    for _ in range(draw(st.integers(0, 8))):
        insert(draw(st.sampled_from(["parent", "parent", "child", "grand", "note"])))
    start = {n: {k: dict(r) for k, r in rows.items()} for n, rows in state.items()}
    moments = [start]
    transactions = []
    for _ in range(draw(st.integers(1, 9))):
        changes = []
        for _ in range(draw(st.integers(1, 2))):
            kind = draw(st.sampled_from([insert, insert, delete, update, None]))
            name = draw(st.sampled_from(["parent", "child", "grand", "note"]))
            change = kind(name) if kind else rekey()
            if change:
                changes.append(change)
        transactions.append(changes)
        moments.append({n: {k: dict(r) for k, r in rows.items()} for n, rows in state.items()})
    return moments, transactions


def carry_out(start: State, transactions, context: ApplyContext, last: State | None = None) -> State:
    """`last`: what the source has in the end, from which keys that a cascade told are read again."""
    chunk = chunk_of(transactions, ALL)
    part = group([chunk], context)
    target = ModelTarget(start, context)
    try:
        planned = stages(part, context)
        for number, stage in enumerate(planned, 1):
            for net in stage.nets:
                target.merge(net)
            told = {(c.child.source.name, key) for c in stage.cascades for key in target.cascade(c)}
            target.told |= told
            if told and number < len(planned):
                raise Mismatch
        return read_again(target, last)
    except (Mismatch, NeedsSlowWay):
        return one_by_one(start, chunk, context, last)


def one_by_one(start: State, chunk: Chunk, context: ApplyContext, last: State | None = None) -> State:
    """As the applier: from one transaction to the next, rows that wait to be read again are left out."""
    target = ModelTarget(start, context)
    for sequence in range(1, chunk.last_sequence + 1):
        part = group([chunk], context).within(order_of(sequence, 1), order_of(sequence + 1, 1))
        states = {t: TableState(t, t, "loading", schema=f.schema) for t, f in context.tables.items()}
        work = Work(context, states, lambda table: None)
        for step in steps(part, context, RemovedByKeys()):
            if isinstance(step, RowChange):
                if not work.leaves_out(step):
                    target.change(step)
            else:
                assert isinstance(step, Cascade)
                work.reread(step.child.source, [{"id": str(key)} for key in target.cascade(step)])
        work.reread_waiting(part)
        context = work.context
    target.told |= {(t.name, int(key or 0)) for t, f in context.tables.items() for (key,) in f.waiting}
    return read_again(target, last)


def read_again(target: ModelTarget, last: State | None) -> State:
    for name, key in target.told if last else ():
        assert last
        target.state[name].pop(key, None)
        if key in last[name]:
            target.state[name][key] = last[name][key]
    return target.state


@settings(max_examples=250, deadline=None)
@given(histories())
def test_rule_01_cascades_lead_where_the_source_went(history) -> None:
    moments, transactions = history
    assert carry_out(moments[0], transactions, context(ALL)) == moments[-1]
    assert one_by_one(moments[0], chunk_of(transactions, ALL), context(ALL)) == moments[-1]


@settings(max_examples=250, deadline=None)
@given(histories(), st.data())
def test_rule_01_also_in_the_load_window(history, data) -> None:
    """Each table was loaded at moments between its low and high, row by row; the stream begins before all of them.

    Grandchildren are loaded after their parents' window (load/order.py): what a cascade does to them is told by rows of
    the table between, which a later snapshot of that table no longer has. The table between is read at one moment, as
    it follows its parent's key and is removed with it. Where a parent takes over a value that another
    one had in the same window, the children that a cascade met are read again."""
    moments, transactions = history
    last = len(transactions)
    windows, loaded = {}, {}
    for one in ALL:
        low = data.draw(st.integers(windows["child"][1] if one is GRAND else 0, last))
        high = low if one is CHILD else data.draw(st.integers(low, last))
        windows[one.id.name] = (low, high)
        loaded[one.id.name] = {}
        for key in sorted({key for moment in moments for key in moment[one.id.name]}):
            row = moments[data.draw(st.integers(low, high))][one.id.name].get(key)
            if row is not None:
                loaded[one.id.name][key] = dict(row)
    part = takeovers_in([chunk_of(transactions, ALL)], context(ALL, windows))
    assert carry_out(loaded, transactions, part, moments[-1]) == moments[-1]
    assert one_by_one(loaded, chunk_of(transactions, ALL), part, moments[-1]) == moments[-1]


def test_rule_01_a_child_put_under_a_cleared_parent_after_a_window_in_the_same_group() -> None:
    """A parent that goes in the child's window is judged coarsely; what comes after the window is still judged."""
    gone = {n: {"id": n, "v": 0} for n in (1, 2)}
    again = [("parent", "d", gone[2]), ("parent", "i", gone[2]), ("child", "i", {"id": 9, "pid": 2})]
    start: State = {"parent": {k: dict(v) for k, v in gone.items()}, "child": {}, "grand": {}, "note": {}}
    before = [("child", "i", {"id": 8, "pid": 2})]
    ended = carry_out(start, [[("parent", "d", gone[1])], before, again], context(ALL, {"child": (0, 1)}))
    assert ended["child"] == {9: {"id": 9, "pid": 2}}


def test_rule_01_a_delete_of_many_parents_is_one_stage() -> None:
    transactions = [[("parent", "d", {"id": n, "v": 0})] for n in range(50)]
    whole = context(ALL)
    (stage,) = stages(group([chunk_of(transactions, ALL)], whole), whole)
    assert {c.child.source.name for c in stage.cascades} == {"child", "note"}
    assert stage.cascades[0].parents.num_rows == 50


@pytest.mark.parametrize("order", ["parent first", "child first"])
def test_rule_01_a_child_put_under_a_cleared_parent_starts_a_new_stage(order: str) -> None:
    delete, insert = ("parent", "d", {"id": 1, "v": 0}), ("child", "i", {"id": 9, "pid": 1})
    again = ("parent", "i", {"id": 1, "v": 0})
    changes = [delete, again, insert] if order == "parent first" else [insert, delete]
    whole = context(ALL)
    assert len(stages(group([chunk_of([changes], ALL)], whole), whole)) == (2 if order == "parent first" else 1)


def test_rule_01_children_of_a_key_that_another_parent_took_over_are_told() -> None:
    """A is at 1 and moves to 6, B moves from 4 to 1; B's child was loaded after both: the replay moves it to 6."""
    moves = [
        [("parent", "u", {"id": 1, "v": 0}, {"id": 6, "v": 0})],
        [("parent", "u", {"id": 4, "v": 0}, {"id": 1, "v": 0})],
    ]
    loaded = {
        "parent": {1: {"id": 1, "v": 0}, 6: {"id": 6, "v": 0}},
        "child": {9: {"id": 9, "pid": 1}},
        "grand": {},
        "note": {},
    }
    windows = {"parent": (0, 2), "child": (0, 2)}
    blind = context(ALL, windows)
    assert carry_out(loaded, moves, blind)["child"] == {9: {"id": 9, "pid": 6}}
    seeing = takeovers_in([chunk_of(moves, ALL)], blind)
    (stage,) = stages(group([chunk_of(moves, ALL)], seeing), seeing)
    assert {c.child.source.name: c.tells_keys for c in stage.cascades} == {"child": True, "note": False}
    assert carry_out(loaded, moves, seeing, loaded)["child"] == {9: {"id": 9, "pid": 1}}


def test_rule_08_a_cut_leaves_an_update_whole() -> None:
    """The parent goes and comes again, then a child moves under it: the stage begins before both images of the child."""
    changes = [("parent", "d", {"id": 1, "v": 0}), ("parent", "i", {"id": 1, "v": 0})]
    moved = [("child", "u", {"id": 9, "pid": 2}, {"id": 9, "pid": 1})]
    whole = context(ALL)
    first, second = stages(group([chunk_of([changes, moved], ALL)], whole), whole)
    (net,) = second.nets
    assert first.cascades and net.deletes is None and net.inserts is None
    assert [u.values.to_pylist() for u in net.updates] == [[{"pid": 1}]]


CLEARED = schema(
    "cleared", {"id": INT, "pid": INT}, ["id"], [reference(["pid"], "parent", Action.CASCADE, Action.SET_NULL)]
)


@pytest.mark.parametrize(
    ("changes", "does"),
    [
        ([("u", {"id": 1, "v": 0}, {"id": 2, "v": 0}), ("d", {"id": 2, "v": 0})], {"set null": [1], "delete": [2]}),
        (
            [("u", {"id": 1, "v": 0}, {"id": 2, "v": 0}), ("u", {"id": 2, "v": 0}, {"id": 1, "v": 0})],
            {"set null": [1, 2]},
        ),
    ],
)
def test_rule_01_children_that_are_cleared_follow_no_further(changes: list[tuple], does: dict[str, list[int]]) -> None:
    seeing = context([PARENT, CLEARED])
    part = group([chunk_of([[("parent", *change)] for change in changes], [PARENT, CLEARED])], seeing)
    found: dict[str, list[int]] = {}
    for stage in stages(part, seeing):
        for one in stage.cascades:
            found.setdefault(one.action.value, []).extend(one.parents.column("pid").to_pylist())
    assert found == does


def test_a_foreign_key_reaches_children_among_rows_of_others_only_from_parents_among_others() -> None:
    known = context([PARENT, CHILD])
    states = {one.id: TableState(one.id, one.id, "streaming") for one in (PARENT, CHILD)}
    kept = {**states, CHILD.id: replace(states[CHILD.id], facts=Facts(kept=True))}
    for others, there in (((), states), ((PARENT.id,), states), ((PARENT.id, CHILD.id), states), ((PARENT.id,), kept)):
        refuse_far_cascades(known, there, others)
    for others, there in (((CHILD.id,), states), ((), kept)):
        with pytest.raises(StateError, match=r"shop\.child has rows that are not this job's, shop\.parent has not"):
            refuse_far_cascades(known, there, others)
