"""Questions about rows at the job that captures: what answers is started, and what fails is told to who asks."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch import pace
from anabranch.contracts import ValueRules
from anabranch.errors import StateError
from anabranch.job import answering, asked_checks
from anabranch.job.asked_checks import AskedChecks
from anabranch.job.signals import SUPERVISED
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.in_time import PATIENCE
from anabranch.trail import checks
from anabranch.trail.checks import Answer
from anabranch.trail.lock import OsLock
from anabranch.trail.replica_files import CHECKS
from anabranch.verify.asking import Asking, Refused
from anabranch.verify.plan import VerifyTable
from anabranch.verify.told import Told

NAME = TableId("shop", "orders")
ID = LogicalType(Kind.INT32)
TABLE = TargetTable(NAME, NAME, ("id",), (ID,), ("id",), ("id",))
ONE = VerifyTable(TableSchema(id=NAME, columns=(Column("id", "int", ID),), primary_key=("id",)), TABLE)


def asked_of(trail: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> AskedChecks:
    """Return what looks at questions, whose parts end with this code at once."""
    retry = SimpleNamespace(restarts_per_hour=0)
    config = SimpleNamespace(name="shop", retry=retry, home=trail)
    job: Any = SimpleNamespace(trail=trail, path=trail / "job.toml", config=config)
    made = asked_checks.Child

    def child(name: str, command: list[str], may_end: bool) -> Any:
        assert command[3:] == ["verify", str(job.path)]
        return made(name, [sys.executable, "-c", f"raise SystemExit({code})"], may_end)

    monkeypatch.setattr(asked_checks, "Child", child)
    return AskedChecks(job)


def through(found: AskedChecks) -> None:
    found.poll(time.monotonic())
    until = time.monotonic() + PATIENCE
    while found.children and time.monotonic() < until:
        found.poll(time.monotonic())
        time.sleep(0.01)
    assert not found.children


def test_what_answers_begins_with_a_question_and_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(time.monotonic())
    assert not found.children
    question = checks.ask(tmp_path, NAME, {})
    found._next = 0.0
    through(found)
    assert checks.pending(tmp_path) == [question]


def test_a_failure_is_the_answer_to_all_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [checks.ask(tmp_path, NAME, {}) for _ in range(2)]
    found = asked_of(tmp_path, monkeypatch, 7)
    through(found)
    assert checks.pending(tmp_path) == []
    for one in asked:
        said = checks.answer(tmp_path, one.id)
        assert said is not None and "ended with code 7" in said.refusal
    checks.ask(tmp_path, NAME, {})
    found.poll(time.monotonic())
    assert not found.children  # it is not tried again at once


def test_a_question_that_cannot_be_read_keeps_the_run_going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = checks.ask(tmp_path, NAME, {})
    (tmp_path / checks.ASKED / f"{question.id}.json").write_text("{")
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(time.monotonic())
    assert not found.children


def test_answers_go_when_nobody_has_asked_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked_of(tmp_path, monkeypatch, 0)
    question = checks.ask(tmp_path, NAME, {})
    through(found)
    checks.note(tmp_path, question.id, Answer({"low": 1}))
    found._next = 0.0
    found.poll(time.monotonic())
    assert checks.answer(tmp_path, question.id) is not None
    found.poll(time.monotonic() + asked_checks.KEPT_S + 60)
    assert checks.answer(tmp_path, question.id) is None and question.id in checks.answered(tmp_path)


def test_answers_stay_as_long_behind_a_long_reading_and_behind_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = checks.ask(tmp_path, NAME, {})
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(began := time.monotonic())
    (child,) = found.children
    checks.note(tmp_path, question.id, Answer({"low": 1}))
    child.ended_well = True
    found.poll(late := began + 3 * asked_checks.KEPT_S)
    assert not found.children
    found.poll(late + pace.current.run_asked)
    assert checks.answer(tmp_path, question.id) is not None
    found.poll(late + asked_checks.KEPT_S + 1)
    assert checks.answer(tmp_path, question.id) is None
    checks.note(tmp_path, "by an earlier run", Answer({"low": 1}))
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(time.monotonic())
    assert checks.answer(tmp_path, "by an earlier run") is not None
    found.poll(time.monotonic() + asked_checks.KEPT_S + 1)
    assert checks.answer(tmp_path, "by an earlier run") is None


def test_nothing_is_written_beside_who_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a question refused then, nor is an answer taken out."""
    question = checks.ask(tmp_path, NAME, {})
    found = asked_of(tmp_path, monkeypatch, 7)
    with closing(OsLock(tmp_path / asked_checks.LOCK)):
        through(found)
        assert checks.pending(tmp_path) == [question]
        checks.note(tmp_path, question.id, Answer({"low": 1}))
        found.poll(late := time.monotonic() + 2 * asked_checks.KEPT_S)
        assert checks.answer(tmp_path, question.id) is not None
    found.poll(late + asked_checks.KEPT_S + 1)
    assert checks.answer(tmp_path, question.id) is None


