"""Row images to net changes: every path of a key through an epoch, against a row-by-row model."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.apply.compact import NeedsSlowWay, _differ, compact
from anabranch.apply.images import gather
from anabranch.rows.net import Computed, TableNet
from rigs.chunks import ITEMS, KEYLESS, chunk_of, context, table_id
from rigs.unique_keys import UNIQUE, Relation, history


def net_of(
    changes: list, of=ITEMS, checked: bool = True, unique: tuple[str, ...] = (), computed: Computed | None = None
):
    followed = context([of]).tables[of.id]
    images = gather([chunk_of([changes], [of])], followed.table, followed.schema, 1)
    assert images is not None
    return compact(images, followed.table, checked=checked, unique=unique, computed=computed)


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


def parts(net: TableNet) -> list[tuple[bool, bool, list[dict], list[dict]]]:
    return [(u.contends, u.moves_keys, rows(u.old_keys), rows(u.values)) for u in net.updates]


def test_pitfall_10_swapped_keys_contend_and_stay_the_rows_that_they_were() -> None:
    net, _ = net_of([("u", row(1, 1), row(99, 1)), ("u", row(2, 2), row(1, 2)), ("u", row(99, 1), row(2, 1))])
    assert net.deletes is None and net.inserts is None
    assert parts(net) == [(True, True, [{"id": 1}, {"id": 2}], [row(1, 2), row(2, 1)])]


def test_pitfall_10_shifted_keys_contend_only_where_they_meet() -> None:
    """1 → 2 → 3 is a chain, 8 goes where a deleted row was, 5 where nobody was."""
    chain = [("u", row(2, 2), row(3, 2)), ("u", row(1, 1), row(2, 1))]
    net, _ = net_of([*chain, ("d", row(9)), ("u", row(8, 8), row(9, 8)), ("u", row(5), row(6))])
    assert parts(net) == [
        (True, True, [{"id": 1}, {"id": 2}], [row(2, 1), row(3, 2)]),
        (False, True, [{"id": 5}, {"id": 8}], [row(6), row(9, 8)]),
    ]
    assert rows(net.deletes) == [{"id": 9}]


def test_pitfall_10_partial_images_of_a_row_that_moves_on_come_together() -> None:
    net, _ = net_of(
        [
            ("u", {"id": 2}, {"b": "two"}),
            ("u", {"id": 2}, {"id": 3}),
            ("u", {"id": 1}, {"id": 2, "a": 1}),
            ("u", {"id": 3}, {"a": 7}),
        ]
    )
    assert parts(net) == [
        (True, True, [{"id": 2}], [row(3, 7, "two")]),
        (True, True, [{"id": 1}], [{"id": 2, "a": 1}]),
    ]


def test_pitfall_11_updates_that_change_unique_values_contend() -> None:
    swap = [("u", row(1, 1), row(1, 9)), ("u", row(2, 2), row(2, 1)), ("u", row(1, 9), row(1, 2))]
    net, _ = net_of([*swap, ("u", row(3), row(3, 0, "y"))], unique=("a",))
    assert parts(net) == [
        (True, False, [{"id": 1}, {"id": 2}], [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]),
        (False, False, [{"id": 3}], [{"a": 0, "b": "y"}]),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        [("u", row(1, 1), row(1, 2)), ("u", row(2, 7), row(2, 7, "y"))],  # one alone
        [("u", row(1, 1), row(1, 2)), ("u", row(1, 2), row(1, 1)), ("u", row(2), row(2, 3))],  # as before in the end
        [("u", row(1, None), row(1, None, "y")), ("u", row(2, None), row(2, None, "y"))],
        [("u", {"id": 1}, {"b": "y"}), ("u", {"id": 2}, {"b": "z"})],  # not carried: not changed
    ],
)
def test_pitfall_11_updates_that_can_meet_nobody_do_not_contend(changes) -> None:
    net, _ = net_of(changes, unique=("a",))
    assert not any(update.contends for update in net.updates)


def test_pitfall_11_what_was_is_not_known_of_a_partial_image() -> None:
    net, _ = net_of(
        [("u", {"id": 1}, {"a": 5}), ("u", {"id": 2}, {"a": 6}), ("u", {"id": 3}, {"b": "y"})], unique=("a",)
    )
    assert [(u.contends, u.values.column_names) for u in net.updates] == [(True, ["a"]), (False, ["b"])]


def test_pitfall_11_numbers_are_compared_by_their_bits() -> None:
    def differ(one: list, other: list, type: pa.DataType) -> list[bool]:
        return _differ(pa.chunked_array([one], type), pa.chunked_array([other], type)).tolist()

    nan = float("nan")
    assert differ([0.0, nan, None, 1.0], [-0.0, nan, None, None], pa.float64()) == [True, False, False, True]
    assert differ([0.0, 1.5], [0.0, 1.25], pa.float32()) == [False, True]
    assert differ([b"a", b"a "], [b"a", b"a"], pa.binary()) == [False, True]


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


def test_rule_03_a_value_computed_from_what_a_partial_image_lacks_is_read_again() -> None:
    """Torture seed 42663: MySQL's partial image has all that it computes, also of a foreign key whose column it leaves out. A
    key that cleared the column unseen, before the row was loaded, does not clear it again."""
    followed = context([ITEMS]).tables[ITEMS.id]
    computed = Computed(followed.table, ("b",), ("a",), lambda _: ())
    parts = [("u", {"id": 1}, {"b": "y"}), ("u", {"id": 2}, {"a": 5, "b": "z"}), ("u", {"id": 3}, {"a": 6})]
    net, reread = net_of(parts, checked=False, computed=computed)
    assert rows(reread) == [{"id": 1}]
    assert [r["id"] for u in net.updates for r in rows(u.old_keys)] == [3] and [r["id"] for r in rows(net.inserts)] == [
        2
    ]
    assert not net_of(parts, checked=False)[1].num_rows and not net_of(parts, computed=computed)[1].num_rows
    assert [computed.is_told(names) for names in (["b"], ["a", "b"], ["a"], [])] == [False, True, True, True]


def test_pitfall_06_keyless_rows_are_counted() -> None:
    same = {"a": 1, "b": None}
    net, _ = net_of([("i", same), ("i", same), ("d", {"a": 2, "b": "z"}), ("u", same, {"a": 3, "b": None})], KEYLESS)
    assert rows(net.multiset) == [
        {"a": 1, "b": None, "_delta": 1},
        {"a": 2, "b": "z", "_delta": -1},
        {"a": 3, "b": None, "_delta": 1},
    ]


@pytest.mark.parametrize("name", [".a", "[0]", "_delta", "_delta_sum", "delta", "0", "_op"])
def test_pitfall_06_keyless_rows_are_counted_whatever_their_columns_are_called(name: str) -> None:
    """Arrow reads `.a` as a path, and two columns of one name are none to it: a job stood still at such a table."""
    of = replace(KEYLESS, columns=tuple(replace(one, name=name if one.name == "a" else "b") for one in KEYLESS.columns))
    net, _ = net_of([("i", {name: 1, "b": "x"}), ("i", {name: 1, "b": "x"}), ("d", {name: 2, "b": "z"})], of)
    assert net.multiset is not None
    found = zip(*(column.to_pylist() for column in net.multiset.columns), strict=True)
    assert sorted(found) == [(1, "x", 2), (2, "z", -1)]


Model = dict[int, tuple[int, str]]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 40), st.booleans())
def test_rule_08_rule_28_the_net_change_leads_where_the_changes_lead(seed: int, length: int, in_turn: bool) -> None:
    """In every order that a server may take within a statement; a row that was there keeps what is not in its images."""
    keys, start, changes, end = history(seed, length)
    net, _ = net_of(changes, UNIQUE, unique=tuple({name for key in keys for name in key}))
    target = Relation(start, keys)
    target.carry_out(net, in_turn)
    tags = {id: one["tag"] for id, one in end.items() if one["tag"] is not None}
    assert {id: target.rows[id]["tag"] for id in tags} == tags
    assert [{**one, "tag": 0} for one in sorted(target.rows.values(), key=str)] == [
        {**one, "tag": 0} for one in sorted(end.values(), key=str)
    ]


@st.composite
def plain_histories(draw):
    """Changes of whole rows without unique keys: what was there, what happened, what is there."""
    state: Model = {k: (k, "s") for k in draw(st.sets(st.integers(1, 6)))}
    start, changes = dict(state), []
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
            if kind == "d":
                changes.append(("d", row(key, *old)))
                continue
            new = draw(st.sampled_from(free)) if kind == "m" and free else key
            state[new] = (a, old[1])
            changes.append(("u", row(key, *old), row(new, *state[new])))
    return start, changes, state


@settings(max_examples=300, deadline=None)
@given(plain_histories(), st.data())
def test_rule_03_replayed_over_a_fuzzy_snapshot_it_still_leads_there(history, data) -> None:
    """A window: the loaded rows are of any moment of the history, row by row."""
    start, changes, end = history
    if not changes:
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
