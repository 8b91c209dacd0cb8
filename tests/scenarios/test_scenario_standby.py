"""Let two managers of one home start: one acts, the other stands by and takes over when that is gone. Processes, no server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rigs.served import Served

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "anabranch.service"


@contextmanager
def served(home: Path, name: str) -> Iterator[Served]:
    manager = Served(os.environ | {"ANABRANCH_HOME": str(home)}, home.parent / name)
    try:
        yield manager
    finally:
        manager.close()


def test_a_standby_takes_over_from_one_that_was_killed_and_from_none_that_is_stopped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with served(home, "first") as first:
        first.wait_health()
        with served(home, "second") as second:
            second.wait_health(503)
            assert second.ask("GET", "/healthz") == (503, "standby\n")
            assert second.ask("GET", "/api/v1/jobs")[1]["code"] == "standby"
            assert f"process {first.process.pid}" in second.process.stderr
            os.kill(first.process.pid, signal.SIGSTOP)
            with served(home, "third") as third:  # it has looked for the lease itself, while the first one was stopped
                third.wait_health(503)
                third.process.stop()
            assert second.ask("GET", "/healthz")[0] == 503
            os.kill(first.process.pid, signal.SIGCONT)
            assert first.ask("GET", "/healthz") == (200, "ok\n")
            first.kill()
            second.wait_health(200)
            second.token = second.command("token", "create", "--role", "viewer")
            assert second.ask("GET", "/api/v1/jobs")[0] == 200
            second.process.stop()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/anabranch/bin/anabranch", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert unit.name not in done.stderr, done.stderr
