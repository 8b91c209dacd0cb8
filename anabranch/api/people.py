"""The routes of users and tokens, for administrators of all jobs. A password or token that is made is shown once.

What does not live here: what is done (`manager/people.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.manager.accounts import User
from anabranch.manager.callers import EVERY_JOB, Role
from anabranch.manager.tokens import Token

routes = APIRouter(tags=["people"], route_class=AskedRoute)
LARGEST = 3660  # days
UserName = Annotated[str, Path(description="A user's name.", min_length=1, max_length=64)]
TokenId = Annotated[str, Path(description="A token's id.", pattern="^[0-9a-f]{12}$")]
Pattern = Annotated[str, Field(pattern=r"^[^\s,]{1,63}$")]
Patterns = Annotated[list[Pattern], Field(min_length=1, max_length=100, description="Patterns on jobs' names.")]
Limit = Annotated[int, Query(ge=1, le=500)]


@dataclass(frozen=True)
class UserChange:
    """The role and the jobs of a user."""

    role: Role
    jobs: Patterns | None = None


@dataclass(frozen=True)
class UserWanted:
    """A user to add. `jobs`: all of them where it is left out."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: Role
    jobs: Patterns | None = None


@dataclass(frozen=True)
class UserMade:
    """A user and the password for one login, which is shown this time only."""

    user: User
    password: str


@dataclass(frozen=True)
class UserPage:
    """Some users, by name. `next`: what to give as `after` for the rest; None where there is none."""

    users: list[User]
    next: str | None


@dataclass(frozen=True)
class TokenWanted:
    """A token to make. `days`: how long it counts, without it until it is revoked; `jobs`: all where it is left out."""

    role: Role
    name: Annotated[str, Field(max_length=100)] = ""
    jobs: Patterns | None = None
    days: Annotated[float | None, Field(gt=0, le=LARGEST, strict=True)] = None


@dataclass(frozen=True)
class TokenMade:
    """A token and its text, which is shown this time only."""

    token: Token
    text: str


@dataclass(frozen=True)
class TokenPage:
    """Some tokens, the oldest first, also those that are revoked or over. `next`: what to give as `offset` for the rest."""

    tokens: list[Token]
    next: int | None


@routes.get("/users")
def users(manager: TheManager, caller: Asks, limit: Limit = 100, after: str = "") -> UserPage:
    """List users, by name."""
    found = [one for one in manager.people.users(caller) if one.name > after]
    return UserPage(found[:limit], found[limit - 1].name if len(found) > limit else None)


@routes.post("/users", status_code=201)
def add_user(manager: TheManager, caller: Asks, body: UserWanted) -> UserMade:
    """Add a user, with a password for one login. It is shown in this answer only."""
    password = manager.people.add_user(caller, body.name, body.role, patterns(body.jobs))
    return UserMade(manager.people.user(caller, body.name), password)


@routes.get("/users/{name}")
def user(manager: TheManager, caller: Asks, name: UserName) -> User:
    """Return one user."""
    return manager.people.user(caller, name)


@routes.put("/users/{name}")
def change_user(manager: TheManager, caller: Asks, name: UserName, body: UserChange) -> User:
    """Give a user another role and other jobs, all where none are given; its logins end."""
    return manager.people.change_user(caller, name, body.role, patterns(body.jobs))


@routes.post("/users/{name}/password", status_code=201)
def new_password(manager: TheManager, caller: Asks, name: UserName) -> UserMade:
    """Give a user another password, for one login; its logins end. It is shown in this answer only."""
    password = manager.people.new_password(caller, name)
    return UserMade(manager.people.user(caller, name), password)


@routes.delete("/users/{name}", status_code=204)
def remove_user(manager: TheManager, caller: Asks, name: UserName) -> None:
    """Remove a user; its logins end."""
    manager.people.remove_user(caller, name)


@routes.get("/tokens")
def tokens(
    manager: TheManager, caller: Asks, limit: Limit = 100, offset: Annotated[int, Query(ge=0, lt=2**31)] = 0
) -> TokenPage:
    """List tokens, the oldest first, without their texts."""
    found = manager.people.all_tokens(caller)[offset : offset + limit + 1]
    return TokenPage(found[:limit], offset + limit if len(found) > limit else None)


@routes.post("/tokens", status_code=201)
def make_token(manager: TheManager, caller: Asks, body: TokenWanted) -> TokenMade:
    """Make a token. Its text is shown in this answer only."""
    text = manager.people.make_token(caller, body.role, body.name, patterns(body.jobs), body.days)
    number = text.split("_")[1]
    return TokenMade(next(one for one in manager.people.all_tokens(caller) if one.id == number), text)


@routes.delete("/tokens/{number}", status_code=204)
def revoke_token(manager: TheManager, caller: Asks, number: TokenId) -> None:
    """Let a token count no longer, from the next request on."""
    manager.people.revoke_token(caller, number)


def patterns(given: list[str] | None) -> tuple[str, ...]:
    """Return patterns on jobs' names, all jobs where none are given."""
    return (EVERY_JOB,) if given is None else tuple(given)
