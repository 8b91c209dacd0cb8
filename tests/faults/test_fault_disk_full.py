"""The disk under the trail fills up while capture writes: it says so and waits, publishes nothing half, and goes on when
there is room again. The home lies on a small file system of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scenario import Running, Scenario, wait_until

from anabranch.testing.servers import Server

Make = Callable[..., Scenario]
ROOM_MB = 12
TIMES, AT_ONCE = 40, 400
ROWS = "INSERT INTO item (words) VALUES " + ",".join(["(HEX(RANDOM_BYTES(400)))"] * AT_ONCE)
IS_ROOT = os.geteuid() == 0
NAME_SPACE = ("unshare", "--user", "--map-root-user", "--mount")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Needs the right to mount: root's, or that of a user name space, where the command then runs (`Scenario.prefix`)."""
    home = tmp_path / "job0" / "home"
    home.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_MB}m", "anabranch", str(home)]
    tried = subprocess.run(mount if IS_ROOT else [*NAME_SPACE, *mount], capture_output=True, text=True)
    if tried.returncode:
        pytest.fail(f"no small file system to be had: {tried.stderr}; allow mounts, or user name spaces", pytrace=False)
    yield home
    if IS_ROOT:
        subprocess.run(["umount", "--lazy", home], check=True)


def test_pitfall_45_a_full_disk_is_waited_for(mariadb: Server, scenario: Make, small_disk: Path) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, words VARCHAR(2000) NOT NULL)")
    made.write_job("[capture]\nsegment_mb = 4\nflush_interval_ms = 50\n")
    capture = _capture_on(made, small_disk)
    ballast = Path(f"/proc/{capture.pid}/root{small_disk}/ballast")
    ballast.write_bytes(b"x" * (ROOM_MB - 3) * 1024 * 1024)
    made.source.execute(*[ROWS] * TIMES)
    wait_until(lambda: "disk full" in capture.stderr, 60, "capture says that the disk is full", capture.tail, capture)
    wait_until(lambda: _waits(made), 20, "status says so", lambda: f"{made.status()}\n{capture.tail()}", capture)
    assert "state_not_written" not in capture.stderr
    ballast.unlink()
    made.source.execute("INSERT INTO item VALUES (999999, 'the last')")
    wait_until(lambda: _rows(made) == TIMES * AT_ONCE + 1, 60, "the trail has every row", capture.tail, capture)
    assert made.cli("trail", "check", "--json").json["problems"] == []
    capture.stop()


def _capture_on(made: Scenario, disk: Path) -> Running:
    """Without root's rights the disk is seen in the name space of capture alone, and so by commands that enter it."""
    if not IS_ROOT:
        mount = f'mount -t tmpfs -o size={ROOM_MB}m anabranch "{disk}" && exec "$@"'
        made.prefix = (*NAME_SPACE, "sh", "-c", mount, "sh")
    capture = made.capture()
    if not IS_ROOT:
        made.prefix = ("nsenter", "--user", "--mount", "--preserve-credentials", f"--target={capture.pid}")
    return capture


def _waits(made: Scenario) -> bool:
    status = made.status()
    return status["phase"] == "waiting" and "disk full" in status["detail"]


def _rows(made: Scenario) -> int:
    return sum(segment["rows"] for segment in made.cli("trail", "ls", "--json").json["segments"])
