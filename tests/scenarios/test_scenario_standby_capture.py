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
SHARED = "[capture]\nstandby = true\nlease_s = 6\n"
CONTINUOUS = '[apply]\nrunner = "continuous"\n'
ROWS = (
    "CREATE TABLE item (id int PRIMARY KEY, note text)",
    "CREATE TABLE other (id int PRIMARY KEY, note text)",
    "CREATE TABLE third (id int PRIMARY KEY, note text)",
    *(
        f"INSERT INTO {name} SELECT n, 'note ' || n FROM generate_series(1, 999) n"
        for name in ("item", "other", "third")
    ),
)
IN_USE = "[55006]"  # another process reads the slot
# As the server itself does once its reader has not answered for a minute: wal_sender_timeout, as the session sets it.
END_SENDERS = (
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = current_database()"
)
DUMPS = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"


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


@pytest.mark.quick
def test_rule_11_a_standby_goes_on_with_a_load_and_waits_for_the_slot_of_a_capture_that_stands_still(
    logical_postgresql: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scenario(logical_postgresql, *ROWS)
    way = hops(made, SHARED, CONTINUOUS)
    second = machine(way, 2)
    try:
        monkeypatch.setenv("ANABRANCH_FAILPOINTS", "trail.load.file=delay:3600@3")  # in the middle of the load
        first = way.here.start("run")
        has_it(way, first)
        wait_until(lambda: list(way.trail.glob("load/**/*.arrow")), 60, "a chunk is in the trail", first.tail, first)
        monkeypatch.delenv("ANABRANCH_FAILPOINTS")
        later = second.start("run")
        stands_by(second, later)
        first.kill()
        has_it(way, later)
        applied = way.there.start("run")
        way.there.wait_streaming(applied)
        made.source.execute("UPDATE item SET note = 'changed' WHERE id % 3 = 0", "DELETE FROM item WHERE id % 7 = 0")
        way.there.sync(applied)
        again = way.here.start("run")
        stands_by(way.here, again)
        stopped = [later.pid, *faults.find(later.pid, "-m anabranch ")]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        has_it(way, again)
        made.source.execute("INSERT INTO item SELECT n, 'late' FROM generate_series(5000, 5100) n")
        wait_until(lambda: IN_USE in again.stderr, 60, "it waits for the slot", again.tail, again)
        made.source.execute(END_SENDERS)
        way.there.sync(applied)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        assert later.wait().code == 7
        way.there.sync(applied)
        made.assert_identical()
        assert again.stop().code == applied.stop().code == 0
        way.here.cli("trail", "check")
    finally:
        second.close()


def _takes_turns(made: Scenario, way: Hops, second: Scenario, third: Scenario) -> None:
    run, applied = way.start()
    way.there.wait_streaming(applied)
    has_it(way, run)
    # A server keeps readers of others, which are gone, for a while.
    wait_until(lambda: len(made.source.query(DUMPS)) == 1, 60, "one reads the log", run.tail, run)
    reads = made.source.query(DUMPS)
    behind = [(one, one.start("run")) for one in (second, third)]
    for one, running in behind:
        stands_by(one, running)
    told = second.cli("status").stdout
    assert f"for the trail, which process {run.part('capture')} on {os.uname().nodename} writes (epoch 1 since " in told
    # Who stands by reads no log: two of one server id would throw each other out.
    assert made.source.query(DUMPS) == reads
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
