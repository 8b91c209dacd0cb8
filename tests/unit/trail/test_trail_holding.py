"""A hold of apply: it says up to where, ends by its time, with its process, and when it is let go; one at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import StateError
from anabranch.testing.in_time import PATIENCE, until
from anabranch.trail import holding
from anabranch.trail.holding import LOCK, NOTE, Held, Hold

HOLDER = """
import sys
from pathlib import Path
from anabranch.trail.holding import Hold
hold = Hold(Path(sys.argv[1]), 7, 300.0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hold is over because this machine is slow."""
    monkeypatch.setattr(holding, "LONGEST", PATIENCE)


def test_nothing_behind_the_place_is_applied_until_it_is_let_go(tmp_path: Path) -> None:
    held = Held(tmp_path / "held")
    assert held.bound() is None
    hold = Hold(tmp_path / "held", 0, PATIENCE)
    assert held.bound() == 0
    hold.move(12)
    assert held.bound() == 12
    with pytest.raises(StateError, match="apply is held by another verification, process"):
        Hold(tmp_path / "held", 3, PATIENCE)
    assert held.bound() == 12, "whoever was refused has changed nothing"
    assert hold.close() >= 0 and held.bound() is None
    Hold(tmp_path / "held", 4, PATIENCE).close()
    assert [path.name for path in (tmp_path / "held").iterdir()] == [LOCK]


def test_it_ends_by_its_time_although_it_is_held(tmp_path: Path) -> None:
    """As where the verification stands still. The time counts from when apply first sees it."""
    held, hold = Held(tmp_path), Hold(tmp_path, 5, 0.05)
    until(lambda: held.bound() is None, "the time is over")
    hold.move(9)
    assert held.bound() is None, "it does not begin again"
    hold.close()
    following = Hold(tmp_path, 6, PATIENCE)
    assert held.bound() == 6
    following.close()


def test_a_process_that_is_killed_holds_nobody(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        held = Held(tmp_path)
        assert held.bound() == 7
    finally:
        holder.kill()
        holder.communicate()
    assert (tmp_path / NOTE).exists() and held.bound() is None
    Hold(tmp_path, 8, PATIENCE).close()


@pytest.mark.parametrize("note", ["", "{", "[]", '{"id": "x", "upto": "much", "seconds": 1}', '{"id": "x"}'])
def test_a_note_that_cannot_be_read_holds_nobody(tmp_path: Path, note: str) -> None:
    hold = Hold(tmp_path, 7, PATIENCE)
    (tmp_path / NOTE).write_text(note)
    assert Held(tmp_path).bound() is None
    hold.close()
