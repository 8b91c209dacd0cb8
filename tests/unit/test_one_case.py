"""The mark `one_case` leaves the cases that it names in `make test`, and is an error where it names none of a test's cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = """
import pytest

@pytest.mark.parametrize("end", ["mysql", "mariadb", "postgresql"])
@pytest.mark.one_case({})
def test_of_cases(end):
    pass

@pytest.mark.one_case("nothing")
def test_without_cases():
    pass
"""


def collected(directory: Path, chosen: str, *asked: str) -> tuple[int, str]:
    (directory / "test_it.py").write_text(CASES.format(chosen))
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = one_case: x\n    long: x\n")
    options = ["-q", "--strict-markers", "--collect-only", "-p", "one_case", "-p", "no:cacheprovider", *asked]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=directory,
        env={"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_others_are_long(tmp_path: Path) -> None:
    code, told = collected(tmp_path, '"m*b", "postgresql"', "-m", "not long")
    assert code == 0 and "[mariadb]" in told and "[postgresql]" in told and "[mysql]" not in told
    assert "test_without_cases" in told


def test_a_mark_that_names_no_case_is_told(tmp_path: Path) -> None:
    code, told = collected(tmp_path, '"oracle"')
    assert code == 4 and "test_it.py::test_of_cases: no case has an id that its mark one_case names" in told
    code, told = collected(tmp_path, '"oracle"', "test_it.py::test_of_cases[mysql]")
    assert code == 0 and "[mysql]" in told
