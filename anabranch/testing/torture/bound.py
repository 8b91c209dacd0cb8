"""A policy that somebody makes for a table of the target, while a job applies whose user may not see past it: apply ends and
names it, as often as it is begun again; when the policy is gone it goes on, and nothing was written in part.

What does not live here: policies that do not concern the job's user (policies.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.testing.torture.deeds import Refusing
from anabranch.testing.torture.parts import Ended
from anabranch.testing.torture.targets import Hides

USER = "torture_bound"
SAID = "row-level security"


@dataclass
class Bound(Refusing):
    """A table of the history's, the ledger among them, which every transaction writes to."""

    def _drawn_from(self) -> list[TableId]:
        return sorted(self.states())

    def _disturbance(self, table: TableId) -> Hides:
        return Hides(self.draw // 11)

    def explains(self, ended: Ended) -> bool:
        """Return whether it is the error that names the table."""
        is_named = SAID in ended.message and f'"{self._table}"' in ended.message
        return bool(self._table) and ended.part == "apply" and ended.error == "TargetError" and is_named
