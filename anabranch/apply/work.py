"""What an epoch changes besides rows: table states, windows that end, tables that park. Taken over only on commit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from anabranch.abc import TableState
from anabranch.apply.context import UNRESOLVED, ApplyContext, closed, replace_context
from anabranch.apply.plan import Parked
from anabranch.model.ids import TableId
from anabranch.rows.lines import texts
from anabranch.rows.net import RowChange

Texts = dict[str, str | None]
REREAD = "reread"  # the fact that keeps keys whose rows have to come from the source again


@dataclass
class Work:
    """The context and states as they will be when the running epoch commits."""

    context: ApplyContext
    states: dict[TableId, TableState]
    target_of: Callable[[TableId], TableId | None]
    has_joined: Callable[[TableId, int], bool] = lambda table, sequence: False
    """Was a table that parked at a sequence brought in again later?"""
    counts: Counter[TableId] = field(default_factory=Counter)

    def count(self, changes: Mapping[TableId, int]) -> None:
        for table, number in changes.items():
            self.counts[table] += number
            state = self.states[table]
            self.states[table] = replace(state, changes_applied=state.changes_applied + number)

    def park(self, parked: Sequence[Parked]) -> None:
        if not parked:
            return
        for one in parked:
            reason = f"{one.reason} (at {one.sequence})" + (f": {one.statement}" if one.statement else "")
            state = self.states.get(one.table) or self._new(one.table)
            if state is not None and not self.has_joined(one.table, one.sequence):
                self.states[one.table] = replace(state, state="parked", reason=reason)
        gone = {one.table for one in parked if self.states.get(one.table) and self.states[one.table].state == "parked"}
        self.context = self.context.without(frozenset(gone))

    def _new(self, table: TableId) -> TableState | None:
        """A table created after the start: it is first heard of when it parks."""
        target = self.target_of(table)
        return TableState(table, target, "pending") if target else None

    def pass_windows(self, sequence: int) -> None:
        """Tables whose window ends here stream from now on. Where keys still have to be read again (K3), it stays open
        until then: what changes those rows meanwhile may not find them."""
        tables = dict(self.context.tables)
        for table, followed in tables.items():
            state = self.states[table]
            if REREAD in state.facts:
                tables[table] = replace(followed, high=UNRESOLVED)
            elif state.state == "loading" and followed.high <= sequence:
                tables[table] = closed(followed)
                self.states[table] = replace(state, state="streaming", low="", high="")
        if tables != self.context.tables:
            self.context = replace_context(self.context, tables)

    def reread(self, table: TableId, keys: Sequence[Texts]) -> None:
        """Remember keys whose rows have to come from the source again before the table is consistent."""
        if keys:
            state = self.states[table]
            known = json.loads(state.facts.get(REREAD, "[]"))
            facts = {**state.facts, REREAD: json.dumps([*known, *keys])}
            self.states[table] = replace(state, facts=facts)

    def reread_keys(self, table: TableId, keys: pa.Table) -> None:
        target = self.context.tables[table].table
        columns = [texts(target.type_of(n), keys.column(n).combine_chunks()).to_pylist() for n in target.key]
        self.reread(table, [dict(zip(target.key, row, strict=True)) for row in zip(*columns, strict=True)])

    def reread_partial(self, change: RowChange) -> None:
        """In a window a partial update may have met no row: its key is read again in any case."""
        if not change.checked and change.operation == "update":
            moved = {name: value for name, value in change.values.items() if name in change.table.key}
            self.reread(change.table.source, [{**change.old_key, **moved}])
