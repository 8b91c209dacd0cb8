"""Receivers, routers and pumps under a manager, as real processes on loopback: killed, taken over, stopped in their order."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch.config.hop_kinds import Kind, kind_of
from anabranch.errors import ConfigError, NotAllowed
from anabranch.job.forking import ForkedProcess
from anabranch.job.hop_process import HOME
from anabranch.manager import Manager, supervising
from anabranch.manager.callers import Caller, Role
from anabranch.manager.hop_view import _lag_now
from anabranch.manager.nursery import Nursery
from anabranch.manager.processes import JobProcess
from anabranch.manager.reach import reach_of
from anabranch.testing.servers import free_port
from anabranch.trail.writer import TrailWriter
from rigs import forked_commands
from rigs import trail_source as samples
from rigs.hop_files import asked, pump_file, receive_file, route_file, wait_for
from rigs.served import Served
from unit.manager.test_manager_store import text
from unit.transport.conftest import begun, rows, write

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
HOPS = ("in", "dmz", "hop")
KINDS = {"in": "receive", "dmz": "route", "hop": "pump"}


class Forks(Nursery):
    """A nursery that is there already: programs take a second each to begin."""

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], directory: Path, output: Path
    ) -> ForkedProcess:
        return forked_commands.start(words, environment, output, output, is_quick=False)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return the texts of a receiver's, a router's and a pump's file, of one way."""
    inner, outer = free_port(), free_port()
    made = (
        receive_file(tmp_path, inner),
        route_file(tmp_path, outer, inner),
        pump_file(tmp_path, tmp_path / "a", f"trail+tcp://127.0.0.1:{outer}/shop"),
    )
    return {name: file.read_text() for name, file in zip(HOPS, made, strict=True)}


