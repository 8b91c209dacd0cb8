"""Sessions of the console: who is logged in, and the word that each form has to send back. Only digests are kept.

What does not live here: cookies (`console/`).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from anabranch.manager.accounts import Accounts, User
from anabranch.manager.callers import Grant
from anabranch.manager.store import ManagerStore, now

IDLE = timedelta(hours=8)  # without a request
LONGEST = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Session:
    """A session. `csrf`: what a form of it has to send back; `how`: "oidc" of somebody whom a provider has vouched for; `more`:
    roles beside the user's, as `Caller` has them."""

    user: User
    csrf: str
    how: str = "session"
    more: tuple[Grant, ...] = ()

    @property
    def has_password(self) -> bool:
        """Return whether the manager keeps this user's password."""
        return self.how == "session"


class Sessions:
    """The sessions of one manager."""

    def __init__(self, store: ManagerStore, accounts: Accounts) -> None:
        self._store, self._accounts = store, accounts

    def begin(self, user: str) -> str:
        """Log a user in. Returns the secret that the cookie has: a new one each time, so that nobody can give one away."""
        secret = secrets.token_urlsafe(32)
        with self._store.writing() as connection:
            connection.execute("DELETE FROM session WHERE seen < ?", (_text(datetime.now(UTC) - IDLE),))
            values = (_digest(secret), user, secrets.token_urlsafe(32), now(), now())
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?)", values)
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a cookie; None where it is over, or never was."""
        row = self._store.row("SELECT * FROM session WHERE digest = ?", (_digest(secret),))
        if row is None:
            return None
        moment = datetime.now(UTC)
        seen, created = datetime.fromisoformat(row["seen"]), datetime.fromisoformat(row["created"])
        if moment - seen > IDLE or moment - created > LONGEST:
            self.end(secret)
            return None
        if moment - seen > timedelta(minutes=1):
            with self._store.writing() as connection:
                connection.execute("UPDATE session SET seen = ? WHERE digest = ?", (now(), row["digest"]))
        return Session(self._accounts.user(row["user"]), row["csrf"])

    def end(self, secret: str) -> None:
        """Log out."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM session WHERE digest = ?", (_digest(secret),))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
