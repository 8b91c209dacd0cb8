"""Logs users in, and lets whoever guesses wait: failures count by address, by name, and by both together.

The pauses of an address and of a name do not hold for somebody who has logged in with this name from this address before: who
guesses elsewhere locks nobody out. Counts stand in the store, so that a manager that starts again has them. What does not live
here: passwords (`accounts.py`), sessions (`sessions.py`).
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from anabranch.errors import NotAllowed, TooOften
from anabranch.manager.accounts import Accounts, User
from anabranch.manager.store import ManagerStore, now
from anabranch.manager.store_contract import Writing

FREE = 5  # failures without a pause; then the first one, and twice as long each time
FIRST_S = 1.0
LONGEST_S = 300.0
LONGEST_OF_NAME_S = 30.0  # many addresses may guess at one name; whoever comes from a new address still gets in
FORGOTTEN = timedelta(days=1)
KNOWN = timedelta(days=90)  # how long an address is one from which a user has logged in
LONGEST_PAUSES = {"place": LONGEST_S, "name": LONGEST_OF_NAME_S, "pair": LONGEST_S}


@dataclass(frozen=True)
class Attempt:
    """An attempt that is counted as failed until it has not: the digests of its place, its name, and both."""

    digests: dict[str, str]


class Logins:
    """The attempts to log in at one manager."""

    def __init__(self, store: ManagerStore, accounts: Accounts) -> None:
        self._store, self._accounts = store, accounts

    def attempt(self, name: str, password: str, place: str) -> User | None:
        """Return the user with this name and password. `place`: the address that it comes from. Raises TooOften, with the
        seconds to wait, whether or not there is such a user and the password is right."""
        begun = self._begin(name, place)
        user = self._accounts.checked(name, password)
        if user is not None:
            self._succeeded(begun)
        return user

    @contextmanager
    def counting(self, place: str) -> Iterator[None]:
        """Count as a failed attempt of an address what is refused meanwhile, with NotAllowed. Raises TooOften."""
        begun = self._begin(None, place)
        try:
            yield
        except NotAllowed:
            raise
        except BaseException:  # whatever it was: no wrong password is counted, and it is passed on
            self._taken_back(begun)
            raise
        self._taken_back(begun)

    def _begin(self, name: str | None, place: str) -> Attempt:
        """Count it as failed before the password is looked at: many at once are counted like one after the other. `name`: None
        of somebody whom a provider names later."""
        spot = network(place)
        begun = Attempt({"place": _digest(spot)})
        if name is not None:
            begun.digests.update({"name": _digest(name), "pair": _digest(f"{name}\0{spot}")})
        moment = datetime.now(UTC)
        with self._store.writing() as connection:
            for kept, age in (("=", KNOWN), ("<>", FORGOTTEN)):
                connection.execute(
                    f"DELETE FROM attempt WHERE kind {kept} 'known' AND last < ?", (_text(moment - age),)
                )
            known = connection.execute(
                "SELECT 1 FROM attempt WHERE kind = 'known' AND digest = ?", (begun.digests.get("pair", ""),)
            ).fetchone()
            kinds = ("pair",) if known else tuple(begun.digests)
            waits = max(_pause(connection, kind, begun.digests[kind], moment) for kind in kinds)
            if waits > 0:
                raise TooOften(waits)
            for kind in kinds:
                connection.execute(
                    "INSERT INTO attempt VALUES (?, ?, 1, ?)"
                    " ON CONFLICT (kind, digest) DO UPDATE SET failures = attempt.failures + 1, last = excluded.last",
                    (kind, begun.digests[kind], now()),
                )
        return begun

    def _taken_back(self, begun: Attempt) -> None:
        with self._store.writing() as connection:
            _take_back(connection, begun)

    def _succeeded(self, begun: Attempt) -> None:
        """Take the count back, and no more: somebody with a password of their own would else guess at others' for ever."""
        with self._store.writing() as connection:
            _take_back(connection, begun)
            connection.execute("DELETE FROM attempt WHERE kind = 'pair' AND digest = ?", (begun.digests["pair"],))
            connection.execute(
                "INSERT INTO attempt VALUES ('known', ?, 0, ?)"
                " ON CONFLICT (kind, digest) DO UPDATE SET failures = 0, last = excluded.last",
                (begun.digests["pair"], now()),
            )


def _take_back(connection: Writing, begun: Attempt) -> None:
    for kind in ("place", "name"):
        connection.execute(
            "UPDATE attempt SET failures = CASE WHEN failures > 0 THEN failures - 1 ELSE 0 END"
            " WHERE kind = ? AND digest = ?",
            (kind, begun.digests.get(kind, "")),
        )


def network(place: str) -> str:
    """Return what of an address one person has: all of it, of IPv6 the first 64 bits. https://www.rfc-editor.org/rfc/rfc6177"""
    try:
        address = ipaddress.ip_address(place.partition("%")[0])
    except ValueError:
        return place
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _pause(connection: Writing, kind: str, digest: str, moment: datetime) -> float:
    """Return how many seconds are left of the pause; 0 where the clock was set back, rather than a wait for it."""
    row = connection.execute(
        "SELECT failures, last FROM attempt WHERE kind = ? AND digest = ?", (kind, digest)
    ).fetchone()
    if row is None or row["failures"] < FREE:
        return 0.0
    whole = min(FIRST_S * 2.0 ** min(row["failures"] - FREE, 30), LONGEST_PAUSES[kind])
    past = (moment - datetime.fromisoformat(row["last"])).total_seconds()
    return max(whole - past, 0.0) if past >= 0 else 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
