"""Failed tests that are run once more: `make test` does that at its end with each alone, nothing beside it.

Who passes then is printed as `unsteady: …`, who does not fails the run. There are two kinds:

- late: all errors of the test, what they came from included, say that something did not come in time or that a connection was
  lost. It has to pass once, and has two tries: the machine is as slow as before.
- other: anything else, where few tests fail. It has to pass three times in a row.

Final are a history that fails under a folder `torture`, and a comparison that fails in a proof (`test_rule_…`): what such a
test shows once, it has shown.

With `--second-run FILE` pytest ends with 0 where nothing that failed is final, and notes it in FILE; this file as a program
runs what stands there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from anabranch.errors import SourceUnavailable, TargetUnavailable
from anabranch.testing.in_time import NotInTime
from hung import was_hung

MOST = 10  # more at once is no accident of a busy machine
MOST_OTHER = 3  # of those that are not late
FINAL, LATE_ONCE, OTHER = 0, 1, 3  # how often a failed test has to pass; FINAL: nothing can make it good
TRIES = 2  # of a late test
LATE = (NotInTime, TimeoutError, subprocess.TimeoutExpired, ConnectionError, SourceUnavailable, TargetUnavailable)
# A line that is lost, a server that stops, what a session still holds that has been told to end.
LATE_POSTGRESQL = ("08", "57P", "55006")  # https://www.postgresql.org/docs/current/errcodes-appendix.html
LOST_MYSQL = {2003, 2006, 2013}  # https://dev.mysql.com/doc/mysql-errors/8.0/en/client-error-reference.html
KEPT = ("ANABRANCH_COMPILED",)  # what a stage of `make test` sets for its tests


def is_late(error: BaseException) -> bool:
    """All of it is: the error, what it was raised from, and what it was raised in the middle of."""
    return all(map(_says_late, _with_causes(error)))


def passes_needed(test: str, error: BaseException | None) -> int:
    """Return how often a test that failed with this error has to pass for the run to pass."""
    path, *names = test.split("::")
    if ("torture" in path.split("/") and "histor" in test) or error is None:
        return FINAL
    if is_late(error):
        return LATE_ONCE
    return FINAL if any(map(_compares, _with_causes(error))) and names[-1].startswith("test_rule_") else OTHER


def _compares(error: BaseException) -> bool:
    """Return whether a comparison has failed. A wait in vain is none, whatever it was waited in the middle of."""
    return isinstance(error, AssertionError) and not isinstance(error, NotInTime)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        waiting += [each for each in (one.__cause__, one.__context__, *inner) if each is not None]
        if not inner:
            yield one


def _says_late(error: BaseException) -> bool:
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate is None or error.sqlstate.startswith(LATE_POSTGRESQL)
    if isinstance(error, pymysql.err.OperationalError):
        return bool(error.args) and error.args[0] in LOST_MYSQL
    if isinstance(error, pytest.fail.Exception):
        return str(error).startswith("Timeout (>")  # of pytest-timeout
    return isinstance(error, LATE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-run", type=Path, metavar="FILE", help="end with 0 where only time ran out, and note the tests in FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--second-run")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(file, config))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """In the worker, where the error still is one; the attribute travels with the report."""
    report = yield
    if report.failed:
        report.passes_needed = passes_needed(item.nodeid, call.excinfo.value if call.excinfo else None)
    return report


class Failures:
    """Collects what failed in this run, and whether that was final."""

    def __init__(self, file: Path, config: pytest.Config) -> None:
        self._file, self._config = file, config
        self._failed: dict[str, int] = {}  # of each test that failed, how often it has to pass

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            stacks = was_hung(self._file, report.nodeid)
            needed = LATE_ONCE if stacks else getattr(report, "passes_needed", FINAL)
            before = self._failed.get(report.nodeid, needed)
            self._failed[report.nodeid] = FINAL if FINAL in (before, needed) else max(before, needed)
            self._tell(report, stacks)

    def _tell(self, report: pytest.TestReport, stacks: str) -> None:
        """Names it at once: the summary comes half an hour later."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            why = next((line for line in report.longreprtext.splitlines() if line.startswith("E ")), "")
            reporter.write_line(f"\nfailed: {report.nodeid} {why}"[:400])
            if stacks:
                reporter.write_line(f"it went on long after its time, and its worker was ended in:\n{stacks}")

    @property
    def run_again(self) -> bool:
        needed = list(self._failed.values())
        return 0 < len(needed) <= MOST and FINAL not in needed and needed.count(OTHER) <= MOST_OTHER

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self.run_again:
            kept = {name: os.environ[name] for name in KEPT if name in os.environ}
            options = ["--spark"] if self._config.getoption("--spark", False) else []
            with self._file.open("a") as file:
                for test, times in self._failed.items():
                    noted = {"test": test, "times": times, "options": options, "environment": kept}
                    file.write(json.dumps(noted) + "\n")
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.run_again:
            terminalreporter.write_line(
                "nothing of this is final: what failed is run once more, alone, at the end of make test"
            )


def run_again(file: Path) -> int:
    """Run what was noted; the exit code. Names are printed last."""
    noted = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    lines, code = list[str](), 0
    for one in noted:
        print(f"once more, alone: {one['test']} ({one['times']} times)", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", *one["options"], one["test"]]
        environment = os.environ | one["environment"]
        tries = (subprocess.run(command, env=environment).returncode == 0 for _ in range(max(one["times"], TRIES)))
        passes = any(tries) if one["times"] == LATE_ONCE else all(tries)
        lines.append(f"{'unsteady' if passes else 'failed again'}: {one['test']}")
        code = code if passes else 1
    print("\n".join(lines), end="\n" * bool(lines))
    return code


if __name__ == "__main__":
    sys.exit(run_again(Path(sys.argv[1])))