@pytest.fixture
def manager(tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(supervising, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(supervising, "LOOK_S", 0.0)
    monkeypatch.setattr("anabranch.manager.glances.KEPT_S", -1.0)
    made = Manager(tmp_path / "home")
    made.supervision.nursery = Forks({})
    for one in files.values():
        made.add(ADMIN, one)
    yield made
    made.supervision.stop_all()
    made.store.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TrailWriter]:
    made = begun(tmp_path / "a")
    yield made
    made.close()


def until(manager: Manager, reached: Callable[[], object]) -> None:
    wait_for(lambda: manager.supervision.look() or reached())


def run_all(manager: Manager) -> None:
    for name in HOPS:
        manager.start(ADMIN, name)
    until(manager, lambda: all(JobProcess.found(manager.home / name) for name in HOPS))


def durable(manager: Manager) -> int:
    return int((manager.status(ADMIN, "hop")["hop"] or {}).get("acknowledged", 0))


def test_the_kind_of_a_file_is_known_by_its_sections(files: dict[str, str]) -> None:
    assert {name: kind_of(one) for name, one in files.items()} == KINDS
    assert kind_of(text()) is Kind.JOB and kind_of("no [ toml") is Kind.JOB
    assert Kind.RECEIVE.verb == "receive" and Kind.PUMP.verb == "run"


def test_a_way_of_three_hops_runs_and_each_one_that_dies_comes_again(
    manager: Manager, writer: TrailWriter, tmp_path: Path
) -> None:
    run_all(manager)
    for name in HOPS:
        write(writer, 10)
        until(manager, lambda: durable(manager) == writer.end.position.sequence)
        former = manager.supervision.state(name).pid
        assert former is not None
        os.kill(former, signal.SIGKILL)
        write(writer, 10)
        until(manager, lambda name=name, former=former: manager.supervision.state(name).pid not in (None, former))
        assert manager.supervision.state(name).restarts == 1
    until(manager, lambda: durable(manager) == 60)
    until(manager, lambda: [leg["hop"] for leg in manager.status(ADMIN, "hop")["hops"]] == ["dmz", "in"])
    assert all(leg["delay"] >= 0 for leg in manager.status(ADMIN, "hop")["hops"])
    received = manager.status(ADMIN, "in")
    (trail,) = received["trails"]
    assert (received["kind"], trail["name"], trail["sequence"], trail["came_by"][-1]) == ("receive", "shop", 60, "in")
    assert manager.status(ADMIN, "dmz")["routes"][0]["trail"] == "*"
    assert [manager.glances.of(name).problem for name in HOPS] == [""] * 3
    until(manager, lambda: manager.glances.of("hop").lag == 0.0)
    until(manager, lambda: [one.state for one in map(shown(manager), HOPS)] == ["streaming"] * 3)
    assert {name: one.state for name, one in manager.monitor.look(1.0, 1).items()} == dict.fromkeys(HOPS, "streaming")
    manager.supervision.stop_all()
    assert [JobProcess.found(manager.home / name) for name in HOPS] == [None] * 3
    assert rows(tmp_path / "in" / "shop") == samples.expected_rows(1, 60, with_large=True)


def shown(manager: Manager) -> Callable[[str], Any]:
    return lambda name: manager.glances.of(name).state


def test_hops_are_stopped_behind_jobs_and_from_the_begin_of_the_way_to_its_end(
    manager: Manager, writer: TrailWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all(manager)
    stopped: list[int] = []
    ask = JobProcess.ask_to_stop
    monkeypatch.setattr(JobProcess, "ask_to_stop", lambda one: (stopped.append(one.pid), ask(one))[1])
    pids = [manager.supervision.state(name).pid for name in ("hop", "dmz", "in")]
    manager.supervision.stop_all()
    assert stopped == pids


def test_a_hop_goes_on_without_its_manager_and_the_next_one_takes_it_over_and_stops_it(
    manager: Manager, writer: TrailWriter
) -> None:
    run_all(manager)
    pids = [manager.supervision.state(name).pid for name in HOPS]
    later = Manager(manager.home)
    later.supervision.look()
    assert [later.supervision.state(name).pid for name in HOPS] == pids
    assert [later.supervision.state(name).restarts for name in HOPS] == [0, 0, 0]
    for name in HOPS:
        later.stop(ADMIN, name)
    until(later, lambda: all(later.supervision.state(name).state == "stopped" for name in HOPS))
    later.store.close()


def test_a_second_process_of_a_hop_is_refused_and_says_who_runs_it(
    manager: Manager, writer: TrailWriter, tmp_path: Path
) -> None:
    run_all(manager)
    found = asked("receive", manager.jobs.file("in"), **{HOME: str(manager.home / "in")})
    assert found.returncode == 7 and f"process {manager.supervision.state('in').pid}" in found.stderr
    assert JobProcess.found(manager.home / "in")


def test_an_address_that_is_taken_is_said_and_tried_again_until_it_is_free(manager: Manager) -> None:
    manager.start(ADMIN, "in")
    until(manager, lambda: JobProcess.found(manager.home / "in"))
    manager.add(ADMIN, manager.jobs.version("in").text.replace('name = "in"', 'name = "other"'))
    manager.start(ADMIN, "other")
    until(manager, lambda: manager.supervision.state("other").restarts)
    assert manager.supervision.state("other").code == 7
    until(manager, lambda: (found := manager.glances.of("other").last_error) and "cannot be used" in found["message"])
    manager.stop(ADMIN, "in")
    until(manager, lambda: manager.glances.of("other").state.state == "streaming")


def test_what_is_for_jobs_alone_is_refused_for_a_hop(manager: Manager) -> None:
    for ask in (manager.preflight, manager.parked, manager.inside.definitions, manager.inside.cutover):
        with pytest.raises(ConfigError, match="dmz is a router"):
            ask(ADMIN, "dmz")
    with pytest.raises(ConfigError, match="hop is a pump"):
        manager.operations.ask(ADMIN, "hop", "verify", [])


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("in", ("trail+file://", "file://"), r"\[store\] url"),
        ("dmz", ('"trail+tcp://127.0.0.1:', '"trail+tcp://10.0.0.1:'), r"\[\[routes\]\] 1 to"),
        ("hop", ("trail+tcp://127.0.0.1:", "trail+tls://127.0.0.1:"), r"\[target\] url"),
        ("in", ("[[allow]]", "[[alow]]"), "alow"),
        ("hop", ("trail+file:///", "trail+file://${MISSING}/"), "MISSING"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(
    files: dict[str, str], tmp_path: Path, name: str, wrong: tuple[str, str], said: str
) -> None:
    manager = Manager(tmp_path / "home")
    with pytest.raises(ConfigError) as refused:
        manager.add(ADMIN, files[name].replace(*wrong))
    shown = "\n".join(map(str, refused.value.problems))
    assert said.replace("\\", "") in shown and "line" in shown
    manager.store.close()


def test_who_administers_one_job_makes_no_listener_of_it(manager: Manager, files: dict[str, str]) -> None:
    manager.add(ADMIN, text())
    own = Caller("bob", "token", Role.ADMINISTRATOR, ("shop", "in"))
    with pytest.raises(NotAllowed, match=r"\[listen\]"):
        manager.change(own, "shop", files["in"].replace('name = "in"', 'name = "shop"'))
    with pytest.raises(NotAllowed, match=r"\[allow\]"):
        manager.change(own, "in", files["in"].replace('trail = "*"', 'trail = "any*"'))
    assert "[target] url" in reach_of(files["hop"])


def test_kill_9_of_a_manager_that_is_served_doubles_no_hop(
    files: dict[str, str], tmp_path: Path, writer: TrailWriter
) -> None:
    environment = {**os.environ, "ANABRANCH_HOME": str(tmp_path / "home")}
    first = Served(environment, tmp_path / "serve1")
    second = None
    try:
        first.token = first.command("token", "create", "--role", "administrator", "--name", "test")
        first.wait_health()
        for name, one in files.items():
            assert first.ask("POST", "/api/v1/jobs", {"text": one})[1]["kind"] == KINDS[name]
            assert first.ask("POST", f"/api/v1/jobs/{name}/start")[0] == 202
        wait_for(lambda: all(JobProcess.found(tmp_path / "home" / name) for name in HOPS))
        pids = [first.wait_job(name, "running")["pid"] for name in HOPS]
        first.kill()
        write(writer, 20)  # nobody manages them, and they go on
        second = Served(environment, tmp_path / "serve2")
        second.token = first.token
        second.wait_health()
        again = [second.wait_job(name, "running") for name in HOPS]
        assert [(one["pid"], one["restarts"]) for one in again] == [(pid, 0) for pid in pids]
        wait_for(lambda: second.ask("GET", "/api/v1/jobs/hop/status")[1]["hop"]["acknowledged"] == 20)
        code, log = second.ask("GET", "/api/v1/jobs/in/log")
        assert code in (200, 404), log
        for name in HOPS:
            assert second.ask("POST", f"/api/v1/jobs/{name}/stop")[0] == 202
            second.wait_job(name, "stopped")
        with closing(sqlite3.connect(tmp_path / "home" / "_manager" / "manager.db")) as store:
            noted = store.execute("SELECT count(*) FROM audit WHERE action = 'job_started'").fetchone()[0]
        assert noted == 3
    finally:
        for one in (first, second):
            if one is not None:
                one.close()
    assert rows(tmp_path / "in" / "shop") == samples.expected_rows(1, 20, with_large=True)


def test_a_delay_that_was_noted_a_while_ago_has_grown_since_and_none_is_known_where_none_was() -> None:
    now = time.time()
    assert _lag_now(0.0, now) == 0.0 and _lag_now(2.0, now) == 2.0
    assert (_lag_now(2.0, now - 3600.0) or 0.0) >= 3600.0
    assert _lag_now(0.0, now - 3600.0) is None and _lag_now(None, now) is None
