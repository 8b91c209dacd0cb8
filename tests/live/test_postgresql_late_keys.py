"""Unique keys that are checked late (DEFERRABLE), at a real PostgreSQL: net changes and single rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import merge_rows
from anabranch.contracts import Conflict
from anabranch.rows.net import RowChange, TableNet
from rigs.postgresql_writer import TABLE, Applying, orders, prepared, rows


@pytest.fixture(params=[0, merge_rows.FEW_ROWS], ids=["staged", "few"])
def applying(
    target_database: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Applying]:
    monkeypatch.setattr(merge_rows, "FEW_ROWS", request.param)
    made = Applying(prepared(target_database))
    yield made
    made.writer.close()


def test_pitfall_17_a_deferred_constraint_is_a_conflict_at_commit(applying: Applying, target_database: Any) -> None:
    target_database.execute(
        'ALTER TABLE public."Or%ders" ADD CONSTRAINT one_note UNIQUE ("no%te") DEFERRABLE INITIALLY DEFERRED'
    )
    with pytest.raises(Conflict, match="one_note"), applying as writer:
        writer.merge(TableNet(TABLE, inserts=rows((1, None, "same"), (2, None, "same"))))
        writer.commit()
    applying.merge(TableNet(TABLE, inserts=rows((1, None, "same"))))


def test_pitfall_17_row_by_row_a_key_that_can_wait_is_asked_at_commit(applying: Applying, target_database: Any) -> None:
    """Rows meet on their way: the source asked at the end of a statement that changed both. Two that stay together are
    refused."""
    target_database.execute('ALTER TABLE public."Or%ders" ADD CONSTRAINT one_note UNIQUE ("no%te") DEFERRABLE')
    applying.merge(TableNet(TABLE, inserts=rows((1, None, "a"), (2, None, "b"))))
    with applying as writer:
        for number, note in (("1", "b"), ("2", "a")):
            writer.change(RowChange(TABLE, "update", {"id": number}, {"no%te": note}))
        writer.commit()
    assert [(r[0], r[2]) for r in orders(target_database)] == [(1, "b"), (2, "a")]
    with pytest.raises(Conflict, match="one_note"), applying as writer:
        writer.change(RowChange(TABLE, "update", {"id": "1"}, {"no%te": "a"}))
        writer.commit()


def test_pitfall_17_keys_wait_behind_a_row_that_is_undone_alone(applying: Applying, target_database: Any) -> None:
    """Going back to the savepoint does not have the keys asked at once again."""
    target_database.execute('ALTER TABLE public."Or%ders" ADD CONSTRAINT one_note UNIQUE ("no%te") DEFERRABLE')
    applying.merge(TableNet(TABLE, inserts=rows((1, None, "a"), (2, None, "b"))))
    with applying as writer:
        with pytest.raises(Conflict), writer.alone():
            writer.change(RowChange(TABLE, "update", {"id": "no number"}, {"no%te": "c"}))
        for number, note in (("1", "b"), ("2", "a")):
            with writer.alone():
                writer.change(RowChange(TABLE, "update", {"id": number}, {"no%te": note}))
        writer.commit()
    assert [(r[0], r[2]) for r in orders(target_database)] == [(1, "b"), (2, "a")]
