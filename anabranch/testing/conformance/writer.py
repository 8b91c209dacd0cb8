"""Conformance of a target: Writer, Stager and TargetStore, seen through its own TargetReader. The Loader: `loader.py`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from anabranch.apply.abilities import MergeWriter
from anabranch.contracts import Begun, Conflict, Emptying
from anabranch.errors import Fenced, StateError, TargetError, TargetUnavailable
from anabranch.model.position import Position
from anabranch.model.schema import Action, ForeignKey
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import Life, TableState, heard_of, park
from anabranch.rows.net import (
    DELETE,
    INSERT,
    UPDATE,
    Cascade,
    CascadeAction,
    CascadeRule,
    RowChange,
    TableNet,
    TargetTable,
    Updates,
)
from anabranch.testing.conformance.contending import (
    rule_08_pitfall_10_keys_are_shifted_with_what_the_job_does_not_write,
    rule_08_pitfall_11_unique_values_are_swapped_and_rotated,
    rule_08_pitfall_11_unique_values_of_deleted_rows_are_taken_over,
    rule_08_rows_that_contend_are_counted,
    rule_08_rows_that_set_other_columns_contend_with_each_other,
    rule_08_staged_rows_contend_over_several_pieces,
)
from anabranch.testing.conformance.epochs import (
    JOB,
    OWNER,
    RULES,
    Epochs,
    Line,
    Target,
    arrow,
    keys,
    make,
    rows,
    schema,
    table,
    three,
)
from anabranch.testing.conformance.subject import refuses

# --- the checkpoint (K9) ----------------------------------------------------------------------------------------------


def without_a_checkpoint_nothing_is_claimed(target: Target) -> None:
    with closing(target.connector.writer(RULES, False)) as writer:
        refuses(StateError, lambda: writer.claim(JOB, OWNER))


def rule_09_the_row_says_where_an_epoch_stands(target: Target) -> None:
    with Epochs(target) as epochs:
        first, then = epochs.now, epochs.next
        epochs.do(lambda writer: None)
        assert epochs.writer.begin(first, then) is Begun.APPLIED
        further = replace(then, epoch=then.epoch + 5, position=Position(999, "far"))
        assert epochs.writer.begin(first, further) is Begun.REPLAN
    with closing(target.connector.store()) as store:
        found = store.jobs.checkpoint(JOB)
    assert found == then


def rule_09_a_fenced_owner_commits_nothing(target: Target) -> None:
    of = make(target, table("a"))
    old = Epochs(target)
    with Epochs(target, "owner-2") as new:
        try:
            refuses(Fenced, lambda: _begin(old))
        finally:
            old.writer.close()
        new.merge(TableNet(of, inserts=arrow(("1", None, "new"))))
    assert rows(target, of) == [("1", None, "new")]


def _begin(epochs: Epochs) -> Begun:
    """A session that the new owner has ended is opened again, as the engine does."""
    try:
        return epochs.writer.begin(epochs.now, epochs.next)
    except TargetUnavailable:
        return epochs.writer.begin(epochs.now, epochs.next)


def _takes_origins(epochs: Epochs) -> bool:
    try:
        epochs.writer.begin(epochs.now, epochs.next, f"{JOB} north")
    except TargetError:
        return False
    epochs.writer.rollback()
    return True


def rule_21_an_epoch_may_come_from_elsewhere(target: Target) -> None:
    """Carry out an epoch that names an origin as any other, because an origin changes no row. A target whose log cannot name
    one refuses it. What the log says then is for a reader of that database to test."""
    of = make(target, table("a"))
    with Epochs(target) as epochs:
        if not _takes_origins(epochs):
            epochs.merge(TableNet(of, inserts=arrow(("1", None, ""))))
            assert [line[0] for line in rows(target, of)] == ["1"]
            return
        for number, origin in enumerate((f"{JOB} north", f"{JOB} north", "", f"{JOB} south", f"{JOB} north"), 1):
            net = TableNet(of, inserts=arrow((str(number), None, origin)))
            epochs.do(lambda writer, net=net: writer.merge(net), origin)  # type: ignore[misc]  # one default argument
        assert epochs.writer.begin(replace(epochs.now, epoch=0), epochs.now, "") is Begun.APPLIED
        last = epochs.now
    assert [line[0] for line in rows(target, of)] == ["1", "2", "3", "4", "5"]
    with closing(target.connector.store()) as store:
        assert store.jobs.checkpoint(JOB) == last


def what_is_rolled_back_leaves_nothing(target: Target) -> None:
    of = make(target, table("a"))
    with Epochs(target) as epochs:
        before = epochs.now
        assert epochs.writer.begin(epochs.now, epochs.next) is Begun.OPEN
        epochs.writer.merge(TableNet(of, inserts=arrow(("1", None, "x"))))
        epochs.writer.save_table(JOB, park(heard_of(of.source, of.target), "no"))
        epochs.writer.rollback()
        with closing(target.connector.store()) as store:
            assert store.jobs.checkpoint(JOB) == before and not store.states.tables(JOB)[of.source].is_parked
        assert rows(target, of) == []


def table_states_commit_with_the_epoch(target: Target) -> None:
    of = make(target, table("a"))
    state = park(
        TableState(of.source, of.target, Life.LOADING, 1, schema=schema(of), facts=Facts(others={"a": "b"})), "said so"
    )
    with Epochs(target) as epochs:
        epochs.do(lambda writer: writer.save_table(JOB, state))
        later = replace(state, changes_applied=7)
        without = replace(later, schema=None)  # which keeps the one that is there
        epochs.do(lambda writer: writer.save_table(JOB, without))
    with closing(target.connector.store()) as store:
        assert store.states.tables(JOB)[of.source] == later


def a_table_is_forgotten_with_the_epoch_unless_a_load_of_it_has_begun(target: Target) -> None:
    of = make(target, table("a"))
    names = [replace(of.source, name=name) for name in ("untouched", "begun", "made")]
    untouched, begun, made = (park(heard_of(name, name), "new") for name in names)
    begun, made = replace(begun, generation=1), replace(made, schema=replace(schema(of), id=made.source))

    def save(writer: MergeWriter) -> None:
        for state in (untouched, begun, made):
            writer.save_table(JOB, state)

    def forget(writer: MergeWriter) -> None:
        for state in (untouched, begun, made):
            writer.forget_table(JOB, state.source)

    with closing(target.connector.store()) as store, Epochs(target) as epochs:
        epochs.do(save)
        assert epochs.writer.begin(epochs.now, epochs.next) is Begun.OPEN
        forget(epochs.writer)
        epochs.writer.rollback()
        before = store.states.tables(JOB).keys()
        epochs.do(forget)
        assert before - store.states.tables(JOB).keys() == {untouched.source}


# --- net changes ------------------------------------------------------------------------------------------------------


def a_net_change_is_carried_out(target: Target) -> None:
    of = three(target)
    with Epochs(target) as epochs:
        updates = Updates(keys(2), arrow(("9", "zwei\t\\"), names=("parent", "word")))
        net = TableNet(of, deletes=keys(1), updates=(updates,), inserts=arrow(("4", None, "vier")))
        assert epochs.merge(net) == []
    assert rows(target, of) == [("2", "9", "zwei\t\\"), ("3", "1", None), ("4", None, "vier")]


def absent_columns_are_kept(target: Target) -> None:
    of = three(target)
    with Epochs(target) as epochs:
        epochs.merge(TableNet(of, updates=(Updates(keys(2), arrow((None,), names=("word",))),)))
    assert ("2", "1", None) in rows(target, of)


def a_row_may_move_to_another_key(target: Target) -> None:
    of = three(target)
    with Epochs(target) as epochs:
        moving = Updates(keys(1), arrow(("10", "eins"), names=("id", "word")), moves_keys=True)
        epochs.merge(TableNet(of, updates=(moving,)))
    assert rows(target, of) == [("10", None, "eins"), ("2", "1", "two"), ("3", "1", None)]


# --- what is expected, load windows, many rows -----------------------------------------------------------------------


def rule_28_what_was_expected_is_checked(target: Target) -> None:
    of = three(target)
    missing = Updates(keys(77), arrow(("x",), names=("word",)))
    with Epochs(target) as epochs:
        for net in (
            TableNet(of, deletes=keys(1, 77)),
            TableNet(of, updates=(missing,)),
            TableNet(of, inserts=arrow(("4", None, "x"), ("1", None, "there already"))),
        ):
            refuses(Conflict, lambda net=net: epochs.merge(net))  # type: ignore[misc]  # mypy knows no types of bound defaults
    assert rows(target, of) == [("1", None, "one"), ("2", "1", "two"), ("3", "1", None)]


def rule_03_in_the_window_changes_are_idempotent(target: Target) -> None:
    of = three(target)
    missing = Updates(keys(2, 77), arrow(("zwei",), ("x",), names=("word",)))
    net = TableNet(
        of, deletes=keys(1, 88), updates=(missing,), inserts=arrow(("3", "9", "drei"), ("5", None, "x")), checked=False
    )
    with Epochs(target) as epochs:
        assert epochs.merge(net) == [{"id": "77"}]
        assert epochs.merge(net) == [{"id": "77"}]
    assert rows(target, of) == [("2", "1", "zwei"), ("3", "9", "drei"), ("5", None, "x")]


def rule_03_a_moving_row_may_have_been_loaded_at_either_place(target: Target) -> None:
    of = make(target, table("a"), [("1", None, "old"), ("20", None, "new"), ("3", None, "o"), ("30", None, "n")])
    old = keys(1, 2, 3, 4)
    new = arrow(("10", "a"), ("20", "b"), ("30", "c"), ("40", "d"), names=("id", "word"))
    with Epochs(target) as epochs:
        again = epochs.merge(TableNet(of, updates=(Updates(old, new, moves_keys=True),), checked=False))
    assert again == [{"id": "40"}]
    assert rows(target, of) == [("10", None, "a"), ("20", None, "b"), ("30", None, "c")]


def many(target: Target) -> tuple[TargetTable, TableNet, list[Line]]:
    """A net change of more rows than a connector would send one by one."""
    of = make(target, table("a"), [(str(number), None, "old") for number in range(200)])
    updates = Updates(keys(*range(50, 150)), arrow(*[(f"new{n}",) for n in range(50, 150)], names=("word",)))
    inserts = arrow(*[(str(n), "7", "x") for n in range(200, 260)])
    net = TableNet(of, deletes=keys(*range(50)), updates=(updates,), inserts=inserts)
    expected: list[Line] = [(str(n), None, f"new{n}" if n < 150 else "old") for n in range(50, 200)]
    return of, net, sorted(expected + [(str(n), "7", "x") for n in range(200, 260)], key=str)


def many_rows_are_merged(target: Target) -> None:
    of, net, expected = many(target)
    with Epochs(target) as epochs:
        epochs.merge(net)
        assert rows(target, of) == expected
        refuses(Conflict, lambda: epochs.merge(net))
    assert rows(target, of) == expected


def rule_10_staged_rows_are_proved_and_merged(target: Target) -> None:
    of, net, expected = many(target)
    with Epochs(target) as epochs, closing(target.connector.stager(RULES)) as stager:
        first, second = stager.stage(JOB, [net])[0], stager.stage(JOB, [net])[0]
        refuses(Conflict, lambda: epochs.do(lambda w: w.merge_staged(replace(first, digest=first.digest + 1))))
        epochs.do(lambda writer: writer.merge_staged(second))
    assert rows(target, of) == expected


def rule_28_equal_rows_are_counted(target: Target) -> None:
    of = make(target, table("k", has_key=False), [("1", None, "x")] * 3 + [("1", None, None)] * 2)
    multiset = arrow(("1", None, "x"), ("1", None, None), ("2", "2", "y"))
    net = TableNet(of, multiset=multiset.append_column("_delta", pa.array([-2, -1, 2], pa.int64())))
    with Epochs(target) as epochs:
        epochs.merge(net)
        expected = [("1", None, "x"), ("1", None, None), ("2", "2", "y"), ("2", "2", "y")]
        assert rows(target, of) == sorted(expected, key=str)
        refuses(Conflict, lambda: epochs.merge(net))
    assert rows(target, of) == sorted(expected, key=str)


# --- one row at a time ------------------------------------------------------------------------------------------------


def single_changes_hit_exactly_one_row(target: Target) -> None:
    of = three(target)
    with Epochs(target) as epochs:
        epochs.change(RowChange(of, INSERT, values={"id": "4", "parent": None, "word": "vier\n"}))
        epochs.change(RowChange(of, UPDATE, {"id": "2"}, {"id": "20", "word": None}))
        epochs.change(RowChange(of, DELETE, {"id": "1"}))
        for refused in (
            RowChange(of, INSERT, values={"id": "4", "parent": None, "word": "again"}),
            RowChange(of, UPDATE, {"id": "77"}, {"word": "x"}),
            RowChange(of, DELETE, {"id": "77"}),
        ):
            error = refuses(Conflict, lambda row=refused: epochs.change(row))  # type: ignore[misc]  # mypy knows no types of bound defaults
            assert isinstance(error, Conflict) and error.key["id"] in ("4", "77")
    assert rows(target, of) == [("20", "1", None), ("3", "1", None), ("4", None, "vier\n")]


def single_changes_take_one_of_equal_rows(target: Target) -> None:
    of = make(target, table("k", has_key=False), [("1", None, "x")] * 3)
    same = {"id": "1", "parent": None, "word": "x"}
    with Epochs(target) as epochs:
        epochs.change(RowChange(of, DELETE, old_values=same))
        epochs.change(RowChange(of, UPDATE, values={"word": "y"}, old_values=same))
        refuses(Conflict, lambda: epochs.change(RowChange(of, DELETE, old_values={**same, "word": "z"})))
    assert rows(target, of) == [("1", None, "x"), ("1", None, "y")]


def a_truncate_empties_the_table(target: Target) -> None:
    for how in Emptying:
        of = three(target, f"t_{how}")
        with Epochs(target) as epochs:
            epochs.do(lambda writer, of=of, how=how: writer.truncate([of], how))  # type: ignore[misc]  # mypy knows no types of bound defaults
        assert rows(target, of) == []


# --- foreign keys that the target enforces (K7) -----------------------------------------------------------------------


def rule_07_keys_accept_what_comes_in_their_order(target: Target) -> None:
    """A row gets another parent, and the one that it had goes; and the key takes nothing else along."""
    parent = make(target, table("parent"), [("1", None, "a"), ("2", None, "b")])
    child = make(target, table("child"), [("10", "1", "x"), ("11", "2", "y")])
    key = ForeignKey("to_parent", ("parent",), parent.source, ("id",), Action.CASCADE)
    with closing(target.connector.tables(RULES)) as tables, closing(target.connector.catalog()) as catalog:
        by_source = {parent.source: parent, child.source: child}
        tables.build(JOB, replace(schema(child), foreign_keys=(key,)), child, by_source.get)
        assert {(k.child, k.parent, k.on_delete) for k in catalog.foreign_keys([parent])} <= {
            (child.target, parent.target, Action.CASCADE)
        }
    moved = Updates(keys(10), arrow(("3",), names=("parent",)))

    def in_order(writer: MergeWriter) -> None:
        writer.merge(TableNet(parent, inserts=arrow(("3", None, "c"))))
        writer.merge(TableNet(child, keys(11), (moved,), arrow(("12", "3", "z"))))
        writer.merge(TableNet(parent, deletes=keys(1, 2)))

    with Epochs(target) as epochs:
        assert epochs.writer.enforced() == epochs.writer.enforced()
        epochs.do(in_order)
    assert rows(target, child) == [("10", "3", "x"), ("12", "3", "z")] and rows(target, parent) == [("3", None, "c")]


# --- cascades (K1) ----------------------------------------------------------------------------------------------------


def rule_01_cascades_run_over_levels(target: Target) -> None:
    child = make(target, table("child"), [("10", "1", "a"), ("11", "2", "b"), ("12", None, "c")])
    grandchild = make(target, table("grandchild"), [("100", "10", "x"), ("101", "11", "y")])
    rule = CascadeRule(grandchild, ("parent",), child, ("id",), CascadeAction.SET_NULL, None)
    with Epochs(target) as epochs:
        gone = Cascade(child, ("parent",), CascadeAction.DELETE, arrow(("1",), names=("parent",)))
        epochs.do(lambda writer: writer.cascade(gone, [rule]))
        assert rows(target, child) == [("11", "2", "b"), ("12", None, "c")]
        assert rows(target, grandchild) == [("100", None, "x"), ("101", "11", "y")]
        old, new = arrow(("2",), names=("parent",)), arrow(("22",), names=("parent",))
        moved = Cascade(child, ("parent",), CascadeAction.UPDATE, old, new, tells_keys=True)
        assert epochs.do(lambda writer: writer.cascade(moved, [rule])) == [{"id": "11"}]
        nulled = Cascade(child, ("parent",), CascadeAction.SET_NULL, new)
        assert rows(target, child) == [("11", "22", "b"), ("12", None, "c")]
        epochs.do(lambda writer: writer.cascade(nulled, [rule]))
    assert rows(target, child) == [("11", None, "b"), ("12", None, "c")]


CHECKS: tuple[Callable[[Target], None], ...] = (
    without_a_checkpoint_nothing_is_claimed,
    rule_09_the_row_says_where_an_epoch_stands,
    rule_09_a_fenced_owner_commits_nothing,
    rule_21_an_epoch_may_come_from_elsewhere,
    what_is_rolled_back_leaves_nothing,
    table_states_commit_with_the_epoch,
    a_table_is_forgotten_with_the_epoch_unless_a_load_of_it_has_begun,
    a_net_change_is_carried_out,
    absent_columns_are_kept,
    a_row_may_move_to_another_key,
    rule_08_pitfall_11_unique_values_are_swapped_and_rotated,
    rule_08_rows_that_set_other_columns_contend_with_each_other,
    rule_08_pitfall_11_unique_values_of_deleted_rows_are_taken_over,
    rule_08_pitfall_10_keys_are_shifted_with_what_the_job_does_not_write,
    rule_08_rows_that_contend_are_counted,
    rule_08_staged_rows_contend_over_several_pieces,
    rule_28_what_was_expected_is_checked,
    rule_03_in_the_window_changes_are_idempotent,
    rule_03_a_moving_row_may_have_been_loaded_at_either_place,
    many_rows_are_merged,
    rule_10_staged_rows_are_proved_and_merged,
    rule_28_equal_rows_are_counted,
    single_changes_hit_exactly_one_row,
    single_changes_take_one_of_equal_rows,
    a_truncate_empties_the_table,
    rule_07_keys_accept_what_comes_in_their_order,
    rule_01_cascades_run_over_levels,
)
