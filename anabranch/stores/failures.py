"""Make the errors of stores: of the right end, with the place, and without anything secret.

What a library says about a failure is not repeated, since it may hold a signature, a key or a password: each store says by its
own words what is wrong, from codes.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import (
    ConfigError,
    Side,
    SourceError,
    SourceUnavailable,
    StorageFull,
    TargetError,
    TargetUnavailable,
)

RETRIED = "check that the store is running and reachable; what was written is complete"
RIGHTS = "docs/reference/stores.md has the rights that are needed"
ROOM = "make room in the store; it goes on by itself"


@dataclass(frozen=True, slots=True)
class Failures:
    """The errors of one store. `end`: which end of a job it is; `place`: how a person calls it."""

    end: Side
    place: str

    def away(self, why: str, hint: str = RETRIED) -> SourceError | TargetError:
        """Return the error that another try may mend."""
        kind = SourceUnavailable if self.end is Side.SOURCE else TargetUnavailable
        return kind(f"{self.place}: {why}", hint=hint)

    def full(self, why: str = "no room is left") -> StorageFull:
        return StorageFull(f"{self.place}: {why}", hint=ROOM)

    def wrong(self, why: str, hint: str = RIGHTS) -> ConfigError:
        """Return the error of what somebody has to set right first."""
        return ConfigError(f"{self.place}: {why}", hint=hint)
