"""Methods of `Job` about changes of tables' definitions.

What does not live here: all other methods (`job.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.job.named import NamedJob
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.job.ddl_plan import DdlPlan
    from anabranch.lifecycle.keeping_rows import Kept
    from anabranch.model.ddl_changes import DdlChange


class DefinitionsJob(NamedJob):
    """A job whose tables are altered at the source."""

    def ddl_changes(self, table: str | None = None) -> list[DdlChange]:
        """Return what became of the source's changes of definitions, in their order: of one source table or of all."""
        with self._named():
            from anabranch.job.ddl_changes import ddl_changes

            return ddl_changes(self, TableId.parse(table) if table else None)

    def decide_ddl(self, number: int, decision: str = "apply", statements: Sequence[str] = ()) -> list[TableId]:
        """Let the table that waits in front of change `number` (`ddl_changes`) go on, with those that wait with it: behind it
        ("apply"), without it at the target ("skip"), or with what a person has altered there, also by these statements
        ("replace"). Returns them. Raises ConfigError where that cannot be decided so."""
        with self._named("ddl", decision=decision, number=number, statements=list(statements)):
            from anabranch.lifecycle.ddl_decisions import decide

            return decide(self, number, decision, statements)

    def plan_ddl(self, statement: str) -> DdlPlan:
        """Return what would become of a statement at this target. Runs nothing. Raises ConfigError for what is not planned."""
        with self._named():
            from anabranch.job.ddl_plan import plan

            return plan(self, statement)

    def plan_ddl_backlog(self) -> list[DdlPlan]:
        """Return a plan for each statement of the trail that this target has not come to, in the log's order. Runs nothing."""
        with self._named():
            from anabranch.job.ddl_backlog import plan_backlog

            return plan_backlog(self)

    def keep_rows(self, table: str) -> Kept:
        """Let a table get the definition that the job makes of the source's now, with its rows, and go on: one that streams, or
        is parked at a place which the trail still has. Returns which tables do. Raises ConfigError for any other."""
        with self._named("load", table=table, recreate=True, keep_rows=True):
            from anabranch.lifecycle.keeping_rows import keep

            return keep(self, TableId.parse(table))

    def plan_keep_rows(self, table: str) -> tuple[Kept, list[DdlPlan]]:
        """Return which tables `keep_rows` would let go on, and a plan for each change that they come by. Runs nothing."""
        with self._named():
            from anabranch.job.ddl_backlog import plan_keeping
            from anabranch.lifecycle.keeping_rows import look

            found = look(self, TableId.parse(table))
            return found, plan_keeping(self, found)
