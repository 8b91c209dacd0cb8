"""Directories for servers' files: in memory where there is room, gone afterwards, and gone when their process was killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.testing import places
from anabranch.testing.places import server_files

KILLED = """
import os, signal, sys
from pathlib import Path
from anabranch.testing import places
places.ROOM = places.WITH_WHAT_RUNS = 1
with places.server_files(memory=Path(sys.argv[1])) as place:
    (place / "data").write_text("left")
    print(place, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the test's own in place of /dev/shm."""
    for name in (places.VARIABLE, "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ROOM", "WITH_WHAT_RUNS"):
        monkeypatch.setattr(places, name, 1)
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


def test_shared_memory_of_killed_servers_is_removed_where_none_runs_any_more(memory: Path, tmp_path: Path) -> None:
    (status := tmp_path / "processes" / "7" / "status").parent.mkdir(parents=True)
    for name, account, is_left in (
        ("postgres", os.geteuid(), True),
        ("postgres", os.geteuid() + 1, False),
        ("python", os.geteuid(), False),
    ):
        segment, other = memory / "PostgreSQL.12345", memory / "another"
        segment.touch()
        other.touch()
        status.write_text(f"Name:\t{name}\nUmask:\t0022\nUid:\t0\t{account}\t{account}\t{account}\n")
        places.remove_left(memory, tmp_path / "processes")
        assert (segment.exists(), other.exists()) == (is_left, True), name


@pytest.mark.parametrize(
    "form", [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")]
)
def test_a_container_with_less_memory_than_the_machine_has_no_room(
    form: tuple[str, str], memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "CGROUPS", tmp_path / "groups")
    limit, usage = (tmp_path / "groups" / name for name in form)
    limit.parent.mkdir(parents=True)
    usage.write_text("1000\n")
    for told, is_there in (("1000\n", False), ("1001\n", True), ("max\n", True)):
        limit.write_text(told)
        with server_files(memory=memory) as place:
            assert (place.parent == memory) is is_there, told


def test_directories_of_tests_are_made_anew() -> None:
    """pytest sets a module's fixture up again when other tests ran between the module's tests, which worksteal brings about: a
    directory of a fixed name is there then."""
    tests = Path(__file__).parents[1]
    fixed = re.compile(r"(servers|quick)_directory / (?!unique_name\()")
    found = [str(path) for path in tests.rglob("*.py") if fixed.search(path.read_text()) and path != Path(__file__)]
    assert not found, "name it with unique_name()"
