"""The disk under the trail fills up while capture writes: it says so and waits, publishes nothing half, and goes on when
there is room again. The home lies on a small file system of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scenario import Running, Scenario, repeating, wait_until
from small_disk import IS_ROOT, NAME_SPACE, fill

from anabranch.testing.servers import Server

Make = Callable[..., Scenario]
ROOM_MB = 12
TIMES, AT_ONCE = 40, 400
ROWS = "INSERT INTO item (words) VALUES " + ",".join(["(HEX(RANDOM_BYTES(400)))"] * AT_ONCE)
SOME_ROWS = "INSERT INTO item (words) VALUES " + ",".join(["(HEX(RANDOM_BYTES(400)))"] * 10)


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
    capture = _on(made, "capture", small_disk)
    wait_until(lambda: "capture_follows" in capture.stderr, 60, "capture follows", capture.tail, capture)
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


@pytest.mark.faults
def test_pitfall_45_a_job_sees_through_a_full_disk(mariadb: Server, scenario: Make, small_disk: Path) -> None:
    """Everything of `run` is on that disk: the trail, what its readers note, Spark's checkpoint, the state. No part ends."""
    made = scenario(mariadb, "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, words VARCHAR(2000) NOT NULL)")
    made.write_job("[capture]\nsegment_mb = 4\nflush_interval_ms = 50\n")
    run = _on(made, "run", small_disk)
    made.wait_streaming(run)
    ballast = Path(f"/proc/{run.pid}/root{small_disk}/ballast")
    with repeating(lambda: made.source.execute(SOME_ROWS), 0.05):
        for _ in range(3):
            fill(ballast)
            wait_until(lambda: _waits(made), 60, "status says so", lambda: f"{made.status()}\n{run.tail()}", run)
            time.sleep(3)
            ballast.unlink()
            made.sync(run)
    made.sync(run)
    made.assert_identical()
    assert made.cli("trail", "check", "--json").json["problems"] == []
    assert run.stop().code == 0
    assert "part_restarts" not in run.stderr and "Traceback" not in run.stderr


def _on(made: Scenario, verb: str, disk: Path) -> Running:
    """Without root's rights the disk is seen in the name space of that command alone, and so by those that enter it."""
    if not IS_ROOT:
        mount = f'mount -t tmpfs -o size={ROOM_MB}m anabranch "{disk}" && exec "$@"'
        made.prefix = (*NAME_SPACE, "sh", "-c", mount, "sh")
    running = made.start(verb)
    if not IS_ROOT:
        made.prefix = ("nsenter", "--user", "--mount", "--preserve-credentials", f"--target={running.pid}")
    return running


def _waits(made: Scenario) -> bool:
    status = made.status()
    return status["phase"] == "waiting" and "disk full" in status["detail"]


def _rows(made: Scenario) -> int:
    return sum(segment["rows"] for segment in made.cli("trail", "ls", "--json").json["segments"])
