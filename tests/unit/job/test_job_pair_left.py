"""The notes of a pair that `run --until-caught-up` waits for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.connectors.memory.database import Database, database, forget
from anabranch.job import Job, pair_left
from anabranch.job.pair_left import NotesLeft
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, StandingRow
from anabranch.model.table_life import Life, TableState

HERE, PARKED = TableId("shop", "items"), TableId("shop", "parked")
THERE = TableId("kept", "items")
STATES = {
    HERE: TableState(HERE, THERE, Life.STREAMING),
    PARKED: TableState(PARKED, TableId("kept", "parked"), Life.PARKED),
}
PAIR = '[pair]\nsite = "a"\nother = "b"\nwinner = "a"\ntwin = "back"\nnewest_by = "n"\n'
FILE = """\
name = "out"
[source]
url = "memory:///left_s"
leave_out = ["anabranch:back"]
[target]
url = "memory:///left_t"
[[rules]]
include = ["shop.*"]
"""


@pytest.fixture
def ends() -> Iterator[tuple[Database, Database]]:
    names = ("left_s", "left_t")
    forget(names)
    yield database(names[0]), database(names[1])
    forget(names)


def left(tmp_path: Path, text: str = FILE + PAIR) -> NotesLeft:
    file = tmp_path / "job.toml"
    file.write_text(text)
    return NotesLeft(Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file))


def ask(asked: NotesLeft) -> bool:
    asked._again = 0.0
    return asked.are_none(STATES)


def note(end: Database, *ids: str, table: TableId = HERE) -> None:
    """As the twin notes deletes at the source of the job."""
    end.job("back").deleted |= {id: DeletedRow(id, table, {"id": id}, "1") for id in ids}


def test_rule_23_notes_that_were_there_first_are_waited_for_and_later_ones_are_not(
    ends: tuple[Database, Database], tmp_path: Path
) -> None:
    source, target = ends
    note(source, "1", "2")
    target.job("out").deleted["9"] = DeletedRow("9", THERE, {"id": "9"}, "1")  # its own, for the twin
    target.job("out").standing["3"] = StandingRow("3", THERE, {"id": "3"}, "1", {})
    asked = left(tmp_path)
    assert not ask(asked) and asked.text.startswith("for 3 notes")
    target.job("out").cleared.add("1")
    del target.job("out").standing["3"]
    note(source, "4")
    assert not ask(asked) and asked.text.startswith("for 1 notes")
    del source.job("back").deleted["2"]  # the twin has seen that it was cleared
    assert ask(asked) and not asked.text


def test_rule_23_nobody_waits_for_notes_of_a_table_that_is_parked(
    ends: tuple[Database, Database], tmp_path: Path
) -> None:
    note(ends[0], "1", table=PARKED)
    assert ask(left(tmp_path))
    note(ends[0], "2")
    assert not ask(left(tmp_path))
    assert ask(left(tmp_path, FILE + PAIR + 'deletes = "refuse"\n'))


def test_rule_23_more_notes_than_are_kept_in_mind_are_waited_for_in_turn(
    ends: tuple[Database, Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_left, "MOST", 3)
    monkeypatch.setattr(pair_left, "PAGE", 2)
    source, target = ends
    note(source, "1", "2", "3", "4", "5")
    asked = left(tmp_path)
    assert not ask(asked) and asked.text.startswith("for 3 notes")
    source.job("back").deleted = {id: one for id, one in source.job("back").deleted.items() if id > "3"}
    assert not ask(asked)  # there may be more
    assert not ask(asked) and asked.text.startswith("for 2 notes")
    target.job("out").cleared |= {"4", "5"}
    assert ask(asked)
