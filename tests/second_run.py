"""Failed tests that are run once more: `make test` does that at its end with each alone, nothing beside it.

Who passes then is printed as `unsteady: …`, who does not fails the run. Only what can be the machine's fault gets there: all
errors of the test, what they came from included, say that something did not come in time or that a connection was lost.
Everything else is final, a failed comparison first of all, and so is a history that fails under a folder `torture`.

With `--second-run FILE` pytest ends with 0 where all that failed is of this kind, and notes it in FILE; this file as a program
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
LATE = (NotInTime, TimeoutError, subprocess.TimeoutExpired, ConnectionError, SourceUnavailable, TargetUnavailable)
# A line that is lost, a server that stops, what a session still holds that has been told to end.
LATE_POSTGRESQL = ("08", "57P", "55006")  # https://www.postgresql.org/docs/current/errcodes-appendix.html
LOST_MYSQL = {2003, 2006, 2013}  # https://dev.mysql.com/doc/mysql-errors/8.0/en/client-error-reference.html
KEPT = ("ANABRANCH_COMPILED",)  # what a stage of `make test` sets for its tests


def is_late(error: BaseException) -> bool:
    """All of it is: the error, what it was raised from, and what it was raised in the middle of."""
    return all(map(_says_late, _with_causes(error)))


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
        is_history = "torture" in item.nodeid.split("::")[0].split("/") and "histor" in item.nodeid
        report.is_late = not is_history and call.excinfo is not None and is_late(call.excinfo.value)
    return report


class Failures:
    """Collects what failed in this run, and whether that was final."""

    def __init__(self, file: Path, config: pytest.Config) -> None:
        self._file, self._config = file, config
        self._failed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            was_late, stacks = self._failed.get(report.nodeid, True), was_hung(self._file, report.nodeid)
            self._failed[report.nodeid] = was_late and (getattr(report, "is_late", False) or bool(stacks))
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
    def are_late(self) -> bool:
        return 0 < len(self._failed) <= MOST and all(self._failed.values())

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self.are_late:
            kept = {name: os.environ[name] for name in KEPT if name in os.environ}
            options = ["--spark"] if self._config.getoption("--spark", False) else []
            with self._file.open("a") as file:
                for test in self._failed:
                    file.write(json.dumps({"test": test, "options": options, "environment": kept}) + "\n")
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.are_late:
            terminalreporter.write_line(
                "only time ran out: what failed is run once more, alone, at the end of make test"
            )


def run_again(file: Path) -> int:
    """Run what was noted; the exit code. Names are printed last."""
    noted = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    lines, code = list[str](), 0
    for one in noted:
        print(f"once more, alone: {one['test']}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", *one["options"], one["test"]]
        passes = subprocess.run(command, env=os.environ | one["environment"]).returncode == 0
        lines.append(f"{'unsteady' if passes else 'failed twice'}: {one['test']}")
        code = code if passes else 1
    print("\n".join(lines), end="\n" * bool(lines))
    return code


if __name__ == "__main__":
    sys.exit(run_again(Path(sys.argv[1])))
