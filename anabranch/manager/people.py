"""Users and tokens, as administrators of all jobs see and change them.

What does not live here: passwords (`accounts.py`), secrets of tokens (`tokens.py`), what was done (`audit.py`).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from anabranch.manager.accounts import Accounts, User
from anabranch.manager.audit import Audit
from anabranch.manager.callers import Caller, Role
from anabranch.manager.tokens import Token, Tokens


@dataclass(frozen=True)
class People:
    """Whoever may come to one manager. Each method raises NotAllowed for who is no administrator of all jobs."""

    accounts: Accounts
    tokens: Tokens
    audit: Audit

    def users(self, caller: Caller) -> list[User]:
        """Return all users by name."""
        caller.require(Role.ADMINISTRATOR)
        return self.accounts.all()

    def add_user(self, caller: Caller, name: str, role: Role, jobs: tuple[str, ...]) -> str:
        """Add a user. Returns its one-time password, which is kept nowhere. Raises ConfigError."""
        caller.require(Role.ADMINISTRATOR)
        password = secrets.token_urlsafe(15)
        with self.audit.together():
            self.accounts.create(name, password, role, jobs, must_change=True)
            self.audit.note(caller, "user_added", after=f"{name}: {role}, jobs {' '.join(jobs)}")
        return password

    def user(self, caller: Caller, name: str) -> User:
        """Return one user. Raises UnknownName."""
        caller.require(Role.ADMINISTRATOR)
        return self.accounts.user(name)

    def change_user(self, caller: Caller, name: str, role: Role, jobs: tuple[str, ...]) -> User:
        """Give a user another role and other jobs, and end its logins. Raises UnknownName, ConfigError for the last
        administrator."""
        caller.require(Role.ADMINISTRATOR)
        with self.audit.together():
            before = self.accounts.user(name)
            self.accounts.change(name, role, jobs)
            told = f"{name}: {before.role}, jobs {' '.join(before.jobs)}"
            self.audit.note(caller, "user_changed", before=told, after=f"{name}: {role}, jobs {' '.join(jobs)}")
        return self.accounts.user(name)

    def new_password(self, caller: Caller, name: str) -> str:
        """Give a user a one-time password in place of its own, and end its logins. Returns it. Raises UnknownName."""
        caller.require(Role.ADMINISTRATOR)
        password = secrets.token_urlsafe(15)
        with self.audit.together():
            self.accounts.set_password(name, password, must_change=True)
            self.audit.note(caller, "password_set", after=name)
        return password

    def remove_user(self, caller: Caller, name: str) -> None:
        """Remove a user, and end its logins. Raises UnknownName, ConfigError for the last administrator."""
        caller.require(Role.ADMINISTRATOR)
        with self.audit.together():
            self.accounts.remove(name)
            self.audit.note(caller, "user_removed", before=name)

    def all_tokens(self, caller: Caller) -> list[Token]:
        """Return all tokens, the oldest first, without their secrets."""
        caller.require(Role.ADMINISTRATOR)
        return self.tokens.all()

    def make_token(self, caller: Caller, role: Role, name: str, jobs: tuple[str, ...], days: float | None) -> str:
        """Make a token, valid for so many days (None: until it is revoked). Returns its text, which is kept nowhere."""
        caller.require(Role.ADMINISTRATOR)
        with self.audit.together():
            text = self.tokens.create(role, name, jobs, caller.name, days)
            self.audit.note(caller, "token_created", after=f"{name}: {role}, jobs {' '.join(jobs)}")
        return text

    def revoke_token(self, caller: Caller, number: str) -> None:
        """Let a token, by its id, count no longer. Raises UnknownName."""
        caller.require(Role.ADMINISTRATOR)
        with self.audit.together():
            self.tokens.revoke(number)
            self.audit.note(caller, "token_revoked", before=number)
