"""The disk under the trail fills up while capture writes: it says so and waits, publishes nothing half, and goes on when
there is room again. The home lies on a small file system of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.errors import StorageFull
from anabranch.state import StateStore
from anabranch.testing.servers import Server
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.disk import IS_ROOT, NAME_SPACE, fill, small_disk
from rigs.scenario import Running, Scenario, repeating, wait_until

Make = Callable[..., Scenario]
ROOM_MB = 12
TIMES, AT_ONCE = 40, 400
ROWS = "INSERT INTO item (words) VALUES " + ",".join(["(HEX(RANDOM_BYTES(400)))"] * AT_ONCE)
SOME_ROWS = "INSERT INTO item (words) VALUES " + ",".join(["(HEX(RANDOM_BYTES(400)))"] * 10)


@pytest.fixture
def small_home(tmp_path: Path) -> Iterator[Path]:
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


def test_pitfall_45_a_full_disk_is_waited_for(mariadb: Server, scenario: Make, small_home: Path) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, words VARCHAR(2000) NOT NULL)")
    made.write_job("[capture]\nsegment_mb = 4\nflush_interval_ms = 50\n")
    capture = _on(made, "capture", small_home)
    wait_until(lambda: "capture_follows" in capture.stderr, 60, "capture follows", capture.tail, capture)
    ballast = Path(f"/proc/{capture.pid}/root{small_home}/ballast")
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


def test_pitfall_45_a_state_that_finds_no_room_ends_nothing(tmp_path: Path) -> None:
    """It is for `status` alone: what is told to it while the disk is full is lost, what comes later is not."""
    home = tmp_path / "home"
    home.mkdir()
    with small_disk(home, 1, os.geteuid()) as disk:
        fill(disk / "ballast")
        state = StateStore(disk)
        state.phase("loading")
        assert state.snapshot()["parts"] == []
        (disk / "ballast").unlink()
        state.part("capture", os.getpid(), os.uname().nodename)
        state.phase("streaming")
        fill(disk / "ballast")
        state.phase("waiting", "disk full")
        state.position("written", "7@log:1")
        assert state.snapshot()["detail"] == "disk full", "what was made before needs no new room"
        state.close()


def test_pitfall_45_a_start_without_room_says_so(tmp_path: Path) -> None:
    """One message, and no half trail: with room the same start goes through."""
    home = tmp_path / "home"
    home.mkdir()
    with small_disk(home, 1, os.geteuid()) as disk:
        place, ballast = disk / "trail", disk / "ballast"

        def begin() -> None:
            TrailWriter.open(place, job="shop", job_uuid="u", source_identity="s").close()

        fill(ballast)
        for start in (begin, lambda: retention.register(place, "apply", 0), lambda: retention.hold(place, "load", 0)):
            with pytest.raises(StorageFull, match=r"no room left for .* — make room"):
                start()
        ballast.unlink()
        begin()
        fill(ballast)
        begin()
        ballast.unlink()
        retention.register(place, "apply", 0)
        with TrailReader(place) as reader:
            assert reader.check().is_good


@pytest.mark.faults
def test_pitfall_45_a_job_sees_through_a_full_disk(mariadb: Server, scenario: Make, small_home: Path) -> None:
    """Everything of `run` is on that disk: the trail, what its readers note, Spark's checkpoint, the state. No part ends."""
    made = scenario(mariadb, "CREATE TABLE item (id INT AUTO_INCREMENT PRIMARY KEY, words VARCHAR(2000) NOT NULL)")
    made.write_job("[capture]\nsegment_mb = 4\nflush_interval_ms = 50\n")
    run = _on(made, "run", small_home)
    made.wait_streaming(run)
    ballast = Path(f"/proc/{run.pid}/root{small_home}/ballast")
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
