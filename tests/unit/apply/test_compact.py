"""Row images to net changes: every path of a key through an epoch, against a row-by-row model."""

from __future__ import annotations

import pyarrow as pa
import pytest
from apply_images import ITEMS, KEYLESS, chunk_of, context, table_id
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.apply.compact import NeedsSlowWay, compact
from anabranch.apply.images import gather
from anabranch.rows.net import TableNet


def net_of(changes: list, schema=ITEMS, checked: bool = True, extra: bool = False):
    followed = context([schema]).tables[schema.id]
    images = gather([chunk_of([changes])], followed.table, followed.schema, 1)
    assert images is not None
    return compact(images, followed.table, checked=checked, has_extra_columns=extra)


def rows(table: pa.Table | None) -> list[dict]:
    return sorted(table.to_pylist(), key=str) if table is not None else []


def row(id: int, a: int = 0, b: str = "x") -> dict:
    return {"id": id, "a": a, "b": b}


@pytest.mark.parametrize(
    ("changes", "deletes", "updates", "inserts"),
    [
        ([("i", row(1))], [], [], [row(1)]),
        ([("d", row(1))], [{"id": 1}], [], []),
        ([("u", row(1), row(1, 5))], [], [{"a": 5, "b": "x"}], []),
        ([("i", row(1)), ("d", row(1))], [], [], []),
        ([("d", row(1)), ("i", row(1, 7))], [], [{"a": 7, "b": "x"}], []),
        ([("i", row(1)), ("u", row(1), row(1, 3)), ("d", row(1)), ("i", row(1, 9))], [], [], [row(1, 9)]),
        ([("u", row(1), row(1, 2)), ("d", row(1, 2))], [{"id": 1}], [], []),
        ([("i", row(1)), ("i", row(2, 2))], [], [], [row(1), row(2, 2)]),
    ],
)
def test_pitfall_12_one_net_change_per_key(changes, deletes, updates, inserts) -> None:
    net, reread = net_of(changes)
    assert rows(net.deletes) == deletes
    assert [r for u in net.updates for r in rows(u.values)] == updates
    assert rows(net.inserts) == inserts
    assert reread.num_rows == 0


def test_pitfall_09_a_key_that_changes_is_a_keyed_update() -> None:
    net, _ = net_of([("u", row(1, 4), row(2, 4))])
    (update,) = net.updates
    assert update.moves_keys
    assert rows(update.old_keys) == [{"id": 1}]
    assert rows(update.values) == [row(2, 4)]
    assert net.deletes is None and net.inserts is None


def test_pitfall_10_swapped_keys_are_two_updates_of_whole_rows() -> None:
    net, _ = net_of([("u", row(1, 1), row(99, 1)), ("u", row(2, 2), row(1, 2)), ("u", row(99, 1), row(2, 1))])
    assert net.deletes is None and net.inserts is None
    assert sorted(rows(net.updates[0].old_keys) + rows(net.updates[-1].old_keys), key=str)


def test_keys_that_change_in_a_chain_go_the_slow_way_where_the_target_has_columns_of_its_own() -> None:
    chain = [("u", row(2, 2), row(3, 2)), ("u", row(1, 1), row(2, 1))]
    with pytest.raises(NeedsSlowWay):
        net_of(chain, extra=True)


def test_rule_28_an_insert_of_what_the_epoch_put_already_is_not_hidden() -> None:
    with pytest.raises(NeedsSlowWay):
        net_of([("i", row(1)), ("i", row(1, 5))])


def test_pitfall_07_partial_images_set_only_what_they_carry() -> None:
    net, _ = net_of([("u", {"id": 1}, {"a": 5}), ("u", {"id": 1}, {"b": "y"}), ("u", {"id": 2}, {"a": 6})])
    assert {tuple(u.values.column_names): rows(u.values) for u in net.updates} == {
        ("a", "b"): [{"a": 5, "b": "y"}],
        ("a",): [{"a": 6}],
    }


def test_pitfall_02_a_partial_image_is_merged_into_the_insert_before_it() -> None:
    net, _ = net_of([("i", row(1, 3, "big")), ("u", {"id": 1}, {"a": 4})])
    assert rows(net.inserts) == [row(1, 4, "big")]


def test_null_is_a_value_and_absent_is_not() -> None:
    net, _ = net_of([("u", {"id": 1}, {"a": None})])
    assert [rows(u.values) for u in net.updates] == [[{"a": None}]]


