"""Changes of an epoch besides rows: table states, windows that end, tables that park. They are taken over only on
commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from anabranch.apply.context import ApplyContext, Followed, KeyTexts, closed
from anabranch.apply.decided import AS_IT_IS, Decided, rule_beside
from anabranch.apply.stage import Group, Ignored, Parked, RemovedByKeys
from anabranch.failpoints import reach
from anabranch.model.column_changes import APPLY_ALL, ActionsOf
from anabranch.model.ddl_changes import Outcome
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import tells_dropped
from anabranch.model.table_life import TableState, heard_of, park, stream
from anabranch.rows.aside import AsideChange
from anabranch.rows.lines import texts
from anabranch.rows.net import UPDATE, RowChange, TargetTable

Texts = Mapping[str, str | None]


class Work:
    """The context and the states as they will be when the running epoch commits.

    Changes of what is followed are noted, and a new context is made from them when somebody asks for it: an epoch that
    notes a thousand keys makes one. `counts`: row changes per table. `conflicts`: settled ones, by table and decision.
    `asides`: changes that are set aside in this epoch. `decided`: what becomes of statements that alter tables.
    """

    def __init__(
        self,
        context: ApplyContext,
        states: dict[TableId, TableState],
        target_of: Callable[[TableId], TableId | None],
        has_joined: Callable[[TableId, int], bool] = lambda table, sequence: False,
        actions: ActionsOf = lambda table: APPLY_ALL,
    ) -> None:
        """Begin with a context and states. `has_joined`: whether a table that parked at a sequence was brought in again
        later; `actions`: the job file's words about changes of a table."""
        self._context, self._changed = context, dict[TableId, Followed]()
        self.states, self._target_of, self._has_joined = states, target_of, has_joined
        self._actions = actions
        self.counts = Counter[TableId]()
        self.conflicts = Counter[tuple[TableId, str]]()
        self.removed = RemovedByKeys()
        self.asides: list[AsideChange] = []
        self.decided: list[Decided] = []

    # --- what is followed ------------------------------------------------------------------------------------------

    @property
    def context(self) -> ApplyContext:
        """Return the context that holds from here on; the same object until something changes."""
        if self._changed:
            self._context = self._context.with_followed(*self._changed.values())
            self._changed.clear()
        return self._context

    def turn_to(self, context: ApplyContext) -> None:
        """Change to another context."""
        self._context = context
        self._changed.clear()

    def followed(self, table: TableId) -> Followed:
        return self._changed.get(table) or self._context.tables[table]

    def follow(self, followed: Followed) -> None:
        """Follow a table in this way from now on."""
        self._changed[followed.table.source] = followed

    def leave(self, tables: Iterable[TableId]) -> None:
        """Stop following tables."""
        self.turn_to(self.context.without(frozenset(tables)))

    # --- counts, and rows that are set aside ---------------------------------------------------------------------------

    def count(self, changes: Mapping[TableId, int]) -> None:
        for table, number in changes.items():
            self.counts[table] += number
            self.states[table] = self.states[table].counted(number)

    def note(self, table: TableId, what: str) -> None:
        """Note a disagreement that the table's policy has settled."""
        self.conflicts[table, what] += 1
        self.states[table] = self.states[table].with_conflict()

    def set_aside(self, change: AsideChange) -> None:
        """Note a change that was set aside. Its table must be one that may have such changes."""
        self.asides.append(change)
        self.states[change.source] = self.states[change.source].with_aside(1)
        followed = self.followed(change.source)
        assert followed.aside is not None
        self.follow(replace(followed, aside=followed.aside.plus(change)))

    def settle_aside(self, table: TableId, number: int) -> None:
        """Note that `number` changes are no longer set aside."""
        self.states[table] = self.states[table].with_aside(-number)

    # --- tables that park, windows that end ------------------------------------------------------------------------------

    def park(self, parked: Sequence[Parked]) -> None:
        if not parked:
            return
        for one in parked:
            reason = f"{one.reason} (at {one.sequence})" + (f": {one.statement}" if one.statement else "")
            if tells_dropped(one.reason) and self._forgets(one):
                if (known := self.states.pop(one.table, None)) is not None:
                    self.decided.append(_decided(known, one, Outcome.FORGOTTEN))
                continue
            state = self.states.get(one.table) or self._new(one.table)
            if state is not None and not (self._has_joined(one.table, one.sequence) and self._is_newer(one)):
                if not (state.is_parked and tells_dropped(state.reason) and tells_dropped(one.reason)):  # told once
                    self.decided.append(_decided(state, one, Outcome.PARKED))
                self.states[one.table] = park(state, reason, stood=one.stood)
        self.leave(one.table for one in parked if (state := self.states.get(one.table)) and state.is_parked)

    def ignore(self, ignored: Iterable[Ignored]) -> None:
        """Note statements behind which tables go on, with the target's as they are."""
        for one in ignored:
            if (state := self.states.get(one.table)) is not None and not state.is_parked:
                rule = rule_beside(one.kinds, self._actions(one.table))
                why = f"{AS_IT_IS}: {', '.join(one.kinds)}"
                self.decided.append(Decided(state, one.sequence, one.statement, Outcome.IGNORED, why, rule))

    def _forgets(self, dropped: Parked) -> bool:
        """Return whether the target has nothing of a table that was dropped at the source, and nobody brings it in
        again."""
        state = self.states.get(dropped.table)
        if state is None:
            return True
        return state.is_parked and state.is_untouched and not self._has_joined(dropped.table, dropped.sequence)

    def _is_newer(self, parked: Parked) -> bool:
        """Return whether the followed table was loaded after the barrier. A target that lost its last commits has the
        former table."""
        followed = self.context.tables.get(parked.table)
        return followed is None or followed.low >= parked.sequence

    def _new(self, table: TableId) -> TableState | None:
        """Return the state of a table that was created after the start: apply first hears of it when it parks."""
        target = self._target_of(table)
        return heard_of(table, target) if target else None

    def pass_windows(self, sequence: int) -> None:
        """Let tables whose window ends here stream from now on, unless keys still have to be read again (K3)."""
        for table, followed in self.context.tables.items():
            state = self.states[table]
            if state.is_loading and followed.high <= sequence and not state.facts.reread:
                reach("apply.window")
                self.follow(closed(followed))
                self.states[table] = stream(state)

    # --- rows that are read again ------------------------------------------------------------------------------------------

    def reread(self, table: TableId, keys: Iterable[Texts]) -> bool:
        """Remember keys whose rows have to come from the source again before the table is consistent."""
        state, followed = self.states[table], self.followed(table)
        new = {key_of(followed.table, key): key for key in keys}
        new = {name: key for name, key in new.items() if name not in followed.waiting}
        if new:
            self.states[table] = state.with_waiting([*state.facts.reread, *new.values()])
            self.follow(replace(followed, waiting=followed.waiting | new.keys()))
        return bool(new)

    def reread_keys(self, table: TableId, keys: pa.Table) -> bool:
        target = self.followed(table).table
        columns = [texts(target.type_of(n), keys.column(n).combine_chunks()).to_pylist() for n in target.key]
        return self.reread(table, [dict(zip(target.key, row, strict=True)) for row in zip(*columns, strict=True)])

    def reread_waiting(self, part: Group) -> None:
        """Remember the keys that waiting rows moved to."""
        for table, keys in part.waiting.items():
            target = self.followed(table).table
            self.reread(table, [dict(zip(target.key, key, strict=True)) for key in keys])

    def leaves_out(self, change: RowChange) -> bool:
        """Return whether the change is one of a row that waits to be read again. Its new key then waits, too."""
        table = change.table
        waiting = self.followed(table.source).waiting if table.key else frozenset[KeyTexts]()
        if not waiting:
            return False
        new = {name: value for name, value in change.values.items() if name in table.key}
        both = [key for key in (change.old_key, {**change.old_key, **new}) if len(key) == len(table.key)]
        if waiting.isdisjoint(key_of(table, key) for key in both):
            return False
        self.reread(table.source, both)
        return True

    def reread_partial(self, change: RowChange, has_row: bool) -> None:
        """Remember the keys of a partial update in a window that found no row (`has_row`), moved a row to where another one
        may have been loaded, or has a value computed from what it does not have: they are read again."""
        if not change.checked and change.operation == UPDATE:
            moved = {name: value for name, value in change.values.items() if name in change.old_key}
            computed = self.context.computed.get(change.table.source)
            is_told = computed is None or computed.is_told(change.values)
            if not (has_row and is_told) or moved.items() - change.old_key.items():
                self.reread(change.table.source, [{**change.old_key, **moved}])


def key_of(table: TargetTable, key: Texts) -> KeyTexts:
    return tuple(key[name] for name in table.key)


def _decided(state: TableState, parked: Parked, outcome: Outcome) -> Decided:
    return Decided(state, parked.sequence, parked.statement, outcome, parked.reason, parked.rule)
