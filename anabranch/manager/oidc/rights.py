"""Makes roles at jobs of what a provider says of somebody.

What does not live here: whether the provider has said it (`tokens.py`), what a role may do (`manager/callers.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.config.oidc_file import RoleRule
from anabranch.manager.callers import Grant, Role

EMAIL = "email"  # https://openid.net/specs/openid-connect-core-1_0.html#ClaimStability
VERIFIED = "email_verified"


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its whole name, else by a path of names with dots between; None where there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def grants(claims: Mapping[str, Any], rules: Sequence[RoleRule]) -> tuple[Grant, ...]:
    """Return the roles that somebody has, the lowest first, each once; none for who is in no rule."""
    order = list(Role)
    found = {Grant(Role(rule.role), tuple(rule.jobs)): None for rule in rules if _fits(claims, rule)}
    return tuple(sorted(found, key=lambda one: order.index(one.role)))


def kept(claims: Mapping[str, Any], rules: Sequence[RoleRule]) -> dict[str, Any]:
    """Return those claims that rules look at, and no other ones, as a session keeps them."""
    names = {rule.claim for rule in rules}
    found = {name: claim(claims, name) for name in sorted(names)}
    return {name: value for name, value in found.items() if value is not None} | (
        {VERIFIED: claims.get(VERIFIED)} if EMAIL in names else {}
    )


def _fits(claims: Mapping[str, Any], rule: RoleRule) -> bool:
    if rule.claim == EMAIL and claims.get(VERIFIED) is not True:  # anybody may have said so
        return False
    said = claim(claims, rule.claim)
    values = said if isinstance(said, list) else [said]
    return any(isinstance(one, str) and one == rule.value for one in values)
