"""native/find-cargo.sh: a cargo that is there and cannot start is named, and the next one is taken."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "native" / "find-cargo.sh"


def _cargo(directory: Path, *lines: str) -> Path:
    directory.mkdir()
    file = directory / "cargo"
    file.write_text("\n".join(["#!/bin/sh", *lines]))
    file.chmod(0o755)
    return directory


def _find(home: Path, *directories: Path) -> subprocess.CompletedProcess[str]:
    path = ":".join([*map(str, directories), "/usr/bin", "/bin"])
    return subprocess.run(
        ["sh", SCRIPT], env={"PATH": path, "HOME": str(home)}, capture_output=True, text=True, timeout=300
    )


def test_a_cargo_without_a_toolchain_is_named_and_the_next_one_is_taken(tmp_path: Path) -> None:
    broken = _cargo(tmp_path / "broken", "echo 'rustup could not choose a version of cargo to run' >&2", "exit 1")
    good = _cargo(tmp_path / "good", "echo cargo 1.95.0")
    found = _find(tmp_path, broken, good)
    assert found.returncode == 0 and found.stdout == f"{good}\n"
    assert found.stderr == f"{broken}/cargo cannot start: rustup could not choose a version of cargo to run\n"


def test_rustup_s_own_place_is_looked_at(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".cargo").mkdir(parents=True)
    place = _cargo(home / ".cargo" / "bin", "echo cargo 1.95.0")
    others = _cargo(tmp_path / "broken", "exit 1")
    assert _find(home, others).stdout.strip() in (
        str(place),
        "/usr/bin",
    )  # Debian's, where the machine has one on its PATH
