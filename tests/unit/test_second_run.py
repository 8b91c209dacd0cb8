"""Checks which failures are run once more, on tests of one line each; pytest and the second run are real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pymysql
import pytest

from anabranch.errors import RowRefused, TargetUnavailable
from anabranch.testing.in_time import NotInTime
from second_run import COMPARED_RUNS, FINAL, LATE_RUNS, MOST, MOST_COMPARED, runs_of

PROGRAM = Path(__file__).parent.parent / "second_run.py"
HEAD = "import os, pathlib, subprocess, time, pytest\nfrom anabranch.testing.in_time import NotInTime, in_time\n"
ONCE = """
def fails_once(error):
    mark = pathlib.Path("been_here")
    if not mark.exists():
        mark.touch()
        raise error
"""


class Suite:
    """A folder with tests, and what `make test` does with them."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.noted = directory, directory / "noted"
        self.environment = os.environ | {"PYTHONPATH": str(PROGRAM.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        (directory / "pytest.ini").write_text(
            "[pytest]\naddopts = -p xdist -p pytest_timeout -p second_run\nmarkers = slow\n"
        )
        self.holds("")

    def holds(self, text: str, name: str = "test_it.py") -> None:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + ONCE + text)

    def first(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--second-run", str(self.noted)]
        return self._run(*command, *arguments, **environment)

    def second(self) -> subprocess.CompletedProcess[str]:
        return self._run(sys.executable, str(PROGRAM), str(self.noted))

    def _run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = self.environment | environment
        return subprocess.run(command, cwd=self.directory, env=env, capture_output=True, text=True)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


PASSES_ALONE = """
ran = []
@pytest.mark.parametrize("of", ["a-b", "c::d/e"])
def test_late(of):
    ran.append(of)
    if of == "c::d/e":
        fails_once(NotInTime("it did not come"))
        assert ran == [of] and os.environ["ANABRANCH_COMPILED"] == "off", "as it was, in a process of its own"
@pytest.mark.timeout(0.2)
@pytest.mark.slow
def test_hangs():
    if not pathlib.Path("hung").exists():
        pathlib.Path("hung").touch()
        time.sleep(60)
"""
COMPARES = """
def passes(times):
    "Fails, then passes so often."
    runs = pathlib.Path("runs")
    number = int(runs.read_text()) if runs.exists() else 0
    runs.write_text(str(number + 1))
    assert 1 <= number <= times, number
def test_steps_in_early(): passes(times=TIMES)
def test_late(): fails_once(NotInTime("late"))
"""
WRONG = """
from hypothesis import given, strategies
def test_is_refused(): raise ValueError
def test_compares_what_is_wrong():
    try:
        raise ValueError
    except ValueError:
        assert 1 == 2
@given(strategies.just(1))
def test_draws(n): assert n == 2
@pytest.mark.xfail(strict=True, reason="it passes, which is a failure here")
def test_passes(): pass
@pytest.fixture
def ends():
    yield
    raise ValueError
def test_ends_wrong(ends): raise TimeoutError
def test_dies(): os._exit(3)
"""


def test_what_passes_alone_is_named_and_ends_with_0(suite: Suite) -> None:
    suite.holds(PASSES_ALONE)
    first = suite.first("-n", "2", "-m", "", ANABRANCH_COMPILED="off")
    assert first.returncode == 0 and "2 failed, 1 passed" in first.stdout and "is run again" in first.stdout
    second = suite.second()
    assert second.returncode == 0
    assert sorted(second.stdout.splitlines()[-2:]) == [
        "unsteady: test_it.py::test_hangs",
        "unsteady: test_it.py::test_late[c::d/e]",
    ]


def test_what_fails_twice_fails_the_run(suite: Suite) -> None:
    suite.holds("""
def test_late(): in_time(time.monotonic())
def test_once(): fails_once(ConnectionResetError())
""")
    assert suite.first().returncode == 0
    second = suite.second()
    assert second.returncode == 1
    assert second.stdout.splitlines()[-2:] == ["failed again: test_it.py::test_late", "unsteady: test_it.py::test_once"]


def test_what_compares_has_to_pass_three_times(suite: Suite) -> None:
    suite.holds(COMPARES.replace("TIMES", "3"))
    first = suite.first("-n", "1")
    assert first.returncode == 0, first.stdout
    second = suite.second()
    assert second.returncode == 0 and second.stdout.count("of 3: test_it.py::test_steps_in_early") == 3
    compared, late = sorted(second.stdout.splitlines()[-2:], key=len, reverse=True)
    assert compared.startswith("unsteady: test_it.py::test_steps_in_early (compared, first: E ") and "0" in compared
    assert late == "unsteady: test_it.py::test_late"


def test_what_compares_and_passes_twice_fails_the_run(suite: Suite) -> None:
    suite.holds(COMPARES.replace("TIMES", "2"))
    assert suite.first().returncode == 0
    second = suite.second()
    assert second.returncode == 1 and "failed again: test_it.py::test_steps_in_early" in second.stdout


def test_what_compares_is_counted_over_all_stages(suite: Suite) -> None:
    suite.holds(f"@pytest.mark.parametrize('n', range({MOST_COMPARED}))\ndef test_wrong(n): assert n < 0")
    assert suite.first().returncode == 0
    suite.holds("def test_late(): fails_once(NotInTime('late'))")
    assert suite.first().returncode == 0, "late ones are others"
    suite.holds("def test_one_more(): assert 1 == 2")
    assert suite.first().returncode == 1


def test_what_is_wrong_is_final(suite: Suite) -> None:
    suite.holds(WRONG)
    suite.holds("def test_history(): fails_once(NotInTime('late'))", "torture/test_history.py")
    suite.holds("def test_late(): raise TimeoutError", "test_late.py")
    (suite.directory / "conftest.py").write_text(TELLS)
    first = suite.first("-n", "1")
    assert first.returncode == 1 and not suite.noted.exists() and "run again" not in first.stdout
    failed = [line.split() for line in (suite.directory / "told").read_text().splitlines()]
    names = {name for name, _ in failed}
    assert len(names) == WRONG.count("def test_") + 2
    assert {name for name, runs in failed if runs != str(FINAL)} == {"test_late", "test_ends_wrong"}
    assert ["test_ends_wrong", str(FINAL)] in failed, "its end was wrong"
    assert suite.second().returncode == 0, "nothing was noted"


TELLS = """
def pytest_runtest_logreport(report):
    if report.failed:
        with open("told", "a") as told:
            print(report.nodeid.split("::")[-1], getattr(report, "second_runs", 0), file=told)
"""


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("def test_is_refused(): raise ValueError", 1),
        ("@pytest.fixture\ndef ends():\n    yield\n    raise TimeoutError\ndef test_it(ends): raise ValueError", 1),
        (f"@pytest.mark.parametrize('n', range({MOST}))\ndef test_many(n): raise TimeoutError", 1),
        (f"@pytest.mark.parametrize('n', range({MOST_COMPARED + 1}))\ndef test_many(n): assert n < 0", 1),
        ("raise TimeoutError", 2),
    ],
    ids=[
        "an error",
        "a late end of a test that is wrong",
        "too many",
        "too many compare",
        "a file that cannot be read",
    ],
)
def test_one_that_is_final_makes_all_final(suite: Suite, wrong: str, code: int) -> None:
    suite.holds(f"def test_late(): fails_once(NotInTime('late'))\n{wrong}\n")
    assert suite.first().returncode == code and not suite.noted.exists()


