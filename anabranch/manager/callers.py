"""Callers of the manager: their roles, and the jobs that exist for them.

What does not live here: how somebody proves who they are (`accounts.py`, `tokens.py`, `sessions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from anabranch.errors import NotAllowed, UnknownName

EVERY_JOB = "*"


class Role(StrEnum):
    """The rights of somebody, each role with those of the one before it: to look; to start, stop and repair; to change jobs
    and users."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"

    def includes(self, other: Role) -> bool:
        """Return whether whoever has this role may do what `other` may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Caller:
    """`name`: the user's or token's; `how`: "token", "session" or "command line"; `jobs`: patterns, with `*` and `?`, on the
    names of the jobs that it may see; `place`: the address that it speaks from."""

    name: str
    how: str
    role: Role
    jobs: tuple[str, ...] = (EVERY_JOB,)
    place: str = ""

    def sees(self, job: str) -> bool:
        """Return whether the job exists for this caller."""
        return any(fnmatchcase(job, pattern) for pattern in self.jobs)

    def require(self, role: Role, job: str | None = None) -> None:
        """Raise UnknownName for a job that it may not see, as for one that is not there; NotAllowed for want of a role."""
        if job is not None and not self.sees(job):
            raise UnknownName(f"there is no job {job}", hint="GET /api/v1/jobs lists them")
        if not self.role.includes(role) or (job is None and role is Role.ADMINISTRATOR and EVERY_JOB not in self.jobs):
            raise NotAllowed(
                f"{self.name} has the role {self.role}, and this needs {role}",
                hint="ask an administrator of this manager",
            )


def patterns_of(text: str) -> tuple[str, ...]:
    """Return patterns on jobs' names from text in which spaces or commas stand between them."""
    return tuple(text.replace(",", " ").split()) or (EVERY_JOB,)