def test_rule_03_a_window_puts_and_removes_without_asking_what_was_there() -> None:
    net, _ = net_of([("u", row(1), row(2, 5)), ("i", row(3)), ("i", row(3, 8)), ("d", row(4))], checked=False)
    assert rows(net.deletes) == [{"id": 1}, {"id": 4}]
    assert rows(net.inserts) == [row(2, 5), row(3, 8)]


def test_rule_03_a_partial_image_that_moved_in_is_read_again() -> None:
    _, reread = net_of([("u", {"id": 1}, {"id": 2})], checked=False)
    assert rows(reread) == [{"id": 2}]


def test_pitfall_06_keyless_rows_are_counted() -> None:
    same = {"a": 1, "b": None}
    net, _ = net_of([("i", same), ("i", same), ("d", {"a": 2, "b": "z"}), ("u", same, {"a": 3, "b": None})], KEYLESS)
    assert rows(net.multiset) == [
        {"a": 1, "b": None, "_delta": 1},
        {"a": 2, "b": "z", "_delta": -1},
        {"a": 3, "b": None, "_delta": 1},
    ]


Model = dict[int, tuple[int, str]]


def play(net: TableNet, before: Model) -> Model:
    """What the target holds after a Writer carried the net change out, with its checks."""
    after = dict(before)
    for key in rows(net.deletes):
        del after[key["id"]]
    for moves in (True, False):
        for update in (u for u in net.updates if u.moves_keys is moves):
            for old, new in zip(update.old_keys.to_pylist(), update.values.to_pylist(), strict=True):
                a, b = after.pop(old["id"])
                key = new.get("id", old["id"])
                assert key not in after
                after[key] = (new.get("a", a), new.get("b", b))
    for new in rows(net.inserts):
        assert new["id"] not in after
        after[new["id"]] = (new["a"], new["b"])
    return after


@st.composite
def histories(draw):
    """A start state and changes that a source could have made, images full or partial."""
    state: Model = {k: (k, "s") for k in draw(st.sets(st.integers(1, 6)))}
    start, changes = dict(state), []
    full = draw(st.booleans())
    for _ in range(draw(st.integers(1, 12))):
        free, taken = [k for k in range(1, 8) if k not in state], sorted(state)
        kind = draw(st.sampled_from(["i", "d", "u", "m"]))
        a, b = draw(st.integers(0, 3)), draw(st.sampled_from("xyz"))
        if kind == "i" and free:
            key = draw(st.sampled_from(free))
            state[key] = (a, b)
            changes.append(("i", row(key, a, b)))
        elif kind in "dum" and taken:
            key = draw(st.sampled_from(taken))
            old = state.pop(key)
            before = row(key, *old) if full else {"id": key}
            if kind == "d":
                changes.append(("d", before))
                continue
            new = draw(st.sampled_from(free)) if kind == "m" and free else key
            state[new] = (a, old[1])
            after = row(new, *state[new]) if full else {"a": a, **({"id": new} if new != key else {})}
            changes.append(("u", before, after))
    return start, changes, state


@settings(max_examples=400, deadline=None)
@given(histories())
def test_rule_28_the_net_change_leads_where_the_changes_lead(history) -> None:
    start, changes, end = history
    if not changes:
        return
    try:
        net, _ = net_of(changes)
    except NeedsSlowWay:
        return
    assert play(net, start) == end


@settings(max_examples=300, deadline=None)
@given(histories(), st.data())
def test_rule_03_replayed_over_a_fuzzy_snapshot_it_still_leads_there(history, data) -> None:
    """A window: the loaded rows are of any moment of the history, row by row."""
    start, changes, end = history
    if not changes or any("a" not in c[1] for c in changes if c[0] == "u"):
        return
    moments = [dict(start)]
    for change in changes:
        state = dict(moments[-1])
        if change[0] in "du":
            state.pop(change[1]["id"])
        if change[0] in "iu":
            state[change[-1]["id"]] = (change[-1]["a"], change[-1]["b"])
        moments.append(state)
    loaded: Model = {}
    for key in range(1, 8):
        moment = data.draw(st.sampled_from(moments))
        if key in moment:
            loaded[key] = moment[key]
    net, reread = net_of(changes, checked=False)
    assert reread.num_rows == 0
    for key in rows(net.deletes):
        loaded.pop(key["id"], None)
    for new in rows(net.inserts):
        loaded[new["id"]] = (new["a"], new["b"])
    assert loaded == end
    assert table_id("items") == ITEMS.id
