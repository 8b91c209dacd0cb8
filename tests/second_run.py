"""Failed tests that are run again: `make test` does that at its end with each alone, nothing beside it.

Who passes then is printed as `unsteady: …`, who does not fails the run. Only what can be the machine's fault gets there:

- All errors of the test, what they came from included, say that something did not come in time or that a connection was lost.
  It has to pass once.
- A comparison failed. The rare one that looks a moment too early at what another process does fails on one machine in a
  hundred runs, and each time the whole run was lost; what is wrong fails again. So it has to pass three times, and no more
  than three such tests are run again in all.

Everything else is final: any other error, and a failed comparison of what depends on drawn input, which nobody draws again: of
hypothesis, and whatever fails of a history under a folder `torture`.

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

MOST = 10  # more at once is no accident of a busy machine
MOST_COMPARED = 3  # of all stages of `make test`
FINAL, LATE_RUNS, COMPARED_RUNS = 0, 1, 3  # how often a test has to pass when it is run again
LATE = (NotInTime, TimeoutError, subprocess.TimeoutExpired, ConnectionError, SourceUnavailable, TargetUnavailable)
LOST_MYSQL = {2003, 2006, 2013}  # https://dev.mysql.com/doc/mysql-errors/8.0/en/client-error-reference.html
KEPT = ("ANABRANCH_COMPILED",)  # what a stage of `make test` sets for its tests


def runs_of(error: BaseException) -> int:
    """How often a test that ended with it has to pass when it is run again. All of the error counts: what it was raised from,
    and what it was raised in the middle of."""
    every = list(_with_causes(error))
    if all(map(_says_late, every)):
        return LATE_RUNS
    compares = all(_says_late(one) or isinstance(one, (AssertionError, pytest.fail.Exception)) for one in every)
    return COMPARED_RUNS if compares else FINAL


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
        return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
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
        runs = runs_of(call.excinfo.value) if call.excinfo is not None else FINAL
        report.second_runs = FINAL if _is_history(item) or (_is_drawn(item) and runs == COMPARED_RUNS) else runs
    return report


def _is_history(item: pytest.Item) -> bool:
    return "torture" in item.nodeid.split("::")[0].split("/") and "histor" in item.nodeid


def _is_drawn(item: pytest.Item) -> bool:
    """Hypothesis marks its tests so."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


class Failures:
    """Collects what failed in this run, and whether that was final."""

    def __init__(self, file: Path, config: pytest.Config) -> None:
        self._file, self._config = file, config
        self._failed: dict[str, tuple[int, str]] = {}  # how often each has to pass, and the first line of its error
        self._are_noted = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            runs = getattr(report, "second_runs", FINAL)
            why = next((line for line in report.longreprtext.splitlines() if line.startswith("E ")), "")
            before, first = self._failed.get(report.nodeid, (runs, why))
            self._failed[report.nodeid] = (max(before, runs) if before and runs else FINAL, first)
            self._tell(f"\nfailed: {report.nodeid} {why}"[:400])

    def _tell(self, line: str) -> None:
        """At once: the summary comes half an hour later."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)

    def _may_pass(self) -> bool:
        runs = [runs for runs, _ in self._failed.values()]
        compared = runs.count(COMPARED_RUNS) + sum(one["runs"] == COMPARED_RUNS for one in noted_in(self._file))
        return 0 < len(runs) <= MOST and all(runs) and (COMPARED_RUNS not in runs or compared <= MOST_COMPARED)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self._may_pass():
            kept = {name: os.environ[name] for name in KEPT if name in os.environ}
            options = ["--spark"] if self._config.getoption("--spark", False) else []
            with self._file.open("a") as file:
                for test, (runs, why) in self._failed.items():
                    one = {"test": test, "runs": runs, "why": why, "options": options, "environment": kept}
                    file.write(json.dumps(one) + "\n")
            self._are_noted, session.exitstatus = True, pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._are_noted:
            terminalreporter.write_line("what failed is run again, alone, at the end of make test")


def noted_in(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run_again(file: Path) -> int:
    """Run what was noted; the exit code. Names are printed last."""
    lines, code = list[str](), 0
    for one in noted_in(file):
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", *one["options"], one["test"]]
        passes = all(_passes(command, one, number) for number in range(1, one["runs"] + 1))
        compared = f" (compared, first: {one['why'].strip()[:200]})" if one["runs"] == COMPARED_RUNS else ""
        lines.append(f"{'unsteady' if passes else 'failed again'}: {one['test']}{compared}")
        code = code if passes else 1
    print("\n".join(lines), end="\n" * bool(lines))
    return code


def _passes(command: list[str], one: dict[str, Any], number: int) -> bool:
    print(f"again, alone, {number} of {one['runs']}: {one['test']}", flush=True)
    return subprocess.run(command, env=os.environ | one["environment"]).returncode == 0


if __name__ == "__main__":
    sys.exit(run_again(Path(sys.argv[1])))
