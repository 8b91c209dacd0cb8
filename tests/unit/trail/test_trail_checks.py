"""Questions of those who verify at another site, on their way back, and the answers that come along the trail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import TrailCorrupt
from anabranch.model.ids import TableId
from anabranch.trail import checks
from anabranch.trail.checks import IDS, KEPT, Answer, Question
from anabranch.trail.replica_files import CHECKS
from anabranch.trail.storage import LocalStorage
from anabranch.transport.asked import LONGEST_QUESTION, as_message, is_short, questioned
from anabranch.transport.messages import ProtocolError

TABLE = TableId("shop", "orders")
WHAT = {"version": 1, "columns": [["id", "as it is"]]}


def carried(here: Path, there: Path) -> None:
    """Bring the answers to the replica."""
    (there / CHECKS).parent.mkdir(exist_ok=True)
    (there / CHECKS).write_bytes((here / CHECKS).read_bytes())


def test_a_question_goes_back_once_and_its_answer_comes_along(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    asked = checks.ask(there, TABLE, WHAT)
    assert checks.pending(there) == [asked] and checks.answer(there, asked.id) is None
    for _ in range(2):
        checks.pass_on(here, questioned(as_message(asked)))
    assert checks.pending(here) == [asked]
    checks.note(here, asked.id, Answer({"low": 3}))
    assert checks.pending(here) == []
    checks.pass_on(here, asked)  # the answer is still on its way
    assert checks.pending(here) == []
    carried(here, there)
    assert asked.id in checks.answered(there)
    assert checks.answer(there, asked.id) == Answer({"low": 3}, "")
    assert checks.pending(there) == [] and not list((there / checks.ASKED).iterdir())


def test_no_more_questions_are_taken_from_elsewhere_than_some(tmp_path: Path) -> None:
    for number in range(checks.WAITING + 3):
        checks.pass_on(tmp_path, Question(TABLE, f"id{number}", float(number), WHAT))
    assert len(checks.pending(tmp_path)) == checks.WAITING
    checks.note(tmp_path, "id0", Answer({}))
    checks.pass_on(tmp_path, Question(TABLE, "late", 1e9, WHAT))
    assert checks.pending(tmp_path)[-1].id == "late"


def test_questions_are_answered_oldest_first_and_may_be_withdrawn(tmp_path: Path) -> None:
    one, two = (checks.ask(tmp_path, TABLE, WHAT) for _ in range(2))
    assert {one.id, two.id} == {found.id for found in checks.pending(tmp_path)}
    assert checks.pending(tmp_path)[0].asked <= checks.pending(tmp_path)[1].asked
    checks.withdraw(tmp_path, one.id)
    checks.withdraw(tmp_path, one.id)
    assert checks.pending(tmp_path) == [two]


def test_a_question_that_somebody_else_withdraws_meanwhile_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks takes it back while who answers looks: right behind the names of the folder."""
    asked = checks.ask(tmp_path, TABLE, WHAT)
    checks.note(tmp_path, "other", Answer({}))
    named = LocalStorage.names

    def names(storage: LocalStorage, folder: str = "") -> list[str]:
        found = named(storage, folder)
        (tmp_path / checks.ASKED / f"{asked.id}.json").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(LocalStorage, "names", names)
    checks.withdraw(tmp_path, asked.id)
    checks.put(tmp_path, asked)
    assert checks.pending(tmp_path) == []
    checks.put(tmp_path, asked)
    checks.note(tmp_path, asked.id, Answer({}))
    checks.put(tmp_path, asked)
    assert checks.pending(tmp_path) == []


def test_a_death_behind_the_answer_leaves_no_question(tmp_path: Path) -> None:
    asked = checks.ask(tmp_path, TABLE, WHAT)
    failpoints.arm({failpoints.VARIABLE: "trail.check.answered=raise"})
    try:
        with pytest.raises(failpoints.FailpointReached):
            checks.note(tmp_path, asked.id, Answer({}, "no"))
    finally:
        failpoints.arm({})
    assert list((tmp_path / checks.ASKED).iterdir())
    assert checks.answer(tmp_path, asked.id) == Answer({}, "no")
    assert checks.pending(tmp_path) == []


def test_the_last_answers_are_kept_and_the_ids_of_more(tmp_path: Path) -> None:
    for number in range(IDS + 5):
        checks.note(tmp_path, f"id{number}", Answer({"number": number}))
    assert len(checks.answered(tmp_path)) == IDS and "id4" not in checks.answered(tmp_path)
    assert checks.answer(tmp_path, f"id{IDS}") == Answer({"number": IDS}, "")
    assert checks.answer(tmp_path, f"id{IDS + 4 - KEPT}") is None
    checks.forget_answers(tmp_path)
    assert len(checks.answered(tmp_path)) == IDS and checks.answer(tmp_path, f"id{IDS}") is None


def test_large_answers_leave_room_for_the_last_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST", 100)
    for id in ("a", "b"):
        checks.note(tmp_path, id, Answer({"keys": "x" * 90}))
    assert checks.answer(tmp_path, "a") is None and checks.answer(tmp_path, "b") is not None
    assert {"a", "b"} == checks.answered(tmp_path)


@pytest.mark.parametrize("damage", ["[]", "{", '{"format": 1}', '{"format": 9, "ids": []}'])
def test_damaged_answers_are_named_and_written_anew(damage: str, tmp_path: Path) -> None:
    checks.note(tmp_path, "one", Answer({}))
    (tmp_path / CHECKS).write_text(damage)
    with pytest.raises(TrailCorrupt, match=r"checks\.json"):
        checks.answered(tmp_path)
    checks.note(tmp_path, "two", Answer({"low": 1}))
    assert checks.answer(tmp_path, "two") == Answer({"low": 1}, "")


def test_an_answer_with_a_changed_letter_is_refused(tmp_path: Path) -> None:
    checks.note(tmp_path, "one", Answer({"low": 1}))
    text = (tmp_path / CHECKS).read_text()
    (tmp_path / CHECKS).write_text(text.replace("low", "lox"))
    with pytest.raises(TrailCorrupt, match="not what was written"):
        checks.answer(tmp_path, "one")


def test_a_question_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    asked = checks.ask(tmp_path, TABLE, WHAT)
    (tmp_path / checks.ASKED / f"{asked.id}.json").write_text("{}")
    with pytest.raises(TrailCorrupt, match=asked.id):
        checks.pending(tmp_path)
    other = checks.ask(tmp_path, TABLE, WHAT)
    assert checks.pending(tmp_path) == [other]


@pytest.mark.parametrize(
    "changed",
    [
        {"table": ""},
        {"table": "orders"},
        {"table": 3},
        {"id": "../x"},
        {"id": "x" * 65},
        {"asked": "now"},
        {"asked": float("nan")},
        {"what": [1]},
        {"what": {"columns": "x" * LONGEST_QUESTION}},
    ],
    ids=lambda changed: str(changed)[:40],
)
def test_what_is_no_question_breaks_the_connection(changed: dict[str, object]) -> None:
    head = {"table": "shop.orders", "id": "abc", "asked": 1.0, "what": {}}
    assert questioned(head).table == TABLE and is_short(questioned(head))
    with pytest.raises(ProtocolError):
        questioned(head | changed)


def test_what_is_kept_is_one_file_that_replicas_get(tmp_path: Path) -> None:
    checks.note(tmp_path, "one", Answer({"low": 1}))
    assert [str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()] == [CHECKS]
    assert json.loads((tmp_path / CHECKS).read_text())["ids"] == ["one"]
