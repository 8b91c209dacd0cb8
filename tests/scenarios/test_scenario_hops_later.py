"""A way from one trail to many: who joins later gets the load and all that came since, as long as the trail keeps both."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail import load_readers, retention
from rigs.hop_files import Process, pump_file
from rigs.hops import Hops, another, hops
from rigs.scenario import TARGET_SECRET, Scenario, wait_until

Make = Callable[..., Scenario]
KEPT = "[trail]\nload_retain_hours = 2\n[capture]\nretain_hours = 0\nsegment_mb = 1\n"


@pytest.mark.quick
def test_a_job_and_a_pump_that_join_later_get_all_of_it(
    mariadb: Server, scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first job has everything, and no segment stays by itself. A job that comes behind the time is refused its rows."""
    made = scenario(mariadb, *SCHEMA, *fill(2))
    monkeypatch.setenv(TARGET_SECRET, made.target.server.password or "none")
    way = hops(made, at_capture=KEPT)
    way.until_caught_up()
    there = files(way)
    assert there and load_readers.unread(way.trail)
    run, applied = way.start()
    with Writer(made.source, seed=11, workers=3, rate=300):
        wait_until(lambda: len(list(way.trail.glob("*.segment"))) > 1, 120, "a further segment", run.tail, run)
    way.there.sync(applied)
    applied.stop()
    run.stop()
    way.there.cli("load")
    assert files(way) == there
    status = way.here.status()["load_files"]
    assert (status["awaited"], status["kept"]) == ({}, len(tables(way))) and status["kept_until"]
    assert "for who joins later until" in way.here.cli("status").stdout

    late = another(way, "late")
    late.run_until_caught_up()
    assert set(late.states().values()) == {"streaming"}
    late.assert_identical()
    assert files(way) == there

    replica = tmp_path / "replica"
    pump = Process("run", pump_file(tmp_path, way.trail, f"trail+file://{replica}"), folder=tmp_path)
    pump.start()
    third = another(Hops(way.here, way.there, way.trail), "third")
    text = third.job_file.read_text().replace(f"trail+file://{way.trail}", f"trail+file://{replica}")
    third.job_file.write_text(text)
    wait_until(lambda: (replica / "load/complete.json").exists(), 120, "the replica has the load")
    third.run_until_caught_up()
    assert set(third.states().values()) == {"streaming"}
    third.assert_identical()
    assert pump.process and pump.end() in (0, -signal.SIGINT)

    for manifest in way.trail.glob("load/*/manifest.json"):
        at = manifest.stat().st_mtime - 2 * 3600
        os.utime(manifest, (at, at))
    run = way.here.start("run")
    wait_until(lambda: not files(way), 120, "files that are old enough are gone", run.tail, run)
    run.stop()
    assert set(retention.readers(way.trail)) > {"load_retain_hours"}
    behind = another(way, "behind")
    behind.run_until_caught_up(code=8)
    assert set(behind.states().values()) == {"parked"}
    made.assert_identical()


def files(way: Hops) -> list[str]:
    """Return the files of rows that are in the trail."""
    return sorted(str(one.relative_to(way.trail)) for one in way.trail.glob("load/*/*/*.arrow"))


def tables(way: Hops) -> list[str]:
    """Return the tables of which the trail has a load."""
    return [one.table for one in load_readers.stored(way.trail)]
