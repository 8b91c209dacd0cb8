"""Tables that the source drops or renames on the way: the target's table is dropped just there, or kept, and is not replicated
any more, or goes on under its next name.

A target that can does it inside the epoch of that transaction, with the checkpoint. Where such a statement commits by itself
(K17) it comes before the epoch, and is noted with the table's state first, as an ALTER TABLE is. What goes is only what the job
alone has written: a table into which anybody else's rows may have come parks instead.

What does not live here: which statements drop tables that are followed (capture), how a target drops one (its Writer).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from anabranch import log
from anabranch.apply.abilities import StateWriter, appending
from anabranch.apply.altering import left_out
from anabranch.apply.asking import DECIDE
from anabranch.apply.conflict import Where
from anabranch.apply.decided import Decided, rule_of
from anabranch.apply.feed import altering_at
from anabranch.apply.progress import Progress
from anabranch.apply.stage import Parked
from anabranch.apply.tables import Tables
from anabranch.contracts import Conflict, DropsTables
from anabranch.errors import ConfigError, Fenced, StoppedByChange, TargetBusy, TargetError, TargetUnavailable
from anabranch.failpoints import reach
from anabranch.model.check_changes import leaving_checks_out
from anabranch.model.column_changes import APPLY, ASK, DDL, KEEP, RENAME, STOP, ColumnChange
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.model.index_changes import IndexChanges, is_followed
from anabranch.model.parked_reasons import ANEW, DROPPED, NO_MORE_CHANGES
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema, component
from anabranch.model.table_facts import ParkedFor
from anabranch.model.table_life import (
    TableState,
    ask,
    begin_altering,
    begin_altering_behind,
    give_up_place,
    heard_of,
    park,
    rename,
    rename_behind,
)
from anabranch.rows.altered import AlteredTable
from anabranch.rows.chunk import Barrier
from anabranch.rows.conflict import STRICT
from anabranch.rows.dropped import DroppedTable
from anabranch.trail import retention

REMEDY = (
    "drop it there as well, exclude it in the job file and run anabranch plan JOB; or load it when the source has a table of "
    "this name again"
)
SUFFIX = "__dropped_%Y%m%d_%H%M%S"  # of the statement's commit, UTC by the source's clock
LOAD = "anabranch load JOB --table {table} brings it in"
BUILDING_SECONDS, PAUSE = 10.0, 0.1
NOT_HERE = "the target does not have the table that was renamed"
BEGUN = "an attempt by another setting had begun: see whether the target has the table still, and by which name"
NOT_THROUGH = "its load was not through"


@dataclass(frozen=True)
class Going:
    """The fate of a table that is dropped or renamed. `change`: what the Writer does, None where the target's table stays
    as it is; `state`: how the table goes on under its next name, None where it does not."""

    change: DroppedTable | None = None
    state: TableState | None = None


class _Refused(Exception):
    """Tables cannot be dropped or renamed at the target; the text says why."""

    def __init__(self, tables: Iterable[TableId], why: str) -> None:
        super().__init__(why)
        self.tables, self.why = tuple(tables), why


class _Asks(Exception):
    """The job file asks a person; the text is its line."""


@dataclass
class Dropping:
    """Carries out the transactions of the trail that drop tables, each in an epoch of its own."""

    progress: Progress
    writer: StateWriter
    tables: Tables
    lets_go: Callable[[TableId], bool] = lambda table: True  # leave its keys alone from now on: are none being built?

    def carry_out(self, sequence: int) -> None:
        """Drop or keep the target's tables that this transaction drops, or park them. Raises TargetUnavailable, Fenced,
        StoppedByChange."""
        progress = self.progress
        where = progress.where(sequence)
        every = {one.table: one for one in altering_at(progress.trail, sequence)}
        barriers = {table: one for table, one in every.items() if one.untold.dropped and self._is_here(one)}
        unknown = [one for one in every.values() if one.untold.moved and one.table not in barriers]
        going: dict[TableId, Going] = {}
        refused: dict[TableId, str] = {}
        for table, barrier in barriers.items():
            try:
                if barrier.untold.moved:
                    going[table] = self._moving(barrier, every[TableId.parse(barrier.untold.moved)])
                else:
                    going[table] = self._going(barrier, where)
            except _Asks as line:
                if len(barriers) == 1 and not unknown:
                    self._ask(sequence, where, barrier, str(line))
                    return
                refused[table] = f"{line}, and the same statement drops other tables"
            except _Refused as refusal:
                refused[table] = refusal.why
        self._let_go(going)
        for group in self._groups(going):
            try:
                self._drop_apart(sequence, group)
            except _Refused as refusal:
                _leave_out(going, refused, refusal)
        while True:
            try:
                self._commit(sequence, where, barriers, going, refused, unknown)
                break
            except _Refused as refusal:
                self.writer.rollback()
                _leave_out(going, refused, refusal)
        self.writer.close()  # and with it all that it knows of the tables
        progress.ask_again()
        progress.look()

    def carry_out_behind(self, sequence: int, group: Sequence[TableState]) -> list[TableState]:
        """Drop or keep a table that waited in front of this transaction, as a person has decided. Returns the states of those
        of the group that are left: it waits on where that is not possible. Raises TargetUnavailable, Fenced."""
        progress, left = self.progress, {state.source: state for state in group}
        self.writer.rollback()  # of an attempt that an end broke off which went away
        barriers = [one for one in altering_at(progress.trail, sequence) if one.untold.dropped and one.table in left]
        for barrier in barriers:
            state = left.pop(barrier.table)
            decided = state.facts.decided if state.facts.asked == sequence else ()
            if not decided:  # it came up to here for another reason, and nothing behind this is its own
                why = f"{DROPPED}, and not at the target: the table was parked; {self._remedy}"
                reason = f"{why} (at {sequence}): {barrier.statement}"
                left[barrier.table] = give_up_place(park(state, reason))
                progress.park(left[barrier.table])
                continue
            try:
                if barrier.untold.moved:
                    renamed = self._renamed_behind(sequence, barrier, state, decided)
                    left[renamed.source] = renamed
                else:
                    self._decided_behind(sequence, barrier, state, decided)
            except _Refused as refusal:
                progress.back_out()
                progress.learn([state])
                why = f"{decided[0]} is not possible: {refusal.why}"
                left[barrier.table], noted = self._waiting(sequence, barrier, why)
                progress.park(left[barrier.table], decided=[noted])
        self.writer.close()
        progress.ask_again()
        progress.look()
        progress.learn(left.values())
        return list(left.values())

    def _decided_behind(self, sequence: int, barrier: Barrier, state: TableState, decided: Sequence[str]) -> None:
        """Carry out what was decided, in an epoch that moves on nothing else. Raises _Refused."""
        progress, writer, table = self.progress, self.writer, barrier.table
        if not isinstance(writer, DropsTables) or state.schema is None:
            raise _Refused([table], "this target's tables are not dropped")
        one = Going()
        if decided[0] == APPLY:
            if why := not_ours_alone(self.tables, progress.states, self._others(), state):
                raise _Refused([table], why)
            one = Going(DroppedTable(self.tables.target_table(state.schema)))
        group = [one.change] if one.change is not None else []
        self._let_go([table])
        if group:
            self._drop_apart(sequence, group)
        then = progress.here()
        progress.begin(then)
        work = progress.work()
        if group:
            self._drop_within(group)
        writer.forget_dropped(progress.job, table)
        noted = self._decided(sequence, barrier, work.states.pop(table), one)
        if (again := self._made_meanwhile(table)) is not None:
            work.states[table] = again
        said = ", ".join(filter(None, (noted.why, f"{decided[0]}, decided by {decided[1]}")))
        work.decided.append(replace(noted, why=said))
        reach("apply.dropped.behind")
        progress.commit(then, work)

    def _renamed_behind(self, sequence: int, barrier: Barrier, state: TableState, decided: Sequence[str]) -> TableState:
        """Give the target's table its next name, as was decided, in an epoch that moves on nothing else. The trail is held
        under that name before the target has it. Returns the state by which it goes on. Raises _Refused."""
        progress, table = self.progress, barrier.table
        behind = next(b for b in altering_at(progress.trail, sequence) if str(b.table) == barrier.untold.moved)
        if decided[0] != APPLY or not isinstance(self.writer, DropsTables):
            raise _Refused([table], f"{decided[0]} is for no table that has another name")
        one = self._moved(barrier, behind, state)
        assert one.state is not None
        group = [one.change] if one.change is not None else []
        directory, names = progress.trail.directory, progress.settings.names
        retention.hold(directory, names.table(one.state.source), sequence - 1)
        self._let_go([table])
        if group:
            self._drop_apart(sequence, group)
        then = progress.here()
        progress.begin(then)
        work = progress.work()
        if group:
            self._drop_within(group)
        self.writer.forget_dropped(progress.job, table)
        noted = self._decided(sequence, barrier, work.states.pop(table), one)
        work.states[one.state.source] = one.state
        if (again := self._made_meanwhile(table)) is not None:
            work.states[table] = again
        work.decided.append(replace(noted, why=f"{noted.why}, {decided[0]}, decided by {decided[1]}"))
        reach("apply.renamed.behind")
        progress.commit(then, work)
        return one.state

    def _made_meanwhile(self, table: TableId) -> TableState | None:
        """Return the state of a table of this name that the source has made in front of the place where this target is."""
        progress, target = self.progress, self.progress.target_of(table)
        made = progress.trail.history.created_until(progress.checkpoint.position.sequence)
        if target is None or not any(entry.schema and entry.schema.id == table for entry in made):
            return None
        return park(heard_of(table, target), left_out(table))

    def _ask(self, sequence: int, where: Where, barrier: Barrier, line: str) -> None:
        """Let the table wait in front of this transaction. The trail is held for it before the target says so."""
        progress, table = self.progress, barrier.table
        self._let_go([table])
        retention.hold(progress.trail.directory, progress.settings.names.table(table), sequence - 1)
        reach("apply.drop.asking")
        waiting, noted = self._waiting(sequence, barrier, line)
        then = progress.then(Position.parse(where.position), where.commit_time)
        progress.begin(then)
        work = progress.work()
        work.states[table] = waiting
        work.leave([table])
        work.decided.append(noted)
        progress.commit(then, work)

    def _waiting(self, sequence: int, barrier: Barrier, line: str) -> tuple[TableState, Decided]:
        why = f"{ParkedFor.ASKED.words}, {line} (at {sequence}): {barrier.statement}; {DECIDE}"
        state = ask(self.progress.states[barrier.table], why, sequence, asked=True)
        log.get(job=self.progress.job, table=str(barrier.table)).warning("table_waits", reason=why)
        return state, Decided(state, sequence, barrier.statement, Outcome.WAITING, line, self._rule(barrier))

    # --- what has to be done ------------------------------------------------------------------------------------------------

    def _is_here(self, barrier: Barrier) -> bool:
        """Return whether the target has the table that was dropped. One that was loaded behind it is another one."""
        state = self.progress.states.get(barrier.table)
        is_later = state and state.schema and barrier.schema and state.schema.version >= barrier.schema.version
        return state is not None and not is_later

    def _action(self, barrier: Barrier, kind: ColumnChange, taken: Collection[str]) -> str:
        """Return what the job file says of the change. Raises _Refused where it is not one of these, or the table is not one
        with which that could be done, StoppedByChange."""
        table, state = barrier.table, self.progress.states[barrier.table]
        actions = self.progress.settings.actions(table)
        action, number = actions.of(kind), state.facts.set_aside
        if state.is_parked:
            raise _Refused([table], "the table was parked")
        if action == STOP:
            raise self._stopped(barrier, actions.line(kind))
        if not state.is_streaming:
            raise _Refused([table], NOT_THROUGH)
        is_begun = state.facts.altering is not None
        if action not in taken or (is_begun and action in (KEEP, ASK)):
            raise _Refused([table], f"{actions.line(kind)}, and {BEGUN}" if is_begun else actions.line(kind))
        if not state.facts.built and not (state.schema and self.progress.trail.history.was_made(state.schema)):
            raise _Refused([table], "its indexes and keys were not built yet")
        if number:
            raise _Refused([table], f"{number} changes of it are set aside: release or discard them before")
        if not isinstance(self.writer, DropsTables):
            raise _Refused([table], "this target's tables are not dropped or renamed")
        return action

    def _going(self, barrier: Barrier, where: Where) -> Going:
        """Return what becomes of a table that was dropped. Raises _Refused, StoppedByChange."""
        table, state = barrier.table, self.progress.states[barrier.table]
        action = self._action(barrier, ColumnChange.DROP_TABLE, (APPLY, KEEP, RENAME, ASK))
        if why := tied(self.progress.states, table, action):
            raise _Refused([table], why)
        if action == KEEP:
            return Going()
        assert isinstance(self.writer, DropsTables)
        if why := not_ours_alone(self.tables, self.progress.states, self._others(), state):
            raise _Refused([table], why)
        if action == ASK:
            raise _Asks(self.progress.settings.actions(table).line(ColumnChange.DROP_TABLE))
        followed = self.progress.context.tables[table].table
        suffix = kept_suffix(where.commit_time)
        kept = self.writer.kept_name(followed.target, suffix) if action == RENAME else None
        return Going(DroppedTable(followed, kept))

    def _moving(self, barrier: Barrier, behind: Barrier) -> Going:
        """Return what becomes of a table that was renamed. Raises _Refused, _Asks, StoppedByChange."""
        action = self._action(barrier, ColumnChange.RENAME_TABLE, (APPLY, ASK))
        found = self._moved(barrier, behind, self.progress.states[barrier.table])
        if action == ASK:
            raise _Asks(self.progress.settings.actions(barrier.table).line(ColumnChange.RENAME_TABLE))
        return found

    def _moved(self, barrier: Barrier, behind: Barrier, state: TableState) -> Going:
        """Return how a table goes on by its next name. Raises _Refused where it cannot."""
        table, to, states, schema = barrier.table, behind.table, self.progress.states, behind.schema
        assert schema is not None and state.schema is not None
        schema = leaving_checks_out(state.schema, schema.leaving_out(state.schema.left_out), ignores=False)
        if to in states:
            raise _Refused([table], f"the target knows a table {to} already")
        try:
            there, former = self.tables.target_table(schema), self.tables.target_table(state.schema)
            policies = [self.tables.on_conflict(one) for one in (state.schema, schema)]
            filters = [self.tables.where(one) for one in (state.schema, schema)]
        except ConfigError as error:
            raise _Refused([table], error.message) from error
        same = replace(there, source=table, target=former.target)
        if former.target != state.target:
            raise _Refused([table], f"the job's rules call it {former.target} by now")
        if same != former or policies[0] != policies[1] or any(one is not None for one in filters):
            raise _Refused([table], "the job's settings make another table of it under its next name")
        if there.target.schema != state.target.schema:
            raise _Refused([table], f"{there.target} is in another schema at the target")
        if (asked := state.facts.asked) is None:
            moved = rename(state, schema, there.target)
        else:
            moved = rename_behind(state, schema, there.target, asked)
        if there.target == state.target:
            return Going(None, moved)
        if found := shared(states, self._others(), state):
            raise _Refused([table], found)
        if taken := sorted(t for t, s in states.items() if s.target == there.target):
            raise _Refused([table], f"{there.target} is the target of {taken[0]} already")
        names = IndexChanges(renamed=tuple((index.name, index.name) for index in schema.indexes if is_followed(index)))
        altered = AlteredTable(state.schema or schema, former, schema, there, (), names)
        return Going(DroppedTable(former, there.target, goes_on=True, altered=altered), moved)

    def _others(self) -> Collection[TableId]:
        return self.progress.store.states.others(self.progress.job)

    def _stopped(self, barrier: Barrier, line: str) -> StoppedByChange:
        return StoppedByChange(
            f"it was {_what(barrier)} at the source, and the job file has {line}: {barrier.statement}",
            job=self.progress.job,
            table=str(barrier.table),
            hint='write another value there, "park" for example, and start the job again: it goes on from here',
        )

    def _let_go(self, tables: Iterable[TableId]) -> None:
        """Wait for keys that are being built. Raises TargetBusy where that takes long."""
        until = time.monotonic() + BUILDING_SECONDS
        for table in tables:
            while not self.lets_go(table):
                if time.monotonic() > until:
                    raise TargetBusy(f"keys of {table} are being built", table=str(table), hint="tried again by itself")
                time.sleep(PAUSE)

    def _groups(self, going: Mapping[TableId, Going]) -> Iterator[list[DroppedTable]]:
        """Yield the tables that go, those together that foreign keys connect: children before their parents."""
        schemas = {table: schema for table in going if (schema := self.progress.states[table].schema)}
        left = [table for table in sorted(going) if going[table].change is not None]
        while left:
            together = component([left[0]], schemas)
            group = _children_first([table for table in left if table in together], schemas)
            left = [table for table in left if table not in together]
            yield [one for table in group if (one := going[table].change) is not None]

    # --- doing it -----------------------------------------------------------------------------------------------------------

    def _drop_apart(self, sequence: int, group: Sequence[DroppedTable]) -> None:
        """Drop tables before the epoch, where the target cannot inside it. Raises _Refused."""
        writer, progress = self.writer, self.progress
        if not isinstance(writer, DropsTables) or not writer.drops_apart:
            return
        states = [progress.states[one.table.source] for one in group]
        try:
            if new := [state for state in states if state.facts.altering != sequence]:
                writer.refuse_dropping(group)
                begun = (begin_altering if state.is_streaming else begin_altering_behind for state in new)
                progress.save(*[begin(state, sequence) for begin, state in zip(begun, new, strict=True)])
                reach("apply.dropping")
            writer.drop_tables(progress.checkpoint, group)
        except (TargetUnavailable, Fenced):
            raise
        except (Conflict, TargetError) as refusal:
            raise _Refused([one.table.source for one in group], _why(refusal)) from refusal
        reach("apply.dropped.apart")

    def _commit(
        self,
        sequence: int,
        where: Where,
        barriers: Mapping[TableId, Barrier],
        going: Mapping[TableId, Going],
        refused: Mapping[TableId, str],
        unknown: Iterable[Barrier],
    ) -> None:
        """Carry out the epoch. `unknown`: renamed ones that are not here. Raises _Refused, with the epoch open."""
        progress, writer = self.progress, self.writer
        then = progress.then(Position.parse(where.position), where.commit_time)
        groups = list(self._groups(going))
        progress.begin(then)
        work = progress.work()
        for group in groups:
            self._drop_within(group)
        for table, one in going.items():
            assert isinstance(writer, DropsTables)
            writer.forget_dropped(progress.job, table)
            state = work.states.pop(table)
            if one.state is not None:
                work.states[one.state.source] = one.state
            work.decided.append(self._decided(sequence, barriers[table], state, one))
        work.leave(going)
        work.park([one for table, why in refused.items() for one in self._parked(sequence, barriers[table], why)])
        work.park([one for barrier in unknown for one in self._comes(sequence, barrier, NOT_HERE)])
        for table in refused:
            left = work.states.get(table)
            if left is not None and left.is_parked:
                work.states[table] = give_up_place(left)  # no part of the trail brings it back
        reach("apply.dropped")
        progress.commit(then, work)

    def _drop_within(self, group: Sequence[DroppedTable]) -> None:
        """Drop tables in the open epoch, where the target can. Raises _Refused."""
        writer = self.writer
        if not isinstance(writer, DropsTables) or writer.drops_apart:
            return
        try:
            writer.drop_tables(self.progress.checkpoint, group)
        except (TargetUnavailable, Fenced):
            raise
        except (Conflict, TargetError) as refusal:
            raise _Refused([one.table.source for one in group], _why(refusal)) from refusal

    # --- what is noted of it --------------------------------------------------------------------------------------------------

    def _decided(self, sequence: int, barrier: Barrier, state: TableState, one: Going) -> Decided:
        outcome, why = Outcome.DROPPED, ""
        if one.state is not None:
            outcome, why = (
                Outcome.RENAMED,
                f"{state.source} is {one.state.source} now, {one.state.target} at the target",
            )
        elif one.change is None:
            outcome, why = Outcome.KEPT, f"{state.target} stays as it is, and is not replicated any more"
        elif one.change.kept is not None:
            outcome, why = Outcome.KEPT, f"{state.target} is called {one.change.kept} now"
        log.get(job=self.progress.job, table=str(state.source)).info(
            "table_gone", outcome=outcome, why=why, statement=barrier.statement
        )
        rule = self._rule(barrier)
        return Decided(one.state or replace(state, schema=None), sequence, barrier.statement, outcome, why, rule)

    @property
    def _remedy(self) -> str:
        return NO_MORE_CHANGES if appending(self.writer) else REMEDY

    def _parked(self, sequence: int, barrier: Barrier, why: str) -> Iterator[Parked]:
        rule, what = self._rule(barrier), f", it is {barrier.untold.moved} now" if barrier.untold.moved else ""
        reason = f"{DROPPED}{what}, and not at the target: {why}; {self._remedy}"
        log.get(job=self.progress.job, table=str(barrier.table)).warning("table_parked", reason=reason)
        yield Parked(barrier.table, sequence, reason, barrier.statement, rule)
        if what:
            yield from self._comes(sequence, barrier, why)

    def _comes(self, sequence: int, barrier: Barrier, why: str) -> Iterator[Parked]:
        """Park the next name of a table that is renamed, where the target has none of it."""
        rule = self._rule(barrier)
        if (to := TableId.parse(barrier.untold.moved)) not in self.progress.states:
            remedy = ANEW if appending(self.writer) else LOAD.format(table=to.typed)
            comes = f"{barrier.table} was renamed to it at the source, and not at the target: {why}; {remedy}"
            yield Parked(to, sequence, comes, barrier.statement, rule)

    def _rule(self, barrier: Barrier) -> DdlRule:
        actions, kind = self.progress.settings.actions(barrier.table), ColumnChange.RENAME_TABLE
        if not barrier.untold.moved:
            return rule_of(barrier.schema, self.progress.trail.history, self.progress.settings.actions)
        return DdlRule(f"{actions.said.get(kind, DDL)} {kind}", actions.of(kind))


def tied(states: Mapping[TableId, TableState], table: TableId, action: str) -> str:
    """Say which foreign keys do not let a dropped table stay at the target, or wait, "" for none. With its keys to tables that
    go on it would refuse their changes, or lose rows by them."""
    schemas = {t: state.schema for t, state in states.items() if state.schema}
    if action == APPLY or table not in schemas:
        return ""
    parents = {key.parent for key in schemas[table].foreign_keys if key.parent in states} - {table}
    others = component([table], schemas) - {table} if action == ASK else parents
    return f"foreign keys connect it with {', '.join(map(str, sorted(others)))}" if others else ""


def shared(states: Mapping[TableId, TableState], others: Collection[TableId], state: TableState) -> str:
    """Say what else goes into the target's table, "" for nothing. `others`: the target tables of other jobs."""
    if found := sorted(t for t, s in states.items() if s.target == state.target and t != state.source):
        return f"{found[0]} goes into the same table there"
    return "another job replicates into the same table there" if state.target in others else ""


