"""Compare two looks at columns in the catalogue (no server)."""

from __future__ import annotations

from anabranch.connectors.postgresql.source.retyped_columns import ColumnLook, Looks, TableLook, why_retyped

BEFORE = TableLook(70, {1: ColumnLook("id", "5", "x", False), 2: ColumnLook("n", "5", "y", False)})


def now(file: int, **of_n: str | bool) -> TableLook:
    told = {"name": "n", "written": "5", "said": "y", "noted": False} | of_n
    return TableLook(file, {1: BEFORE.columns[1], 2: ColumnLook(**told)})  # type: ignore[arg-type]  # some of its facts, by name


def test_another_file_and_a_row_that_says_the_same_are_suspect() -> None:
    for latest, is_suspect in (
        (BEFORE, False),
        (now(71), False),  # VACUUM FULL
        (now(70, written="6"), False),
        (now(71, written="6"), True),
        (now(71, written="6", said="z"), False),  # another type, which shows by itself
        (now(0, written="6"), True),  # a partitioned table has no file
        (now(0), False),
        (TableLook(71, {1: BEFORE.columns[1], 3: ColumnLook("m", "6", "y", False)}), False),
    ):
        why, should_tell = why_retyped(BEFORE, latest, 71)
        assert ("for n" in why) is is_suspect and not should_tell, latest


def test_a_note_counts_once_the_definition_in_force_has_its_file() -> None:
    latest = now(71, written="6", noted=True)
    assert why_retyped(BEFORE, latest, 71) == ("", False)
    why, should_tell = why_retyped(BEFORE, latest, 70)
    assert "for n" in why and should_tell


def test_a_note_may_come_until_the_log_is_read_up_to_the_first_look_that_needs_it() -> None:
    looks = Looks()
    assert looks.awaits(1, 500, 400) and looks.awaits(1, 600, 499)
    assert not looks.awaits(1, 700, 500) and looks.awaits(2, 700, 500)
