"""What apply follows, made from what the target says: tables, windows, filters, cascades.

Made at the start, and again whenever it is in doubt what the target has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from anabranch.abc import TableState, TargetConnector, ValueRules
from anabranch.apply.cascade import rules_of
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.taken import with_taken
from anabranch.apply.window import WindowResolver, is_followed
from anabranch.apply.work import key_of, waiting
from anabranch.ddl.rules import Filter
from anabranch.errors import StateError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable


@dataclass(frozen=True)
class Following:
    """The job's facts that do not change while apply runs."""

    target: TargetConnector
    rules: ValueRules
    target_table: Callable[[TableSchema], TargetTable]
    where: Callable[[TableSchema], Filter | None]
    logs_cascades: bool
    truncate: str
    resolver: WindowResolver

    def context(self, states: Mapping[TableId, TableState]) -> ApplyContext:
        """Everything that streams or was loaded with the others."""
        return self.of({table: self.table(state) for table, state in states.items() if is_followed(state)})

    def of(self, tables: Mapping[TableId, Followed]) -> ApplyContext:
        rules = () if self.logs_cascades else rules_of(tables)
        return with_taken(ApplyContext(tables, rules, self.truncate), self.resolver.trail)

    def table(self, state: TableState) -> Followed:
        """Raises StateError for a loaded table without its definition."""
        if state.schema is None:
            raise StateError("a loaded table without its definition", table=str(state.source), hint="load it again")
        low, high = self.resolver.window(state) if state.state == "loading" else (0, 0)
        table, extra = self.target_table(state.schema), self._has_extra_columns(self.target_table(state.schema))
        dirty = frozenset(key_of(table, key) for key in waiting(state))
        return Followed(state.schema, table, low, high, extra, self.where(state.schema), dirty=dirty)

    def joined(self, context: ApplyContext, state: TableState, sequence: int) -> tuple[ApplyContext, ApplyContext]:
        """For a table that joins at `sequence`: what its part of the trail is replayed by, where the others have
        nothing to do, and what holds afterwards."""
        joining = {state.source: self.table(state)}
        others = {t: f for t, f in context.tables.items() if t != state.source}
        still = {t: replace(f, low=sequence, high=sequence) for t, f in others.items()}
        return self.of({**still, **joining}), self.of({**others, **joining})

    def _has_extra_columns(self, table: TargetTable) -> bool:
        loader = self.target.loader(self.rules)
        try:
            return bool(loader.extra_columns(table))
        finally:
            loader.close()
