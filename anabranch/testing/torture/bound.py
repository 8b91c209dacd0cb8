"""A policy that somebody makes for a table of the target, while a job applies whose user may not see past it: apply ends and
names it, as often as it is begun again; when the policy is gone it goes on, and nothing was written in part.

What does not live here: policies that do not concern the job's user (policies.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.torture.deeds import Refusing
from anabranch.testing.torture.parts import Ended
from anabranch.testing.torture.policies import KINDS, may_switch_triggers_off
from anabranch.testing.torture.worst import USER as WORST

USER = "torture_bound"
SAID = "row-level security"
MADE = "ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; {policies}"
LIFTED = """NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS hides ON {table}; DROP POLICY IF EXISTS more ON {table}"""


@dataclass
class Bound(Refusing):
    """A table of the history's, the ledger among them, which every transaction writes to."""

    def _drawn_from(self) -> list[TableId]:
        return sorted(self.states())

    def _making(self, table: TableId) -> str:
        return MADE.format(policies=KINDS[self.draw // 11 % len(KINDS)].format(self._place(table.name)))

    def _lifting(self) -> str:
        return LIFTED.format(table=self._place(self._table))

    def _place(self, name: str) -> str:
        return f'"{self.namespace}"."{name}"'

    def explains(self, ended: Ended) -> bool:
        """Of an error that names the table."""
        is_named = SAID in ended.message and f'"{self._table}"' in ended.message
        return bool(self._table) and ended.part == "apply" and ended.error == "TargetError" and is_named


def make_user(admin: Database) -> None:
    """Owns what the administrator owns, and is bound by what is forced upon owners."""
    admin.execute(
        f"CREATE ROLE {USER} LOGIN PASSWORD '{admin.server.password}'",
        f'GRANT "{admin.server.user}", {WORST} TO {USER}',
        *may_switch_triggers_off(admin, USER),
    )
