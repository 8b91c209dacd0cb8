"""Loads that are asked for where a trail is applied: begun one by one, answered once, given up with whoever asked."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.job import asked_loads
from anabranch.job.asked_loads import AskedLoads
from anabranch.model.ids import TableId
from anabranch.testing.in_time import PATIENCE
from anabranch.trail import load_answers, requests
from anabranch.trail.requests import LOADS
from rigs.trail_loads import a_load

TABLE = TableId("shop", "orders")


class State:
    """A state that keeps phases, and has one error."""

    def __init__(self, error: dict[str, str] | None = None) -> None:
        self.phases: list[str] = []
        self.error = error

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def snapshot(self) -> dict[str, Any]:
        return {"last_error": self.error}


def asked_of(
    trail: Path, monkeypatch: pytest.MonkeyPatch, code: int, error: dict[str, str] | None = None
) -> AskedLoads:
    """Return what looks at requests, with loads that end with this code at once."""
    retry = SimpleNamespace(restarts_per_hour=0)
    job: Any = SimpleNamespace(trail=trail, path=trail / "job.toml", config=SimpleNamespace(name="shop", retry=retry))
    made = asked_loads.Child

    def child(name: str, command: list[str], may_end: bool) -> Any:
        assert command[3:] == ["load", str(job.path), "--table", str(TABLE)]
        return made(name, [sys.executable, "-c", f"raise SystemExit({code})"], may_end)

    monkeypatch.setattr(asked_loads, "Child", child)
    state: Any = State(error)
    return AskedLoads(job, state)


def through(found: AskedLoads) -> None:
    """Look until the load that was begun has ended."""
    found.poll(time.monotonic())
    until = time.monotonic() + 60
    while found.children and time.monotonic() < until:
        found.poll(time.monotonic())
        time.sleep(0.01)
    assert not found.children


def test_a_load_that_is_through_is_answered_with_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(time.monotonic())
    assert not found.children
    a_load(tmp_path, 4)
    requests.request_table(tmp_path, TABLE, LOADS)
    found._next = 0.0
    through(found)
    answer = requests.answer(tmp_path, TABLE, LOADS)
    assert answer is not None and answer.sequence == 4


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (0, None, asked_loads.NOTHING),
        (5, None, "the load at the source's site ended with code 5"),
        (5, {"part": "load", "message": "no such table"}, "ended with code 5: no such table"),
        (1, {"part": "capture", "message": "of another part"}, "the load at the source's site ended with code 1"),
    ],
)
def test_a_load_that_fails_is_refused_with_its_reason(
    code: int, error: dict[str, str] | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests.request_table(tmp_path, TABLE, LOADS)
    through(asked_of(tmp_path, monkeypatch, code, error))
    answer = requests.answer(tmp_path, TABLE, LOADS)
    assert answer is not None and answer.refusal.endswith(said)


def test_nobody_is_answered_who_has_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests.request_table(tmp_path, TABLE, LOADS)
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(time.monotonic())
    requests.withdraw(tmp_path, TABLE, LOADS)
    through(found)
    assert requests.answer(tmp_path, TABLE, LOADS) is None


def test_a_damaged_manifest_or_request_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_load(tmp_path)
    (tmp_path / "load" / str(TABLE) / "manifest.json").write_text("{")
    requests.request_table(tmp_path, TABLE, LOADS)
    found = asked_of(tmp_path, monkeypatch, 0)
    through(found)
    answer = requests.answer(tmp_path, TABLE, LOADS)
    assert answer is not None and "manifest.json cannot be read" in answer.refusal
    (tmp_path / LOADS / f"{TABLE}.json").write_text("{")
    found._next = 0.0
    found.poll(time.monotonic())
    assert not found.children


def test_a_refusal_does_not_replace_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine's run, which had the turn meanwhile, has loaded it."""
    asked = requests.request_table(tmp_path, TABLE, LOADS)
    found = asked_of(tmp_path, monkeypatch, 5)
    found._begin()
    load_answers.note(tmp_path, asked.id, load_answers.Answer(7))
    requests.done(tmp_path, TABLE, 7, LOADS)
    through(found)
    answer = requests.answer(tmp_path, TABLE, LOADS)
    assert answer is not None and (answer.sequence, answer.refusal) == (7, "")
    assert load_answers.read(tmp_path) == {asked.id: load_answers.Answer(7)}


def test_a_load_stops_while_another_machine_has_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the asked load once, and begin it again only if its request has no answer when the turn is back."""
    asked = requests.request_table(tmp_path, TABLE, LOADS)
    found = asked_of(tmp_path, monkeypatch, 0)
    found.poll(time.monotonic())
    (child,) = found.children
    if child.process is not None:
        child.process.wait()
    child.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    found.pause()
    found.pause()
    assert child.process.wait(PATIENCE) == -signal.SIGTERM
    requests.done(tmp_path, TABLE, 7, LOADS)
    found._next = 0.0
    found.poll(time.monotonic())
    assert not found.children
    assert load_answers.read(tmp_path) == {} and asked.is_pending
