"""Directories for servers' files: in memory where there is room, gone afterwards, and gone when their process was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.testing import places
from anabranch.testing.places import server_files

KILLED = """
import os, signal, sys
from pathlib import Path
from anabranch.testing.places import server_files
with server_files(memory=Path(sys.argv[1])) as place:
    (place / "data").write_text("left")
    print(place, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the test's own in place of /dev/shm."""
    for name in (places.VARIABLE, "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(places, "ROOM", 1)
    made = tmp_path / "memory"
    made.mkdir()
    return made


def test_a_directory_is_in_memory_and_goes(memory: Path) -> None:
    with server_files(memory=memory) as place:
        assert place.parent == memory and place.stat().st_mode & 0o777 == 0o755
        (place / "data").mkdir()
    assert list(memory.iterdir()) == []


def test_where_memory_has_no_room_or_somebody_names_a_directory_it_is_elsewhere(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_files(memory=tmp_path / "none") as place:
        assert memory not in place.parents
    with server_files(processes=1 << 60, memory=memory) as place:
        assert memory not in place.parents
    monkeypatch.setenv(places.VARIABLE, str(tmp_path))
    with server_files(memory=memory) as place:
        assert place.parent == tmp_path


def test_what_a_killed_process_left_is_removed_and_what_is_used_stays(memory: Path) -> None:
    with server_files(memory=memory) as used:
        killed = subprocess.run([sys.executable, "-c", KILLED, memory], capture_output=True, text=True)
        left = Path(killed.stdout.strip())
        assert killed.returncode < 0 and left.parent == memory and (left / "data").exists()
        with server_files(memory=memory) as next_one:
            assert set(memory.iterdir()) == {used, next_one}