def refused_while_unavailable() -> Exception:
    try:
        raise RowRefused("a value is wrong")
    except RowRefused as refused:
        error = TargetUnavailable("away")
        error.__context__ = refused
        return error


def wrong_after(error: Exception) -> Exception:
    found = AssertionError("x")
    found.__context__ = error
    return found


@pytest.mark.parametrize(
    ("error", "runs"),
    [
        (NotInTime("x"), LATE_RUNS),
        (AssertionError("x"), COMPARED_RUNS),
        (pytest.fail.Exception("DID NOT RAISE"), COMPARED_RUNS),
        (pytest.fail.Exception("Timeout (>900.0s) from pytest-timeout."), LATE_RUNS),
        (wrong_after(NotInTime("x")), COMPARED_RUNS),
        (wrong_after(RowRefused("x")), FINAL),
        (ExceptionGroup("two", [NotInTime("a"), AssertionError("b")]), COMPARED_RUNS),
        (ExceptionGroup("two", [NotInTime("a"), ValueError("b")]), FINAL),
        (TargetUnavailable("x"), LATE_RUNS),
        (RowRefused("x"), FINAL),
        (refused_while_unavailable(), FINAL),
        (psycopg.OperationalError("server closed the connection"), LATE_RUNS),
        (psycopg.errors.AdminShutdown("x"), LATE_RUNS),
        (psycopg.errors.LockNotAvailable("x"), FINAL),
        (psycopg.errors.DiskFull("x"), FINAL),
        (pymysql.err.OperationalError(2013, "Lost connection"), LATE_RUNS),
        (pymysql.err.OperationalError(1366, "Incorrect value"), FINAL),
    ],
    ids=repr,
)
def test_what_an_error_says(error: Exception, runs: int) -> None:
    assert runs_of(error) == runs
