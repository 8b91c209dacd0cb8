"""Sessions of people whom the provider has vouched for. What they may is looked up in the present file at each request.

Only digests of cookies are kept, and of what the provider said no more than rules ask for; no token of it. What does not live
here: sessions of users with passwords (`manager/sessions.py`).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.manager.accounts import User
from anabranch.manager.oidc.rights import grants, kept
from anabranch.manager.oidc.settings import Settings
from anabranch.manager.sessions import IDLE, Session
from anabranch.manager.store import ManagerStore, now

HOW = "oidc"


@dataclass(frozen=True)
class Person:
    """Somebody who is logged in. Times in ISO 8601, UTC."""

    name: str
    subject: str
    since: str
    seen: str
    ends: str


class OidcSessions:
    """The sessions at one manager."""

    def __init__(self, store: ManagerStore, settings: Settings) -> None:
        self._store, self._settings = store, settings

    def begin(self, name: str, claims: Mapping[str, Any]) -> str:
        """Log somebody in. Returns the secret that the cookie has."""
        secret, moment, file = secrets.token_urlsafe(32), datetime.now(UTC), self._settings.file
        ends = _text(moment + timedelta(hours=file.session_hours))
        said = json.dumps(kept(claims, file.roles))
        values = (
            _digest(secret),
            file.issuer,
            claims["sub"],
            name,
            said,
            secrets.token_urlsafe(32),
            now(),
            now(),
            ends,
        )
        with self._store.writing() as connection:
            connection.execute("DELETE FROM oidc_session WHERE ends < ? OR seen < ?", (now(), _text(moment - IDLE)))
            connection.execute("INSERT INTO oidc_session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session of a cookie; None where it is over, never was, is of another provider, or has no role any more."""
        row = self._store.row(
            "SELECT * FROM oidc_session WHERE digest = ? AND issuer = ?", (_digest(secret), self._settings.file.issuer)
        )
        if row is None:
            return None
        moment, seen = datetime.now(UTC), datetime.fromisoformat(row["seen"])
        has = grants(json.loads(row["claims"]), self._settings.file.roles)
        if moment - seen > IDLE or moment >= datetime.fromisoformat(row["ends"]) or not has:
            self.end(secret)
            return None
        if moment - seen > timedelta(minutes=1):
            with self._store.writing() as connection:
                connection.execute("UPDATE oidc_session SET seen = ? WHERE digest = ?", (now(), row["digest"]))
        user = User(row["name"], has[0].role, has[0].jobs, must_change=False, created=row["created"])
        return Session(user, row["csrf"], HOW, has[1:])

    def end(self, secret: str) -> None:
        """Log out."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM oidc_session WHERE digest = ?", (_digest(secret),))

    def end_all(self) -> int:
        """Log everybody out. Returns how many sessions there were."""
        with self._store.writing() as connection:
            return connection.execute("DELETE FROM oidc_session").rowcount

    def people(self) -> list[Person]:
        """Return who is logged in, the latest first."""
        rows = self._store.rows(
            "SELECT name, subject, created, seen, ends FROM oidc_session WHERE issuer = ? AND ends > ? ORDER BY created DESC",
            (self._settings.file.issuer, now()),
        )
        return [Person(row["name"], row["subject"], row["created"], row["seen"], row["ends"]) for row in rows]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
