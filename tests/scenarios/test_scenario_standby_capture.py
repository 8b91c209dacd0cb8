"""Captures of several machines that share a trail: each has a home of its own, and takes over where the one before has gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from anabranch.testing import faults
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail.claims import holder
from rigs.hops import Hops, hops
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
SHARED = "[capture]\nstandby = true\nlease_s = 2\n"
CONTINUOUS = '[apply]\nrunner = "continuous"\n'
DUMPS = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"


def machine(way: Hops, number: int) -> Scenario:
    """Make another machine that has the job file of the one that captures, and sees the trail."""
    made = replace(way.here, directory=way.here.directory.parent / f"machine{number}", _running=[])
    made.job_file.write_text(way.here.job_file.read_text())
    return made


def stands_by(made: Scenario, running: Running) -> None:
    def said() -> bool:
        found = made.status()
        return (found["state"], found["sub_state"]) == ("waiting", "standby")

    wait_until(said, 60, "it stands by", running.tail, running)


def has_it(way: Hops, running: Running) -> None:
    """Wait until a capture of this `run` writes the trail."""

    def is_held() -> bool:
        claim = holder(way.trail)
        return claim is not None and claim.pid in faults.find(running.pid, "-m anabranch capture ")

    wait_until(is_held, 60, "it writes the trail", running.tail, running)


@pytest.mark.quick
def test_rule_11_18_a_standby_goes_on_where_the_capture_stood_still_or_was_killed(
    mariadb: Server, scenario: Make
) -> None:
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made, SHARED, CONTINUOUS)
    second, third = machine(way, 2), machine(way, 3)
    try:
        _takes_turns(made, way, second, third)
    finally:
        second.close()
        third.close()


def _takes_turns(made: Scenario, way: Hops, second: Scenario, third: Scenario) -> None:
    run, applied = way.start()
    way.there.wait_streaming(applied)
    has_it(way, run)
    behind = [(one, one.start("run")) for one in (second, third)]
    for one, running in behind:
        stands_by(one, running)
    told = second.cli("status").stdout
    assert f"for the trail, which process {run.part('capture')} on {os.uname().nodename} writes (epoch 1 since " in told
    # Who stands by reads no log: two of one server id would throw each other out.
    assert made.source.query(DUMPS)[0][0] == 1
    with Writer(made.source, seed=5, rate=50):
        way.there.sync(applied)
        stopped = [run.pid, *faults.find(run.pid, "-m anabranch ")]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: _epoch(way) == 2, 60, "another one writes the trail")
        later, other = sorted(behind, key=lambda one: _pid(way) not in faults.find(one[1].pid, "-m anabranch capture "))
        has_it(way, later[1])
        way.there.sync(applied)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        ended = run.wait()
        assert ended.code == 7
        assert f"was taken over by process {_pid(way)} on " in ended.stderr
        assert way.here.status()["last_error"]["code"] == "trail_overtaken"
        way.there.sync(applied)
        later[1].kill()
        has_it(way, other[1])
        way.there.sync(applied)
    way.there.sync(applied)
    made.assert_identical()
    assert other[1].stop().code == 0
    assert applied.stop().code == 0
    assert holder(way.trail) is None
    other[0].cli("trail", "check")


def _pid(way: Hops) -> int:
    claim = holder(way.trail)
    return claim.pid if claim else 0


def _epoch(way: Hops) -> int:
    claim = holder(way.trail)
    return claim.epoch if claim else 0
