"""`anabranch demo` as a user runs it: in an empty directory, as a process; whatever ends it, nothing stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing import class_archive
from anabranch.testing.in_time import in_time

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 240.0  # for the servers, the shop and Spark on a busy machine


@pytest.fixture
def here() -> Iterator[Path]:
    """The servers' account has to reach it, as it reaches a user's directory; pytest closes its own ones to others."""
    with tempfile.TemporaryDirectory(prefix="anabranch-demo-test-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


def start(here: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch", "demo", *options],
        cwd=here,
        env=os.environ | class_archive.environment() | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=(here / "stderr").open("w"),
        text=True,
        start_new_session=True,
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("mariadb", "postgresql"),
        # With Spark from a MariaDB to a MySQL: test_verify_at_mysql.py; a job to a MySQL: test_scenario_mysql_target.py.
        pytest.param("postgresql", "postgresql", marks=pytest.mark.long),
        pytest.param("mariadb", "mysql", marks=pytest.mark.long),
    ],
)
def test_demo_ends_with_both_ends_identical_and_nothing_left(here: Path, source: str, target: str) -> None:
    demo = start(here, "--source", source, "--target", target, "--seconds", "3", "--rate", "100")
    printed, _ = demo.communicate()
    assert demo.returncode == 0, (here / "stderr").read_text()
    assert "identical:  10 of 10 tables" in printed
    assert figure(r"loaded +([\d,]+) rows of 10 tables", printed) >= 200_000
    assert figure(r"applied +([\d,]+) transactions", printed) > 60
    assert figure(r"transactions, ([\d,]+) changes", printed) > 120  # a busy machine commits less than it is asked for
    assert figure(r"the writer +([\d,]+) committed", printed) > 60
    assert "latency p50" in printed or "latency not measured" in printed  # three seconds may be too few
    assert "caught up   " in printed
    assert not list(processes(here))
    assert not (here / ".anabranch" / "demo").exists()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target", ["postgresql", "mysql"])
def test_rule_24_the_demo_of_a_cutover_goes_there_and_back(here: Path, target: str) -> None:
    """Both switches are through without an alarm, every acknowledged transaction is at both ends, which are equal."""
    demo = start(here, "--scenario", "cutover", "--target", target, "--rate", "60")
    printed, _ = demo.communicate()
    assert demo.returncode == 0, (here / "stderr").read_text()
    assert "identical:  9 of 9 tables" in printed
    assert re.search(r"^there +finished, downtime [\d.]+ s; .* alarms: 0$", printed, re.MULTILINE), printed
    assert re.search(r"^back +finished, downtime [\d.]+ s; .* alarms: 0$", printed, re.MULTILINE), printed
    assert figure(r"([\d,]+) transactions committed at the old side", printed) > 0
    assert figure(r"([\d,]+) at the new one", printed) > 0
    assert "lost        0 at the old side, 0 at the new one" in printed
    assert not list(processes(here))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("source", "target"), [("mariadb", "postgresql"), ("postgresql", "mysql")])
def test_the_demo_of_a_dmz_ends_equal_though_its_router_was_killed(here: Path, source: str, target: str) -> None:
    options = ("--source", source, "--target", target, "--seconds", "6", "--rate", "60")
    demo = start(here, "--scenario", "dmz", *options)
    printed, _ = demo.communicate()
    said = (here / "stderr").read_text()
    assert demo.returncode == 0, said
    assert "the router is killed" in said
    assert "identical:  10 of 10 tables" in printed
    assert figure(r"loaded +([\d,]+) rows of 10 tables through the trail", printed) >= 200_000
    assert re.search(r"^hops +dmz [\d.]+ ms, inner [\d.]+ ms, there and back$", printed, re.MULTILINE), printed
    assert figure(r"s without a router, ([\d,]+) transactions waited", printed) > 0
    assert figure(r"the writer +([\d,]+) committed", printed) > 60
    assert figure(r"lost +(\d+)", printed) == 0
    assert not list(processes(here))
    assert not (here / ".anabranch" / "demo").exists()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("end", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, -9, marks=pytest.mark.long),
    ],
)
def test_demo_that_is_ended_during_the_load_leaves_nothing_running(here: Path, end: signal.Signals, code: int) -> None:
    demo = start(here)
    await_true(lambda: any(" apply " in command for command in processes(here)))
    demo.send_signal(end)
    demo.communicate()
    assert demo.returncode == code, (here / "stderr").read_text()
    if end is signal.SIGKILL:
        await_true(lambda: not list(processes(here)))
    assert not list(processes(here))
    assert "Traceback" not in (here / "stderr").read_text()


def processes(here: Path) -> Iterator[str]:
    """Command lines of what works in `here`: servers and parts name it, JVMs stand in it."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            stands_in = (place / "cwd").resolve()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if command and (f"{here}/" in command or stands_in.is_relative_to(here)):
            yield command


def await_true(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        in_time(deadline)
        time.sleep(0.1)


def figure(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, text
    return int(found[1].replace(",", ""))
