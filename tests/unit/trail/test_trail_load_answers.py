"""Requests for loads on their way back from a replica, and their answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import TrailCorrupt
from anabranch.model.ids import TableId
from anabranch.trail import load_answers, requests
from anabranch.trail.load_answers import KEPT, Answer
from anabranch.trail.replica_files import ANSWERS
from anabranch.trail.requests import LOADS
from anabranch.transport.asked import asked_for
from anabranch.transport.messages import ProtocolError

TABLE = TableId("shop", "orders")


def test_a_request_goes_back_once_and_its_answer_comes_along(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    asked = requests.request_table(there, TABLE, LOADS)
    assert load_answers.settle(there) == [asked]
    load_answers.pass_on(here, asked)
    load_answers.pass_on(here, asked)
    assert requests.pending(here, LOADS) == [asked]
    load_answers.note(here, asked.id, Answer(3))
    requests.done(here, TABLE, 3, LOADS)
    load_answers.pass_on(here, asked)  # the answer is still on its way
    requests.withdraw(here, TABLE, LOADS)
    load_answers.pass_on(here, asked)
    assert requests.pending(here, LOADS) == []
    (there / ANSWERS).parent.mkdir()
    (there / ANSWERS).write_bytes((here / ANSWERS).read_bytes())
    assert load_answers.settle(there) == []
    found = requests.answer(there, TABLE, LOADS)
    assert found is not None and found.sequence == 3


def test_a_refusal_comes_along_too_and_one_of_another_request_waits(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    own = requests.request_table(here, TABLE, LOADS)
    asked = requests.request_table(there, TABLE, LOADS)
    load_answers.pass_on(here, asked)
    assert requests.pending(here, LOADS) == [own]
    requests.done(here, TABLE, 1, LOADS)
    load_answers.pass_on(here, asked)
    assert requests.pending(here, LOADS) == [asked]
    load_answers.note(there, asked.id, Answer(0, "no such table"))
    assert load_answers.settle(there) == []
    found = requests.answer(there, TABLE, LOADS)
    assert found is not None and found.refusal == "no such table"


def test_the_last_answers_are_kept_and_damaged_ones_are_named(tmp_path: Path) -> None:
    for number in range(KEPT + 5):
        load_answers.note(tmp_path, f"id{number}", Answer(number))
    assert next(iter(load_answers.read(tmp_path))) == "id5" and len(load_answers.read(tmp_path)) == KEPT
    (tmp_path / ANSWERS).write_text("[]")
    with pytest.raises(TrailCorrupt, match=r"answers\.json"):
        load_answers.read(tmp_path)
    load_answers.note(tmp_path, "new", Answer(1))
    assert load_answers.read(tmp_path) == {"new": Answer(1)}


@pytest.mark.parametrize(
    "loads",
    [
        None,
        "shop.orders",
        [["shop.orders", "a1", 1.0]] * 101,
        [["shop.orders", "a1"]],
        [["shop.orders", 7, 1.0]],
        [["shop", "a1", 1.0]],
        [["shop.orders", "../a", 1.0]],
        [["shop.orders", "", 1.0]],
        [["shop.orders", "a1", "now"]],
        [["shop.orders", "a1", float("inf")]],
        [["s." + "x" * 700, "a1", 1.0]],
    ],
)
def test_what_is_no_request_is_refused(loads: object) -> None:
    with pytest.raises(ProtocolError):
        list(asked_for({"loads": loads}))
