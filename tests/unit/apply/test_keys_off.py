"""Changes that the source made with its foreign keys switched off: nothing cascades, at the target neither (K1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.apply.cascades.cascade import parent_changes
from anabranch.apply.images import gather
from anabranch.apply.plan import group, stages
from anabranch.apply.row_steps import RemovedByKeys, steps
from anabranch.model.schema import Action
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from anabranch.rows.net import Cascade, RowChange
from rigs.chunks import INT, chunk_of, context, followed, reference, schema

PARENT = schema("parent", {"id": INT, "v": INT}, ["id"])
CHILD = schema("child", {"id": INT, "pid": INT}, ["id"], [reference(["pid"], "parent", Action.CASCADE, Action.CASCADE)])
BOTH = [PARENT, CHILD]


def with_keys_off(chunk: Chunk) -> Chunk:
    tables = (replace(t, shapes=tuple(replace(s, keys_off=True) for s in t.shapes)) for t in chunk.tables)
    return replace(chunk, tables=tuple(tables))


@pytest.mark.parametrize(
    "change",
    [("parent", "d", {"id": 1, "v": 0}), ("parent", "u", {"id": 1, "v": 0}, {"id": 2, "v": 0})],
)
def test_rule_01_what_the_source_did_with_foreign_keys_off_does_not_cascade(change: tuple) -> None:
    on, off = chunk_of([[change]], BOTH), with_keys_off(chunk_of([[change]], BOTH))
    whole = context(BOTH)
    (followed_stage,) = stages(group([on], whole), whole)
    (stage,) = stages(group([off], whole), whole)
    assert followed_stage.cascades and not stage.cascades and len(stage.nets) == 1
    assert not any(isinstance(step, Cascade) for step in steps(group([off], whole), whole, RemovedByKeys()))


def test_torture_seed_610_a_row_is_put_under_a_hidden_value_with_foreign_keys_off() -> None:
    """A parent goes, with it a row that the log does not show, and a child of that one is cleared. What is put under the same
    value afterwards, though nobody has it, is not."""
    parent = schema("parent", {"id": INT, "v": INT}, ["id"])
    between = schema("between", {"id": INT, "pid": INT}, ["id"], [reference(["pid"], "parent", Action.CASCADE)])
    note = schema("note", {"id": INT, "bid": INT}, ["id"], [reference(["bid"], "between", Action.SET_NULL)])
    tables = [parent, between, note]
    gone = chunk_of([[("parent", "d", {"id": 1, "v": 0})]], tables, 1)
    put = chunk_of([[("note", "i", {"id": 7, "bid": 5})]], tables, 2)
    whole = context(tables)
    for second, number in ((put, 1), (with_keys_off(put), 2)):
        found = stages(group([gone, second], whole), whole)
        assert len(found) == number and found[0].cascades and bool(found[-1].cascades) == (number == 1)


def test_rule_01_images_with_and_without_foreign_keys_stay_apart() -> None:
    """The same columns are present: only the session's setting tells the images apart."""
    rows = [("parent", "d", {"id": n, "v": 0}) for n in range(4)]
    chunks = [chunk_of([rows[:2]], BOTH, 1), with_keys_off(chunk_of([rows[2:]], BOTH, 2))]
    images = gather(chunks, followed(PARENT).table, PARENT, 1)
    assert images is not None
    assert images.is_followed_by_keys.tolist() == [True, True, False, False]
    later = images.between(int(images.order[2]), 1 << 62)
    assert later.is_followed_by_keys.tolist() == [False, False]
    assert images.where(images.order >= later.order[0]).is_followed_by_keys.tolist() == [False, False]
    assert [change.old for change in parent_changes({PARENT.id: images}, context(BOTH), 1)] == [(0,), (1,)]


def test_tables_that_one_statement_emptied_are_emptied_at_once() -> None:
    """PostgreSQL's TRUNCATE a, b: both, also row by row, and what comes behind it in the transaction behind both."""
    truncates = [Barrier(0, 1, BarrierKind.TRUNCATE, table.id) for table in BOTH]
    rows = [("parent", "i", {"id": 1, "v": 0}), ("parent", "i", {"id": 2, "v": 0})]
    whole, part = context(BOTH), group([chunk_of([rows], BOTH, 1, truncates)], context(BOTH))
    first, second, third = steps(part, whole, RemovedByKeys())
    assert isinstance(first, RowChange) and isinstance(third, RowChange)
    assert isinstance(second, tuple) and {table.source for table in second} == {PARENT.id, CHILD.id}
    assert [len(stage.truncates) for stage in stages(part, whole)] == [0, 2]
