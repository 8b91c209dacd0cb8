"""The target's table of one that is to join, and what the job would make of it now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from anabranch.contracts import (
    LabelTables,
    PreflightContext,
    RowTarget,
    SourceConnector,
    StandingTables,
    longest_of,
)
from anabranch.errors import ConfigError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import When
from anabranch.model.table_life import TableState
from anabranch.preflight.report import Report
from anabranch.preflight.run import choices_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


@dataclass(frozen=True)
class AtTarget:
    """Look at the target's table of one that is to join: whether it can stay, and what the user has to allow first."""

    job: JobView
    source: SourceConnector
    target: RowTarget

    def require_room(self, schema: TableSchema, keep: bool = False) -> None:
        """Refuse a target that the job has not loaded the table into, if it holds somebody else's rows (which stay where
        `keep` says so) or cannot hold the source's. Raises PreflightFailed.
        """
        rules = self.job.rules
        choices = choices_of(self.job.config, self.job.target) | ({"load.existing": "keep"} if keep else {})
        context = PreflightContext(
            self.job.config.name,
            choices,
            {schema.id: schema},
            {schema.id: rules.target_table(schema)},
            filtered=frozenset((schema.id,)) if rules.has_filter(schema.id) else frozenset(),
            longest=partial(longest_of, self.source),
        )
        with closing(self.target.checks()) as checks:
            results = checks.run(context)
        Report(self.job.config.name, tuple(result for result in results if result.table == str(schema.id))).require()

    def differences(self, schema: TableSchema) -> Sequence[str]:
        """Say which columns of the target's table are not those that rows of this definition are written for."""
        with closing(self.target.tables(value_rules(self.job))) as tables:
            if not isinstance(tables, StandingTables):
                return []
            return tables.differences(schema, self.job.rules.target_table(schema))

    def lacks(self, table: TableId, state: TableState | None) -> tuple[str, ...]:
        """Return the columns that the target's table is without because they came later, and that a load would write: not
        those that the job leaves out by now."""
        dropped = self.job.rules.dropped(table)
        return tuple(name for name in (state.facts.left_out if state else ()) if name not in dropped)

    def rename_labels(self, schema: TableSchema) -> None:
        """Rename labels of the target's types that the source has renamed since."""
        then = [state.schema for state in self._states().values() if state.schema]
        with closing(self.target.tables(value_rules(self.job))) as tables:
            if isinstance(tables, LabelTables) and schema.needs:
                tables.rename_labels(self.job.config.name, self.job.rules.target_table(schema), then, schema)

    def refuse_older_functions(self, now: TableSchema) -> None:
        """Refuse older functions before the table is taken out."""
        then = [state.schema for state in self._states().values() if state.schema]
        with closing(self.target.tables(value_rules(self.job))) as tables:
            if isinstance(tables, LabelTables) and now.needs:
                tables.refuse_older_functions(then, now)

    def refuse_other_columns(self, now: TableSchema) -> None:
        """Refuse columns that do not take the rows, where the target's table stays with its rows."""
        state = self._states().get(now.id)
        if other := [*(f"it has no column {name}" for name in self.lacks(now.id, state)), *self.differences(now)]:
            raise ConfigError(
                f"{self.job.rules.target_table(now).target} stays as it is with --keep: {'; '.join(other)}",
                job=self.job.config.name,
                hint="alter these columns to what is needed; or let the job write what stands there: take its choice of another"
                ' type back, or make one ([types.map] "TYPE" = "longtext"), then anabranch plan JOB --execute; or load it'
                " without --keep",
            )

    def unconfirmed(self, now: TableSchema, state: TableState | None) -> list[str]:
        """Say what a load would drop and create because the definition changed, which it does with the user's word alone."""
        if state is None or state.schema is None:
            return []
        with closing(self.target.tables(value_rules(self.job))) as tables:
            then = tables.as_renamed(state.schema, now) if isinstance(tables, LabelTables) else state.schema
            steps = list(tables.script([(now, self.job.rules.target_table(now))]))
        other = self.differences(now)
        if now.same_definition(then) and not (state.facts.recreate or self.lacks(now.id, state) or other):
            return []
        would = f"--recreate would drop {state.target} at the target and create it anew:"
        return [
            f"the definition of {now.id}, or what the job makes of it, changed since it was loaded; {would}",
            *other,
            *(step.sql for step in steps if step.sql and step.table and step.when is When.BEFORE_LOAD),
        ]

    def _states(self) -> dict[TableId, TableState]:
        with closing(self.target.store()) as store:
            return store.states.tables(self.job.config.name)