def test_the_part_of_a_run_that_finds_somebody_answering_does_not_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure would be the answer to all questions."""
    job: Any = SimpleNamespace(trail=tmp_path, config=SimpleNamespace(name="shop", home=tmp_path))
    monkeypatch.setattr(answering, "exists", lambda trail: True)
    engine: Any = None
    with closing(OsLock(tmp_path / asked_checks.LOCK)):
        monkeypatch.setenv(SUPERVISED, "1")
        assert answering.answer_all(job, engine, lambda: False, linger=0.0) == 0
        assert answering.answer_all(job, engine, lambda: True) == 0
        monkeypatch.delenv(SUPERVISED)
        with pytest.raises(StateError, match="questions are being answered by process"):
            answering.answer_all(job, engine, lambda: False)


def test_what_answers_stops_while_another_machine_has_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks.ask(tmp_path, NAME, {})
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(time.monotonic())
    (child,) = found.children
    child.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    found.pause()
    assert child.process.wait(PATIENCE) == -signal.SIGTERM
    found.pause()
    assert not found.children


def answered_by(trail: Path, *said: Answer | None) -> threading.Thread:
    """Answer one question after the other in a thread; None: with an answer that makes room for others at once."""

    def answer() -> None:
        for one in said:
            until = time.monotonic() + PATIENCE
            while not (found := checks.pending(trail)) and time.monotonic() < until:
                time.sleep(0.01)
            if one is None:
                checks._save(trail, {}, [found[0].id])
                checks.withdraw(trail, found[0].id)
            else:
                checks.note(trail, found[0].id, one)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_who_asks_asks_again_where_the_answer_is_gone(tmp_path: Path) -> None:
    thread = answered_by(tmp_path, None, Answer(Told(1, 2, rows=[(b"1", bytes(16))]).to_json()))
    found = Asking(tmp_path, lambda: None).ask(ONE, ValueRules(), frozenset({3}), lambda: False)
    thread.join()
    assert found is not None and found.rows == [(b"1", bytes(16))]
    assert not list((tmp_path / checks.ASKED).iterdir()) and (tmp_path / CHECKS).exists()


def test_who_asks_asks_again_where_the_question_is_gone(tmp_path: Path) -> None:
    """Two who write the answers at once may forget an answer and its id, and the question is withdrawn."""
    until, withdrawn = time.monotonic() + PATIENCE, list[str]()

    def lose() -> bool:
        found = checks.pending(tmp_path)
        if found and not withdrawn:
            withdrawn.append(found[0].id)
            checks.withdraw(tmp_path, found[0].id)
        elif found and found[0].id not in withdrawn:
            checks.note(tmp_path, found[0].id, Answer(Told(1, 2).to_json()))
        return time.monotonic() > until

    found = Asking(tmp_path, lambda: None).ask(ONE, ValueRules(), None, lose)
    assert withdrawn and found is not None and (found.low, found.high) == (1, 2)


def test_who_asks_is_told_why_there_is_no_answer(tmp_path: Path) -> None:
    thread = answered_by(tmp_path, Answer({}, "the trail does not have it"))
    with pytest.raises(Refused, match="at the source's site: the trail does not have it"):
        Asking(tmp_path, lambda: None).ask(ONE, ValueRules(), None, lambda: False)
    thread.join()


def test_who_has_no_time_takes_the_question_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.verify.asking.LONG", 0.0)
    told: list[str] = []
    looks = iter([False] * 4)
    found = Asking(tmp_path, lambda: told.append("waits")).ask(ONE, ValueRules(), None, lambda: next(looks, True))
    assert found is None and told == ["waits"] and checks.pending(tmp_path) == []
