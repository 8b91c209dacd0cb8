"""Whoever guesses at passwords waits longer and longer, and locks nobody else out. SQLite, no server, no HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import ConfigError, TooOften, UnknownName
from anabranch.manager import Manager, logins
from anabranch.manager.callers import Role

RIGHT, WRONG = "four words are long", "something else than that"
HOME, AWAY = "192.0.2.1", "198.51.100.7"


class Clock(datetime):
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]  # a clock that stands
        return cls.moment


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setattr(logins, "datetime", Clock)
    monkeypatch.setattr(logins, "now", lambda: Clock.moment.isoformat())
    monkeypatch.setattr(Clock, "moment", Clock.moment)
    made = Manager(tmp_path)
    checked: Callable[[str, str], Any] = lambda name, password: (  # noqa: E731  as quick as no Argon2 is
        made.accounts.user(name) if password == RIGHT and name in ("bob", "ann") else None
    )
    for name in ("bob", "ann"):
        made.accounts.create(name, RIGHT, Role.ADMINISTRATOR, ("*",))
    monkeypatch.setattr(made.accounts, "checked", checked)
    return made


def guesses(manager: Manager, name: str, place: str, count: int) -> None:
    for _ in range(count):
        assert manager.logins.attempt(name, WRONG, place) is None


def pass_by(seconds: float) -> None:
    Clock.moment += timedelta(seconds=seconds)


def waits(manager: Manager, name: str, place: str, password: str = WRONG) -> int:
    """Return the seconds that an attempt has to wait; 0 where it does not."""
    try:
        manager.logins.attempt(name, password, place)
    except TooOften as error:
        return error.seconds
    return 0


def test_pauses_grow_also_for_the_right_password_and_for_names_that_nobody_has(manager: Manager) -> None:
    for name in ("bob", "nobody"):
        place = f"192.0.2.{len(name)}"
        guesses(manager, name, place, logins.FREE)
        assert waits(manager, name, place, RIGHT) == 1
        pass_by(1)
        guesses(manager, name, place, 1)
        assert waits(manager, name, place) == 2
        pass_by(2)
        guesses(manager, name, place, 1)
        assert waits(manager, name, place) == 4
        pass_by(100_000)


def test_a_pause_has_an_end_and_counts_survive_the_manager(manager: Manager) -> None:
    guesses(manager, "bob", HOME, logins.FREE)
    for _ in range(12):
        pass_by(logins.LONGEST_S)
        guesses(manager, "bob", HOME, 1)
    again = Manager(manager.home)
    assert waits(again, "bob", HOME) == logins.LONGEST_S
    pass_by(logins.LONGEST_S)
    assert manager.logins.attempt("bob", RIGHT, HOME) is not None


def test_an_address_that_tries_many_names_waits_and_others_do_not(manager: Manager) -> None:
    for number in range(logins.FREE):
        guesses(manager, f"name{number}", AWAY, 1)
    assert waits(manager, "ann", AWAY) == 1
    assert manager.logins.attempt("ann", RIGHT, HOME) is not None


def test_whoever_guesses_elsewhere_does_not_lock_out_the_user_where_it_has_logged_in_before(manager: Manager) -> None:
    assert manager.logins.attempt("bob", RIGHT, HOME) is not None
    for number in range(30):
        pass_by(logins.LONGEST_OF_NAME_S)
        guesses(manager, "bob", f"203.0.113.{number}", 1)
    assert waits(manager, "bob", "203.0.113.200") == logins.LONGEST_OF_NAME_S
    assert manager.logins.attempt("bob", RIGHT, HOME) is not None


def test_a_login_of_ones_own_does_not_pay_for_guesses_at_others(manager: Manager) -> None:
    for _ in range(logins.FREE):
        guesses(manager, "bob", AWAY, 1)
        if waits(manager, "ann", AWAY, RIGHT):
            break
    assert waits(manager, "bob", AWAY) > 0


def test_a_clock_that_was_set_back_makes_nobody_wait_for_it(manager: Manager) -> None:
    guesses(manager, "bob", HOME, logins.FREE)
    pass_by(-3600)
    assert waits(manager, "bob", HOME) == 0


@pytest.mark.parametrize(
    ("place", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_of_an_address_the_part_counts_that_one_person_has(place: str, network: str) -> None:
    assert logins.network(place) == network


def test_a_user_who_is_changed_or_removed_is_logged_out(manager: Manager) -> None:
    one, other = manager.sessions.begin("bob"), manager.sessions.begin("bob")
    manager.accounts.change("bob", Role.VIEWER, ("web-*",))
    assert manager.sessions.find(one) is manager.sessions.find(other) is None
    assert (manager.accounts.user("bob").role, manager.accounts.user("bob").jobs) == (Role.VIEWER, ("web-*",))
    third = manager.sessions.begin("bob")
    manager.accounts.remove("bob")
    assert manager.sessions.find(third) is None
    with pytest.raises(ConfigError, match="last administrator"):
        manager.accounts.change("ann", Role.ADMINISTRATOR, ("web-*",))
    with pytest.raises(UnknownName):
        manager.accounts.change("bob", Role.VIEWER, ("*",))
