"""Checks which failures are run once more, on tests of one line each; pytest and the second run are real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pymysql
import pytest

from anabranch.errors import RowRefused, TargetUnavailable
from anabranch.testing.in_time import NotInTime
from second_run import FINAL, LATE_ONCE, MOST, MOST_OTHER, OTHER, is_late, passes_needed

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
            "[pytest]\naddopts = -p xdist -p pytest_timeout -p hung -p second_run\nmarkers = slow\n"
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
WRONG = """
def test_compares(): assert [1] == [2]
def test_is_refused(): raise ValueError
def test_raises_nothing():
    with pytest.raises(OSError): pass
def test_rule_1_compares(): assert [1] == [2]
def test_rule_2_compares_first():
    try:
        assert 1 == 2
    finally:
        raise NotInTime("cleaning up")
def test_rule_3_compares_in_a_group(): raise ExceptionGroup("two", [NotInTime("a"), AssertionError("b")])
@pytest.mark.xfail(strict=True, reason="it passes, which is a failure here")
def test_passes(): pass
@pytest.fixture
def ends():
    yield
    raise TimeoutError
def test_rule_4_compares_before(ends): assert 1 == 2
def test_dies(): os._exit(3)
"""


def test_what_passes_alone_is_named_and_ends_with_0(suite: Suite) -> None:
    suite.holds(PASSES_ALONE)
    first = suite.first("-n", "2", "-m", "", ANABRANCH_COMPILED="off")
    assert first.returncode == 0 and "2 failed, 1 passed" in first.stdout and "nothing of this is final" in first.stdout
    second = suite.second()
    assert second.returncode == 0
    assert sorted(second.stdout.splitlines()[-2:]) == [
        "unsteady: test_it.py::test_hangs",
        "unsteady: test_it.py::test_late[c::d/e]",
    ]


SWALLOWS_ITS_END = """
@pytest.mark.timeout(0.5)
def test_never_ends():
    while not pathlib.Path("hung").exists():
        try:
            time.sleep(60)
        except BaseException:  # the error of its end, which this test is made to swallow
            continue
@pytest.mark.timeout(0.5)
def test_cleans_up_without_an_end(tmp_path):
    if not pathlib.Path("hung").exists():
        try:
            raise NotInTime("late")
        finally:
            while True:
                try:
                    time.sleep(60)
                except BaseException:  # as above
                    continue
def test_passes(): pass
def test_passes_too(): pass
"""


def test_a_worker_that_nothing_else_ends_is_ended_and_its_test_runs_once_more(suite: Suite) -> None:
    suite.holds(SWALLOWS_ITS_END)
    first = suite.first("-n", "2")
    assert first.returncode == 0 and "2 failed, 2 passed" in first.stdout
    assert first.stdout.count("went on long after its time") == 2 and "in test_never_ends" in first.stdout
    assert not list(suite.directory.glob("*.stacks"))
    (suite.directory / "hung").touch()
    assert "unsteady: test_it.py::test_never_ends" in suite.second().stdout


LATE = """
def test_late(): in_time(time.monotonic())
def test_once(): fails_once(ConnectionResetError())
def test_twice():
    tries = pathlib.Path("twice")
    tries.write_text(tries.read_text() + "." if tries.exists() else ".")
    if tries.read_text() != "...":
        raise TimeoutError
"""


def test_what_is_late_has_two_more_tries(suite: Suite) -> None:
    suite.holds(LATE)
    assert suite.first().returncode == 0
    second = suite.second()
    assert second.returncode == 1
    assert second.stdout.splitlines()[-3:] == [
        "failed again: test_it.py::test_late",
        "unsteady: test_it.py::test_once",
        "unsteady: test_it.py::test_twice",
    ]


def test_a_history_is_final_and_so_is_a_proof_that_compares(suite: Suite) -> None:
    suite.holds(WRONG)
    suite.holds("def test_history(): fails_once(NotInTime('late'))", "torture/test_history.py")
    suite.holds("def test_late(): raise TimeoutError", "test_late.py")
    (suite.directory / "conftest.py").write_text(TELLS)
    first = suite.first("-n", "1")
    assert first.returncode == 1 and not suite.noted.exists() and "nothing of this" not in first.stdout
    failed = [line.split() for line in (suite.directory / "told").read_text().splitlines()]
    names = {name for name, _ in failed}
    assert len(names) == WRONG.count("def test_") + 2
    assert {name for name, needed in failed if needed == str(FINAL)} == {
        "test_history",
        "test_rule_1_compares",
        "test_rule_2_compares_first",
        "test_rule_3_compares_in_a_group",
        "test_rule_4_compares_before",
        "test_passes",
        "test_dies",
    }
    assert {name for name, needed in failed if needed == str(LATE_ONCE)} == {"test_late", "test_rule_4_compares_before"}
    assert suite.second().returncode == 0, "nothing was noted"


TELLS = """
def pytest_runtest_logreport(report):
    if report.failed:
        with open("told", "a") as told:
            print(report.nodeid.split("::")[-1], getattr(report, "passes_needed", 0), file=told)
