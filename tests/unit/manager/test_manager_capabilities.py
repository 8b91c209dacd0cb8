"""Machines that may run some parts only: what they refuse and start, and what goes on. No server of a database."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.manager import Manager
from anabranch.manager.capabilities import Capabilities, Part
from anabranch.testing.servers import free_port
from rigs.hop_files import pump_file, receive_file, route_file
from unit.manager.test_manager_store import text
from unit.manager.test_manager_supervision import ADMIN, manager, noted, wait_for

__all__ = ["manager"]  # a fixture


def _files(folder: Path) -> list[str]:
    """Return the texts of a receiver's, a router's and a pump's file, of a capture's and an apply's."""
    inner, outer, trail = free_port(), free_port(), f"trail+file://{folder}/a"
    pump = pump_file(folder, folder / "a", f"trail+file://{folder}/b")
    hops = [one.read_text() for one in (receive_file(folder, inner), route_file(folder, outer, inner), pump)]
    begin = text("begin").replace("postgresql://u:${PW}@127.0.0.1:1/db", trail)
    return [*hops, begin, text("end").replace("mysql://u:${PW}@127.0.0.1:1", trail)]


NEEDS = {"shop": "capture apply", "begin": "capture", "end": "apply", "hop": "pump", "in": "receive", "dmz": "route"}


@pytest.mark.parametrize("part", list(Part))
def test_what_a_machine_may_run_is_told_by_the_parts_of_each_file(manager: Manager, part: Part, tmp_path: Path) -> None:
    for one in _files(tmp_path):
        manager.add(ADMIN, one)
    manager.run_only([part])
    for name, needs in NEEDS.items():
        missing = [one for one in needs.split() if one != part]
        if not missing:
            assert manager.start(ADMIN, name).is_wanted
            continue
        with pytest.raises(ConfigError, match=f"{socket.gethostname()}, which runs only: {part}") as refused:
            manager.start(ADMIN, name)
        assert all(f"--only {one}" in str(refused.value.hint) for one in missing)
        assert not manager.jobs.is_wanted(name)
        with pytest.raises(ConfigError, match="is not started"):
            manager.restart(ADMIN, name)


def test_all_parts_are_no_limit() -> None:
    assert not Capabilities().is_limited and not Capabilities(list(Part)).is_limited
    assert Capabilities([Part.APPLY]).is_limited


def test_what_was_wanted_before_waits_with_the_reason_until_it_may_run(manager: Manager) -> None:
    manager.start(ADMIN, "shop")
    manager.run_only(["capture"])
    manager.supervision.look()
    state = manager.supervision.state("shop")
    assert state.state == "waiting" and "runs only: capture" in state.problem
    assert not noted(manager)
    manager.run_only(["capture", "apply"])
    manager.supervision.try_again("shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    assert manager.supervision.state("shop").problem == ""


def test_what_runs_goes_on(manager: Manager, tmp_path: Path) -> None:
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    wait_for(lambda: noted(manager))
    manager.run_only(["pump"])
    with pytest.raises(ConfigError):
        manager.restart(ADMIN, "shop")
    manager.supervision.look()
    assert manager.supervision.state("shop").state == "running"
    other = Manager(tmp_path)  # the next manager, that is limited from the beginning
    other.run_only(["pump"])
    other.supervision.look()
    assert other.supervision.state("shop").state == "running"
    other.store.close()