def not_ours_alone(
    tables: Tables, states: Mapping[TableId, TableState], others: Collection[TableId], state: TableState
) -> str:
    """Say why rows that others have written may be in the target's table, "" where they may not."""
    schema = state.schema
    assert schema is not None
    try:
        target, where, policy = tables.target_table(schema).target, tables.where(schema), tables.on_conflict(schema)
    except ConfigError as error:
        return error.message
    if target != state.target:
        return f"the job's rules call it {target} by now"
    if found := shared(states, others, state):
        return found
    if state.facts.kept:
        return "the target's table had rows before its load, which were kept"
    if where is not None:
        return "the job replicates some of its rows alone, and the target's table may have others"
    return "" if policy == STRICT else "others write to the target's table as well, as on_conflict says"


def kept_suffix(commit_time: int) -> str:
    """Return what is put behind the name of a table that is kept; `commit_time`: of the statement, microseconds since 1970."""
    return datetime.fromtimestamp(commit_time / 1e6, UTC).strftime(SUFFIX)


def _what(barrier: Barrier) -> str:
    return "renamed" if barrier.untold.moved else "dropped"


def _leave_out(going: dict[TableId, Going], refused: dict[TableId, str], refusal: _Refused) -> None:
    for table in refusal.tables:
        going.pop(table, None)
        refused[table] = refusal.why


def _children_first(tables: Sequence[TableId], schemas: Mapping[TableId, TableSchema]) -> list[TableId]:
    """Return tables in an order in which each comes before those that its foreign keys refer to, as far as there is one."""
    left, found = list(tables), list[TableId]()
    while left:
        parents = {t: {k.parent for k in schemas[t].foreign_keys} - {t} if t in schemas else set() for t in left}
        free = [t for t in left if not any(t in parents[other] for other in left if other != t)]
        found += free or left
        left = [t for t in left if t not in found]
    return found


def _why(refusal: Conflict | TargetError) -> str:
    return refusal.what if isinstance(refusal, Conflict) else refusal.message