"""

PASSES_TWICE = """
def test_compares():
    tries = pathlib.Path("tries")
    tries.write_text(tries.read_text() + "." if tries.exists() else ".")
    assert tries.read_text() in PASSING
"""


@pytest.mark.parametrize(
    ("passing", "code"),
    [(("..", "...", "...."), 0), (("..", "..."), 1), ((), 1)],
    ids=["three times", "twice", "never"],
)
def test_what_is_not_late_has_to_pass_three_times(suite: Suite, passing: tuple[str, ...], code: int) -> None:
    suite.holds(PASSES_TWICE.replace("PASSING", repr(passing)))
    assert suite.first().returncode == 0
    second = suite.second()
    assert second.returncode == code
    assert second.stdout.splitlines()[-1] == f"{'failed again' if code else 'unsteady'}: test_it.py::test_compares"


WAITS = """
def test_rule_1_waits():
    try:
        raise ValueError("not yet")
    except ValueError:
        fails_once(NotInTime("it did not come"))
"""


def test_a_wait_of_a_proof_in_the_middle_of_another_error_is_no_comparison(suite: Suite) -> None:
    suite.holds(WAITS)
    assert suite.first().returncode == 0
    assert [json.loads(line)["times"] for line in suite.noted.read_text().splitlines()] == [3]
    assert suite.second().returncode == 0


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("def test_rule_1(): assert 1 == 2", 1),
        ("@pytest.fixture\ndef ends():\n    yield\n    raise TimeoutError\ndef test_rule_1(ends): assert 1 == 2", 1),
        (f"@pytest.mark.parametrize('n', range({MOST}))\ndef test_many(n): raise TimeoutError", 1),
        (f"@pytest.mark.parametrize('n', range({MOST_OTHER + 1}))\ndef test_some(n): assert 1 == 2", 1),
        ("raise TimeoutError", 2),
    ],
    ids=["a proof", "a late end of a proof", "too many", "too many that are not late", "a file that cannot be read"],
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


@pytest.mark.parametrize(
    ("error", "late"),
    [
        (NotInTime("x"), True),
        (AssertionError("x"), False),
        (TargetUnavailable("x"), True),
        (RowRefused("x"), False),
        (refused_while_unavailable(), False),
        (psycopg.OperationalError("server closed the connection"), True),
        (psycopg.errors.AdminShutdown("x"), True),
        (psycopg.errors.LockNotAvailable("x"), False),
        (psycopg.errors.DiskFull("x"), False),
        (pymysql.err.OperationalError(2013, "Lost connection"), True),
        (pymysql.err.OperationalError(1366, "Incorrect value"), False),
    ],
    ids=repr,
)
def test_which_errors_say_late(error: Exception, late: bool) -> None:
    assert is_late(error) is late


def test_a_proof_is_final_only_where_it_compares() -> None:
    refused = pymysql.err.OperationalError(1220, "Wrong offset or I/O error")
    assert passes_needed("tests/live/test_keys.py::test_rule_01_a_key[mariadb]", refused) == OTHER
    assert passes_needed("tests/live/test_keys.py::test_rule_01_a_key[mariadb]", AssertionError()) == FINAL
    assert passes_needed("tests/live/test_keys.py::test_a_key", AssertionError()) == OTHER
    assert passes_needed("tests/torture/test_torture_histories.py::test_a_slice", NotInTime("x")) == FINAL
