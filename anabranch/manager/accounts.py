"""Users of the console, with their passwords as Argon2 has them.

What does not live here: that somebody stays logged in (`sessions.py`).
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

import argon2

from anabranch.errors import ConfigError, UnknownName
from anabranch.manager.callers import EVERY_JOB, Role
from anabranch.manager.store import ManagerStore, now

FIRST = "admin"
LEAST = 12  # characters of a password. https://pages.nist.gov/800-63-4/sp800-63b.html
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
HASHER = argon2.PasswordHasher()  # as RFC 9106 has it for 64 MiB. https://www.rfc-editor.org/rfc/rfc9106#section-4


@dataclass(frozen=True)
class User:
    """A user as it is listed: without the password."""

    name: str
    role: Role
    jobs: tuple[str, ...]
    must_change: bool
    created: str


class Accounts:
    """The users of one manager."""

    def __init__(self, store: ManagerStore) -> None:
        self._store, self._hasher = store, HASHER
        self._nobody = self._hasher.hash(secrets.token_urlsafe())  # to compare with where there is no such user

    def make_first(self) -> str | None:
        """Make the user `admin` where there is no user yet. Returns its one-time password, which is kept nowhere."""
        if self.all():
            return None
        password = secrets.token_urlsafe(15)
        self.create(FIRST, password, Role.ADMINISTRATOR, (EVERY_JOB,), must_change=True)
        return password

    def create(self, name: str, password: str, role: Role, jobs: tuple[str, ...], *, must_change: bool = False) -> None:
        """Add a user. Raises ConfigError for a name that is taken or none, and a password that is too short."""
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no user's name", hint="up to 64 letters, digits, and . _ @ - behind the first"
            )
        _refuse_short(password)
        with self._store.writing() as connection:
            done = connection.execute(
                "INSERT INTO user VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (name, self._hasher.hash(password), role, " ".join(jobs), must_change, now()),
            )
        if not done.rowcount:
            raise ConfigError(f"there is a user {name} already", hint="choose another name, or change that user")

    def checked(self, name: str, password: str) -> User | None:
        """Return the user with this name and password. It takes as long where there is no such user."""
        row = self._store.row("SELECT * FROM user WHERE name = ?", (name,))
        try:
            self._hasher.verify(row["password"] if row else self._nobody, password)
        except argon2.exceptions.VerifyMismatchError:
            return None
        return self.user(name) if row else None

    def set_password(self, name: str, password: str, *, must_change: bool = False) -> None:
        """Give a user another password; who is logged in as this user no longer is. Raises ConfigError, UnknownName."""
        _refuse_short(password)
        with self._store.writing() as connection:
            values = (self._hasher.hash(password), must_change, name)
            done = connection.execute("UPDATE user SET password = ?, must_change = ? WHERE name = ?", values)
            connection.execute("DELETE FROM session WHERE user = ?", (name,))
        if not done.rowcount:
            raise UnknownName(f"there is no user {name}", hint="anabranch user ls lists them")

    def change(self, name: str, role: Role, jobs: tuple[str, ...]) -> None:
        """Give a user another role and other jobs; its logins end. Raises UnknownName; ConfigError for the last administrator
        of all jobs."""
        with self._store.writing() as connection:  # two who leave at once: the second one finds that it is the last
            user = self.user(name)
            if role is not Role.ADMINISTRATOR or EVERY_JOB not in jobs:
                self._require_another(user)
            connection.execute("UPDATE user SET role = ?, jobs = ? WHERE name = ?", (role, " ".join(jobs), name))
            connection.execute("DELETE FROM session WHERE user = ?", (name,))

    def user(self, name: str) -> User:
        """Return one user. Raises UnknownName."""
        found = next((user for user in self.all() if user.name == name), None)
        if found is None:
            raise UnknownName(f"there is no user {name}", hint="anabranch user ls lists them")
        return found

    def all(self) -> list[User]:
        """Return all users by name."""
        return [
            User(row["name"], Role(row["role"]), tuple(row["jobs"].split()), bool(row["must_change"]), row["created"])
            for row in self._store.rows("SELECT * FROM user ORDER BY name")
        ]

    def remove(self, name: str) -> None:
        """Remove a user, and end its sessions. Raises UnknownName; ConfigError for the last administrator of all jobs."""
        with self._store.writing() as connection:
            self._require_another(self.user(name))
            connection.execute("DELETE FROM user WHERE name = ?", (name,))

    def _require_another(self, user: User) -> None:
        """Raise ConfigError for the last administrator of all jobs. Anybody else may go, also where there is none."""
        over_all = [one for one in self.all() if one.role is Role.ADMINISTRATOR and EVERY_JOB in one.jobs]
        if over_all == [user]:
            raise ConfigError(f"{user.name} is the last administrator", hint="make another one first")


def _refuse_short(password: str) -> None:
    if len(password) < LEAST:
        raise ConfigError(
            f"the password has fewer than {LEAST} characters", hint="several words are easy to keep in mind"
        )
