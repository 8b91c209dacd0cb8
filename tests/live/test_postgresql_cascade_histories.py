"""What foreign keys of any shape do at the source and its log does not show, at a real PostgreSQL in one epoch (K1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import merge_rows
from anabranch.errors import RowRefused
from anabranch.model.schema import TableSchema
from rigs.foreign_keys import CASCADE, RESTRICT, SET_NULL, Change, History, foreign_key, replayed, table
from rigs.foreign_keys_drawn import drawn
from rigs.foreign_keys_postgresql import ordinary_user, rig

MANY = 10


def carried_out(
    history: History, database: Any, directory: Path, where: str, user: str = "", without: Sequence[str] = ()
) -> dict[str, list[tuple[str, ...]]]:
    """The target's rows after the whole history in one epoch. `user`: on whom keys act, all but those `without`."""
    one = rig(database, history.schemas, directory, user, where, without, build=bool(user))
    try:
        one.apply([(name, "i", row) for name, rows in history.start.items() for row in rows])
        one.apply(*[[change] for change in history.changes])
        return {s.id.name: _rows(database, one.where, s) for s in history.schemas}
    finally:
        one.close()


def _rows(database: Any, where: str, one: TableSchema) -> list[tuple[str, ...]]:
    names = ", ".join(column.name for column in one.columns)
    return sorted(tuple(map(repr, row)) for row in database.query(f'SELECT {names} FROM {where}."{one.id.name}"'))


@pytest.mark.parametrize("part", range(4))
@pytest.mark.one_case("0", "1")
def test_rule_01_any_history_of_any_foreign_keys_in_one_epoch(
    target_database: Any, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows alone, and by staging tables."""
    monkeypatch.setattr(merge_rows, "FEW_ROWS", part % 2 * merge_rows.FEW_ROWS)
    seen = 0
    for seed in range(part * MANY, (part + 1) * MANY):
        history = replayed(*drawn(seed))
        if history is not None and history.changes:
            assert carried_out(history, target_database, tmp_path, f"h{seed}") == history.end, f"drawn({seed})"
            seen += 1
    assert seen > MANY / 2


@pytest.mark.parametrize("part", range(2))
def test_rule_07_any_history_of_any_foreign_keys_that_act(
    target_database: Any, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, or some."""
    monkeypatch.setattr(merge_rows, "FEW_ROWS", part % 2 * merge_rows.FEW_ROWS)
    seen = 0
    with ordinary_user(target_database) as user:
        for seed in range(part * MANY, (part + 1) * MANY):
            history, pick = replayed(*drawn(seed)), Random(seed)
            if history is None or not history.changes:
                continue
            keys = [(one.id.name, key.name) for one in history.schemas for key in one.foreign_keys]
            gone = [one for one in keys if part and pick.random() < 0.3]
            without = [f'ALTER TABLE keys_h{seed}."{table}" DROP CONSTRAINT "{key}"' for table, key in gone]
            try:
                found = carried_out(history, target_database, tmp_path, f"h{seed}", user, without)
            except RowRefused as refused:
                assert "by two foreign keys" in str(refused), f"drawn({seed})"
                continue
            assert found == history.end, f"drawn({seed})"
            seen += 1
    assert seen > MANY / 2


def made(schemas: Sequence[TableSchema], start: Sequence[Change], changes: Sequence[Change]) -> History:
    history = replayed(schemas, start, changes)
    assert history is not None
    return history


def test_rule_01_what_keeps_its_value_clears_nobody(target_database: Any, tmp_path: Path) -> None:
    """A part of a key moves, and another key refers to the rest of it."""
    tables = [
        table("above", "t code", "t code"),
        table("here", "t id code", "t id", keys=[foreign_key("1", "t code", "above", "t code", CASCADE, CASCADE)]),
        table("note", "id ht hid", "id", keys=[foreign_key("2", "ht hid", "here", "t id", RESTRICT, SET_NULL)]),
    ]
    start: list[Change] = [
        ("above", "i", {"t": 1, "code": 5}),
        ("here", "i", {"t": 1, "id": 1, "code": 5}),
        ("note", "i", {"id": 9, "ht": 1, "hid": 1}),
    ]
    for number, after in enumerate(({"t": 1, "code": 6}, {"t": 2, "code": 5})):
        history = made(tables, start, [("above", "u", {"t": 1, "code": 5}, after)])
        assert (("9", "1", "1") in history.end["note"]) == (number == 0)
        assert carried_out(history, target_database, tmp_path, f"part{number}") == history.end


def test_rule_07_rows_that_follow_one_parent_by_two_keys_are_refused_whole(
    target_database: Any, tmp_path: Path
) -> None:
    """Where keys act, and where others follow these rows. Nothing of the epoch stays; whoever may switch keys off can go on."""
    both = [foreign_key(name, name, "above", "id", CASCADE, CASCADE) for name in "ab"]
    tables = [
        table("above", "id", "id"),
        table("both", "a b", "a b", keys=both),
        table("note", "id a b", "id", keys=[foreign_key("ab", "a b", "both", "a b", CASCADE, CASCADE)]),
    ]
    start: list[Change] = [
        ("above", "i", {"id": 1}),
        ("both", "i", {"a": 1, "b": 1}),
        ("note", "i", {"id": 5, "a": 1, "b": 1}),
    ]
    history = made(tables, start, [("above", "i", {"id": 7}), ("above", "u", {"id": 1}, {"id": 4})])
    with ordinary_user(target_database) as user:
        with pytest.raises(RowRefused, match=r"both follows it by two foreign keys.*switch foreign keys off"):
            carried_out(history, target_database, tmp_path, "act", user)
        assert _rows(target_database, "keys_act", tables[0]) == [("1",)]
    assert carried_out(history, target_database, tmp_path, "off") == history.end
