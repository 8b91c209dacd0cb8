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
class Grant:
    """A role at some jobs: patterns, with `*` and `?`, on their names."""

    role: Role
    jobs: tuple[str, ...] = (EVERY_JOB,)

    def fits(self, job: str) -> bool:
        """Return whether it is about this job."""
        return any(fnmatchcase(job, pattern) for pattern in self.jobs)

    def __str__(self) -> str:
        return f"{self.role}, jobs {' '.join(self.jobs)}"


@dataclass(frozen=True, slots=True)
class Caller:
    """`name`: the user's or token's; `how`: "token", "session", "oidc" or "command line"; `jobs`: patterns, with `*` and `?`,
    on the names of the jobs at which it has the role; `place`: the address that it speaks from; `more`: roles at other jobs,
    none of them a lower one."""

    name: str
    how: str
    role: Role
    jobs: tuple[str, ...] = (EVERY_JOB,)
    place: str = ""
    more: tuple[Grant, ...] = ()

    @property
    def grants(self) -> tuple[Grant, ...]:
        """Return all of its roles, each with the jobs at which it has it."""
        return (Grant(self.role, self.jobs), *self.more)

    @property
    def sees_all(self) -> bool:
        """Return whether every job exists for it, those to come included."""
        return any(EVERY_JOB in one.jobs for one in self.grants)

    @property
    def is_over_all(self) -> bool:
        """Return whether it is an administrator of all jobs."""
        return any(one.role is Role.ADMINISTRATOR and EVERY_JOB in one.jobs for one in self.grants)

    @property
    def title(self) -> str:
        """Return its roles as a page shows them."""
        return (
            self.role.value
            if not self.more
            else "; ".join(f"{one.role} of {' '.join(one.jobs)}" for one in self.grants)
        )

    def sees(self, job: str) -> bool:
        """Return whether the job exists for this caller."""
        return any(one.fits(job) for one in self.grants)

    def role_at(self, job: str) -> Role:
        """Return the highest role that it has at a job, the lowest of all where it may not even see it."""
        return max((one.role for one in self.grants if one.fits(job)), key=list(Role).index, default=Role.VIEWER)

    def require(self, role: Role, job: str | None = None) -> None:
        """Raise UnknownName for a job that it may not see, as for one that is not there; NotAllowed for want of a role."""
        if job is not None and not self.sees(job):
            raise UnknownName(
                f"there is no job {job}", hint="the manager's overview lists them, as GET /api/v1/jobs does"
            )
        if job is not None:
            has = self.role_at(job).includes(role)
        else:
            has = (
                self.is_over_all if role is Role.ADMINISTRATOR else any(one.role.includes(role) for one in self.grants)
            )
        if not has:
            raise NotAllowed(
                f"{self.name} has the role {self.role if job is None else self.role_at(job)}, and this needs {role}",
                hint="ask an administrator of this manager",
            )


def patterns_of(text: str) -> tuple[str, ...]:
    """Return patterns on jobs' names from text in which spaces or commas stand between them."""
    return tuple(text.replace(",", " ").split()) or (EVERY_JOB,)
