"""The contract of what a target keeps of verifications that go on for ever."""

from __future__ import annotations

from typing import Protocol

from anabranch.model.ids import TableId
from anabranch.model.verified import Verified


class VerifiedStore(Protocol):
    """Keeps the last result of each table of a job."""

    def verified(self, job: str) -> list[Verified]:
        """Return all of a job, by table; none where the state is of a release without them."""

    def note_verified(self, job: str, found: Verified, before: int = 0) -> bool:
        """Keep a result in place of the one of `before`, its `at`; 0: where the table has none. Returns False, and keeps
        nothing, where another one is there by now, or none."""

    def forget_verified(self, job: str, table: TableId) -> None:
        """Remove a table's result, if there is one: what it says of its rows does not hold any more."""
