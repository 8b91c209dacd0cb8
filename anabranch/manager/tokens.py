"""Tokens of the API: made, found, revoked. Only a digest of each is kept.

What does not live here: what a caller may do (`callers.py`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from anabranch.errors import UnknownName
from anabranch.manager.callers import Caller, Role
from anabranch.manager.store import ManagerStore, now

PREFIX = "anabranch_"  # scanners for secrets find it
_FORM = re.compile(rf"{PREFIX}([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True)
class Token:
    """A token as it is listed: without its secret. Times in ISO 8601, UTC."""

    id: str
    name: str
    role: Role
    jobs: tuple[str, ...]
    created: str
    created_by: str
    expires: str | None
    revoked: str | None


class Tokens:
    """The tokens of one manager."""

    def __init__(self, store: ManagerStore) -> None:
        self._store = store

    def create(self, role: Role, name: str, jobs: tuple[str, ...], by: str, days: float | None = None) -> str:
        """Make a token, valid for so many days (None: until it is revoked). Returns its text, which is kept nowhere."""
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        ends = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="milliseconds")
        with self._store.writing() as connection:
            connection.execute(
                "INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (number, name or number, _digest(secret), role, " ".join(jobs), now(), by, ends),
            )
        return f"{PREFIX}{number}_{secret}"

    def caller(self, text: str, place: str) -> Caller | None:
        """Return who has this token; None for one that is unknown, revoked or over."""
        found = _FORM.fullmatch(text)
        row = self._store.row("SELECT * FROM token WHERE id = ?", (found[1],)) if found else None
        if found is None or row is None or not hmac.compare_digest(row["digest"], _digest(found[2])):
            return None
        if row["revoked"] or (row["expires"] and datetime.fromisoformat(row["expires"]) <= datetime.now(UTC)):
            return None
        return Caller(row["name"], "token", Role(row["role"]), tuple(row["jobs"].split()), place)

    def all(self) -> list[Token]:
        """Return every token, the oldest first, also those that are revoked or over."""
        rows = self._store.rows("SELECT * FROM token ORDER BY created, id")
        return [
            Token(
                row["id"], row["name"], Role(row["role"]), tuple(row["jobs"].split()), row["created"], row["created_by"],
                row["expires"], row["revoked"],
            )
            for row in rows
        ]  # fmt: skip

    def revoke(self, number: str) -> None:
        """Let a token, by its id, count no longer, from the next request on. Raises UnknownName."""
        with self._store.writing() as connection:
            done = connection.execute("UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL", (now(), number))
        if not done.rowcount:
            raise UnknownName(f"there is no token {number} to revoke", hint="anabranch token ls lists them")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
