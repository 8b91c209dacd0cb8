"""The routes of secrets. A value comes in, and never goes out.

What does not live here: how they are kept (`manager/secrets.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Path, Query

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.api.people import Patterns
from anabranch.manager.secrets import NAME, Secret

routes = APIRouter(prefix="/secrets", tags=["secrets"], route_class=AskedRoute)
SecretName = Annotated[str, Path(description="What `${NAME}` in job files has.", pattern=f"^{NAME}$")]


@dataclass(frozen=True)
class SecretValue:
    """A value for a secret. `jobs`: patterns on the names of jobs that may use it; without it as before, at first `*`."""

    value: str = field(repr=False)
    jobs: Patterns | None = None


@dataclass(frozen=True)
class SecretPage:
    """Some of the secrets, by name, without values. `next`: what to give as `after` for the rest; None where there is none."""

    secrets: list[Secret]
    next: str | None


@routes.get("")
def secrets(
    manager: TheManager, caller: Asks, limit: Annotated[int, Query(ge=1, le=500)] = 100, after: str = ""
) -> SecretPage:
    """List the secrets, by name: who has set each, when, and which jobs use it. Values are never sent."""
    found = [one for one in manager.secrets.all(caller) if one.name > after]
    return SecretPage(found[:limit], found[limit - 1].name if len(found) > limit else None)


@routes.get("/{name}")
def secret(manager: TheManager, caller: Asks, name: SecretName) -> Secret:
    """Return one secret, without its value."""
    return manager.secrets.secret(caller, name)


@routes.put("/{name}")
def set_secret(manager: TheManager, caller: Asks, name: SecretName, body: SecretValue) -> Secret:
    """Give a secret a value. Parts that run keep the former one until they start again."""
    return manager.secrets.set(caller, name, body.value, body.jobs if body.jobs is None else tuple(body.jobs))


@routes.delete("/{name}", status_code=204)
def remove_secret(manager: TheManager, caller: Asks, name: SecretName) -> None:
    """Forget a secret. Parts that run keep it until they start again."""
    manager.secrets.remove(caller, name)
