"""Tables that the source has made, and that the job's rules take: the target gets them, as a load would make them.

What does not live here: when (`altering.py`), indexes and keys (`life/finish.py` builds them, as behind a load).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.apply.column_steps import NotFollowed
from anabranch.contracts import PreflightContext, StandingTables
from anabranch.model.checks import CheckVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.contracts import RowTarget, ValueRules
    from anabranch.model.schema import TableSchema
    from anabranch.rows.net import TargetTable


@dataclass(frozen=True)
class Creating:
    """Makes tables at a job's target, over connections of its own. `choices`: PreflightContext.user_choices."""

    job: str
    target: RowTarget
    rules: ValueRules
    choices: Mapping[str, str]

    def create(self, schema: TableSchema, table: TargetTable) -> None:
        """Make the table with its primary key. One that is there stays, where it has no rows and just these columns: an
        attempt before has made it. Raises NotFollowed for any other, and for what preflight refuses, TargetError,
        TargetUnavailable."""
        choices = {**self.choices, "load.existing": "refuse"}
        context = PreflightContext(self.job, choices, {schema.id: schema}, {schema.id: table})
        with closing(self.target.checks()) as checks:
            results = [one for one in checks.run(context) if one.table == str(schema.id)]
        if refused := [one.message for one in results if one.verdict == CheckVerdict.FAILED]:
            raise NotFollowed("; ".join(refused))
        with closing(self.target.tables(self.rules)) as tables:
            if isinstance(tables, StandingTables) and (other := tables.differences(schema, table)):
                raise NotFollowed(f"{table.target} is there with other columns: {'; '.join(other)}")
            tables.create_table(schema, table, self.rules, False)
