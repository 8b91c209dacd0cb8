"""The lease of a store on a server: who may act, who takes over, and that one who was overtaken writes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.errors import ConfigError, Overtaken, StateError
from anabranch.manager import Manager, lease_shared
from anabranch.manager.callers import Caller, Role
from anabranch.manager.lease_shared import GIVE_UP_S, TAKE_OVER_S, SharedLease
from anabranch.manager.store_postgresql import PostgresKeeper
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from rigs.endpoints import endpoint_of
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)


class Machine:
    """A manager with a lease, and a clock that a test moves."""

    def __init__(self, home: Path, keeper: PostgresKeeper) -> None:
        self.now = 1000.0
        self.manager = Manager(home, keeper)
        self.lease = SharedLease(self.manager.store.directory, keeper, lambda: self.now)
        self.manager.supervision.may_act = self.lease.may_act
        self.losses = 0
        self.lease.when_lost = self.lost

    def lost(self) -> None:
        self.losses += 1


Make = Callable[..., Machine]


@pytest.fixture
def machine(tmp_path: Path, target_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes managers of one store. None renews its lease by itself: a test says when."""
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setattr(lease_shared, "RENEW_S", 3600.0)
    made: list[Machine] = []

    def make(home: Path = tmp_path) -> Machine:
        made.append(Machine(home, PostgresKeeper(endpoint_of(target_database))))
        return made[-1]

    yield make
    for one in made:
        one.lease.close()
        one.manager.store.close()


def test_one_leads_and_the_other_waits_as_long_as_the_beat_moves(machine: Make) -> None:
    first, second = machine(), machine()
    assert first.lease.take() and first.lease.may_act() and not second.lease.take()
    assert second.lease.holder == first.lease._name and not second.lease.is_elsewhere
    for _ in range(5):
        second.now += TAKE_OVER_S - 1
        first.manager.store.keeper.execute("UPDATE lease SET beat = beat + 1")  # type: ignore[attr-defined]  # of PostgreSQL
        assert not second.lease.take() and not second.lease.may_act()
    second.now += TAKE_OVER_S
    assert second.lease.take() and second.lease.may_act()


def test_who_was_overtaken_writes_nothing_starts_nothing_and_is_told_once(machine: Make) -> None:
    first, second = machine(), machine()
    assert first.lease.take()
    first.manager.add(ADMIN, text())
    assert not second.lease.take()
    second.now += TAKE_OVER_S
    assert second.lease.take()
    for _ in range(2):
        with pytest.raises(Overtaken, match="taken over"):
            first.manager.start(ADMIN, "shop")
    assert first.losses == 1 and first.lease.is_lost and not first.lease.may_act()
    assert not second.manager.jobs.is_wanted("shop")
    assert second.manager.start(ADMIN, "shop").is_wanted
    first.manager.supervision.look()
    assert first.manager.supervision.state("shop").pid is None, "nothing was started"


def test_who_cannot_renew_stops_acting_before_another_one_can_take_over(machine: Make) -> None:
    assert GIVE_UP_S < TAKE_OVER_S
    first = machine()
    assert first.lease.take()
    first.now += GIVE_UP_S - 0.1
    assert first.lease.may_act()
    first.now += 0.2
    assert not first.lease.may_act() and first.lease.is_held, "it may go on if it can renew it"


def test_a_lease_is_renewed_and_its_loss_is_seen_without_a_write(
    machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_shared, "RENEW_S", 0.01)
    first, second = machine(), machine()
    assert first.lease.take()
    first.now += GIVE_UP_S + 1
    until(first.lease.may_act, "it was renewed")
    second.manager.store.keeper.execute("UPDATE lease SET token = token + 1, holder = 'x'")  # type: ignore[attr-defined]  # of PostgreSQL
    until(lambda: first.lease.is_lost, "it is lost")
    assert first.losses == 1 and not first.lease.may_act()


def test_the_same_token_of_a_server_that_forgot_one_is_no_right(machine: Make) -> None:
    """A replica that was promoted may lack the last takeover: the token comes twice, the holder's name does not."""
    first = machine()
    assert first.lease.take()
    first.manager.store.keeper.another().execute("UPDATE lease SET holder = 'somebody else'")  # type: ignore[attr-defined]  # of PostgreSQL
    with pytest.raises(Overtaken):
        first.manager.add(ADMIN, text())


def test_what_is_given_back_is_taken_at_once(machine: Make) -> None:
    first, second = machine(), machine()
    assert first.lease.take() and not second.lease.take()
    first.lease.close()
    assert second.lease.take()


def test_commands_of_people_write_beside_a_manager(machine: Make) -> None:
    first, command = machine(), machine()
    assert first.lease.take()
    command.manager.tokens.create(Role.VIEWER, "ci", ("*",), "ann")
    assert [one.name for one in first.manager.tokens.all()] == ["ci"]


def test_a_machine_with_other_homes_of_jobs_is_refused(machine: Make, tmp_path: Path) -> None:
    first, link = machine(), tmp_path / "link"
    first.lease.require_home()
    link.symlink_to(tmp_path)  # the same directory by another path
    machine(link).lease.require_home()
    with pytest.raises(ConfigError, match="other homes"):
        machine(tmp_path / "elsewhere").lease.require_home()


def test_a_server_that_is_away_is_waited_for(machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = machine()

    def away(*_: object) -> None:
        raise StateError("away")

    with monkeypatch.context() as patched:
        patched.setattr(one.lease._own, "execute", away)
        with pytest.raises(StateError, match="away"):
            one.lease.take()
    assert one.lease.take()


def test_who_was_overtaken_replaces_no_file_of_a_job(machine: Make) -> None:
    first, second = machine(), machine()
    assert first.lease.take()
    first.manager.add(ADMIN, text())
    assert not second.lease.take()
    second.now += TAKE_OVER_S
    assert second.lease.take()
    newer = text(more="# newer\n")
    second.manager.change(ADMIN, "shop", newer)
    with pytest.raises(Overtaken):
        first.manager.jobs.write_file("shop")
    assert first.manager.jobs.file("shop").read_text() == newer
    assert [one.name for one in first.manager.jobs.file("shop").parent.iterdir()] == ["shop.toml"]


def test_two_containers_of_one_name_are_two_machines(machine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine()
    monkeypatch.setattr(lease_shared, "here", lambda: f"{os.uname().nodename} another-boot/pid:[1]")
    second = machine()
    assert first.lease.take() and not second.lease.take()
    assert second.lease.is_elsewhere and f" on {os.uname().nodename} (" in second.lease.holder
