"""Notes of a cut-over whose answer is lost with the line to the target: they are there or not, and are never there twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.connectors.memory.database import Database
from anabranch.connectors.memory.target.store import MemoryStore
from anabranch.cutover.machine import CutOver
from anabranch.cutover.terms import Terms
from anabranch.errors import Fenced, TargetUnavailable
from anabranch.model.cutover import CutoverNote, Phase, Step, Verifies

JOB = "shop"


class Losing(MemoryStore):
    """A store whose answer to a note is lost now and then, as `answers` says of each note that is added."""

    answers = ""  # a letter for each: "." is answered, "+" is taken and not answered, "-" neither

    @property
    def cutovers(self) -> Losing:  # type: ignore[override]  # it is its own part
        return self

    def note_cutover(self, job: str, note: CutoverNote) -> None:
        answer, self.answers = self.answers[:1], self.answers[1:]
        if answer != "-":
            super().note_cutover(job, note)
        if answer in ("+", "-"):
            raise TargetUnavailable("note a step of the cut-over: the line is lost", job=job)


def begun(directory: Path) -> tuple[CutOver, Losing]:
    """A cut-over that has begun, and fenced nothing yet."""
    store = Losing(Database("shop"))
    store.note_cutover(JOB, CutoverNote(1, Step.BEGIN, Phase.BEGINS, 1))
    job = SimpleNamespace(config=SimpleNamespace(name=JOB), target_home=directory, label=JOB)
    nobody: Any = None
    terms = Terms([], 0, 0, 0, 0, nobody, Verifies.NOT, False, nobody, False, lambda line: None)
    ends: Any = SimpleNamespace(job=job, store=store)
    return CutOver(ends, terms), store


@pytest.mark.parametrize("answers", ["..", "+.", "-.", ".+", "+.+", "-.+"])
def test_pitfall_74_a_note_whose_answer_is_lost_is_there_once(answers: str, tmp_path: Path) -> None:
    machine, store = begun(tmp_path)
    store.answers = answers
    machine.abort()
    found = [(note.number, note.step, note.phase) for note in store.cutover_notes(JOB)]
    assert found == [(1, Step.BEGIN, "begins"), (2, Step.ABORT, "begins"), (3, Step.ABORT, "done")]


def test_pitfall_74_a_target_that_answers_nothing_any_more_is_not_asked_for_ever(tmp_path: Path) -> None:
    """Neither note of an abort is taken; the last one raises, and another try adds both."""
    machine, store = begun(tmp_path)
    store.answers = "----"
    with pytest.raises(TargetUnavailable):
        machine.abort()
    assert [note.number for note in store.cutover_notes(JOB)] == [1]
    machine.abort()
    assert [note.step for note in store.cutover_notes(JOB)][1:] == [Step.ABORT, Step.ABORT]


def test_rule_09_a_note_of_another_process_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    machine, store = begun(tmp_path)
    store.note_cutover(JOB, CutoverNote(2, Step.LAG, Phase.BEGINS, 2))
    store.answers = "-"
    with pytest.raises(Fenced):
        machine.abort()
    assert [note.step for note in store.cutover_notes(JOB)] == [Step.BEGIN, Step.LAG]
