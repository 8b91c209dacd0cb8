"""Tables whose definition changes on the way: the target's table is altered just where the source's was, between rows of the
former definition and those of the next one.

A target that can does it inside the epoch of that transaction, with the checkpoint. Where such a statement commits by itself
(K17) it comes before the epoch, and is noted with the table's state first: a process that dies in between finds by that note,
and by what is there, how far it came. A table that cannot be altered is parked there, with what foreign keys connect it with.

What does not live here: which statements let a table go on (capture), how a target alters a table (its Writer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch import log
from anabranch.apply.abilities import StateWriter, appending
from anabranch.apply.asking import Asking, NotAltered, schemas_of
from anabranch.apply.built_keys import keys_that_come, why_not_together
from anabranch.apply.column_steps import Fits, NotFollowed, Stops, altered_table, asks, refuse_aside
from anabranch.apply.creating import Creating
from anabranch.apply.decided import AS_IT_IS, Decided, passed, rule_of
from anabranch.apply.feed import altering_at
from anabranch.apply.pair_altering import agreed
from anabranch.apply.progress import Progress
from anabranch.apply.stage import Parked
from anabranch.apply.still_followed import is_apart, still_followed
from anabranch.apply.tables import Tables
from anabranch.contracts import AltersTables, Conflict
from anabranch.errors import (
    AnabranchError,
    ConfigError,
    Fenced,
    SchemaError,
    StoppedByChange,
    TargetError,
    TargetUnavailable,
)
from anabranch.failpoints import reach
from anabranch.model.check_changes import as_at_source, check_changes, redefined_unseen
from anabranch.model.column_changes import (
    APPLY,
    IGNORE,
    IGNORED,
    KEEP,
    OF_INDEXES,
    PARK,
    REPLACE,
    ColumnChange,
    TableActions,
    leaving_out,
)
from anabranch.model.comment_changes import comment_changes
from anabranch.model.datatype import Fidelity, Fit
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.model.foreign_key_changes import with_former_keys
from anabranch.model.ids import TableId
from anabranch.model.index_changes import index_changes
from anabranch.model.load_groups import with_linked
from anabranch.model.parked_reasons import ANEW
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema, component
from anabranch.model.table_life import (
    TableState,
    alter,
    begin_altering,
    begin_altering_behind,
    catch_up,
    create,
    give_up_place,
    heard_of,
    park,
)
from anabranch.rows.altered import AlteredTable
from anabranch.rows.chunk import Barrier

REMEDY = "anabranch load JOB --table {table} --recreate brings it in"
OF_ROWS = (
    "anabranch load JOB --table {table} --recreate --keep-rows lets it go on from here, once the target can be altered"
)
CREATED = "created at the source"
ALTERED = "its columns were altered at the source"
WENT = "rows went with a partition at the source"
KEPT_ROWS = f"{AS_IT_IS}: {WENT}, and are kept here"
NOT_KNOWN = Fit("", Fidelity.REFUSED, "nobody has said how it is stored")
LEFT_OUT = "the job leaves out what the statement changes"
REDEFINED = "{line}, and the target's check {name}, which is another one at the source by now, may refuse rows"
BUILT_AT_SOURCE = f"{AS_IT_IS}: built or taken off by a job that writes to the source"
BUILT_BEHIND = "built while rows go on"  # an index is not waited for


@dataclass
class Altering:
    """Carries out the transactions of the trail that alter tables, each in an epoch of its own."""

    progress: Progress
    writer: StateWriter
    tables: Tables
    fits: Fits = lambda type: NOT_KNOWN  # how the target stores a type
    settled: Callable[[TableId, bool], object] = lambda table, waits: (
        None
    )  # waits for keys of a table that are being built
    creating: Creating | None = None  # None: tables that the source makes are parked

    @property
    def _remedy(self) -> str:
        return ANEW if appending(self.writer) else REMEDY

    @property
    def _keeps_rows(self) -> bool:
        """Return whether a table that is parked in front of a change may go on from there with its rows."""
        return not (appending(self.writer) or self.progress.settings.in_pair)

    @property
    def _asking(self) -> Asking:
        return Asking(self.progress, self._rule)

    def carry_out(self, sequence: int) -> None:
        """Alter the followed tables that this transaction alters, or park them. Raises TargetUnavailable, Fenced."""
        every = list(self._every(sequence))
        barriers = {barrier.table: barrier for barrier in self._followed(every)}
        found: dict[TableId, AlteredTable] = {}
        left: dict[TableId, Sequence[str]] = {}  # what the target has not made of indexes
        refused: dict[TableId, str] = {}
        created = [self._created(barrier, sequence) for barrier in every if self._is_new(barrier)]
        for table, barrier in barriers.items():
            try:
                state, actions = self.progress.states[table], self.progress.settings.actions(table)
                altered = self._altered(barrier, state, actions)
                if line := asks(altered, actions):
                    if len(barriers) > 1 or created:
                        raise NotAltered(table, f"{line}, and the same transaction alters or makes other tables")
                    self._asking.ask(sequence, every, barrier, line)
                    return
                found[table] = altered
                self.settled(table, not altered.stands_aside)
                left[table] = self._alter_apart(sequence, found[table])
            except NotAltered as refusal:
                refused[table] = refusal.why
                found.pop(table, None)
        while True:
            try:
                states, followed = self.progress.states, self.progress.context.tables
                decided = [*self._decided(sequence, barriers, found, left)]
                decided += passed(sequence, every, states, followed, self._rule)
                parked = [*self._parked(sequence, barriers, refused), *(p for p in created if isinstance(p, Parked))]
                decided += [one for one in created if isinstance(one, Decided)]
                self._commit(sequence, found, parked, decided)
                break
            except NotAltered as refusal:
                self.writer.rollback()
                refused[refusal.table] = refusal.why
                del found[refusal.table]
        for table, one in found.items():
            self._tell(one, barriers[table])
        if refused or created or self.progress.settings.ddl_from or not all(map(self._keeps_up_with, found.values())):
            self._look_anew()

    def carry_out_behind(self, sequence: int, group: Sequence[TableState]) -> list[TableState]:
        """Alter the tables of a group that resumes and has come to this transaction, which the job has passed before. Returns
        their states; parked ones where they wait for a decision, or cannot be altered. Raises TargetUnavailable, Fenced."""
        progress, states = self.progress, {state.source: state for state in group}
        self.writer.rollback()  # of an attempt that an end broke off which went away
        barriers = [one for one in self._every(sequence) if one.table in states and _is_ahead(one, states[one.table])]
        for barrier in barriers:
            state = states[barrier.table]
            decided = state.facts.decision(sequence)
            actions = progress.settings.actions(barrier.table)
            if decided:
                actions = actions.answered(decided[0])
            try:
                altered = self._altered(barrier, state, actions)
                if line := asks(altered, actions):
                    return self._asking.ask_behind(sequence, barrier, states, line)
                if decided and decided[0] == REPLACE:  # a person has done it
                    altered = replace(altered.of_steps_alone(), steps=())
                self.settled(barrier.table, not altered.stands_aside)
                left = self._alter_apart(sequence, altered)
                upto = sequence if barrier is barriers[-1] else sequence - 1  # others are altered there, too
                states = self._commit_behind(sequence, altered, barrier, states, decided, upto, left)
            except NotAltered as refusal:
                progress.back_out()
                progress.learn(states.values())
                if decided:
                    return self._asking.ask_behind(
                        sequence, barrier, states, f"{decided[0]} is not possible: {refusal.why}"
                    )
                return self._park_behind(sequence, barrier, states, refusal.why)
            self._tell(altered, barrier)
        self._look_anew()
        progress.learn(states.values())
        return list(states.values())

    def _tell(self, one: AlteredTable, barrier: Barrier) -> None:
        told = {
            "version": one.schema.version,
            "steps": [*map(str, one.steps), *filter(None, map(str, (one.indexes, one.comments, one.checks, one.keys)))],
            "statement": barrier.statement,
        }
        log.get(job=self.progress.job, table=str(barrier.table)).info("table_altered", **told)

    def _keeps_up_with(self, altered: AlteredTable) -> bool:
        """Return whether epochs may go on with what is known here, without asking the target for all of it again."""
        writer = self.writer
        is_followed = self.progress.context.tables[altered.table.source].table is altered.table
        acts_alike = altered.former.foreign_keys == altered.schema.foreign_keys
        return is_followed and acts_alike and (not isinstance(writer, AltersTables) or writer.keeps_up_with(altered))

    def _look_anew(self) -> None:
        self.writer.close()  # and with it all that it knows of the tables as they were
        self.progress.ask_again()
        self.progress.look()

    def _is_new(self, barrier: Barrier) -> bool:
        return barrier.untold.created and barrier.table not in self.progress.states

    def _created(self, barrier: Barrier, sequence: int) -> Decided | Parked:
        """Make a table at the target that the source has made, before the epoch: made again, it is there. Returns what is noted
        of it, or why it is parked. Raises TargetUnavailable."""
        schema, table = barrier.schema, barrier.table
        assert schema is not None
        rule = self._rule(schema)
        try:
            actions = self.progress.settings.actions(table)
            if actions.of(ColumnChange.CREATE) == PARK or self.creating is None:
                raise NotFollowed(actions.line(ColumnChange.CREATE))
            target = self.tables.target_table(schema)
            self.tables.where(schema)
            self.tables.on_conflict(schema)
            if taken := [state.source for state in self.progress.states.values() if state.target == target.target]:
                raise NotFollowed(f"{target.target} is the target of {taken[0]} already")
            self.creating.create(schema, target)
        except TargetUnavailable:
            raise
        except (NotFollowed, ConfigError, SchemaError, TargetError) as error:
            why = error.message if isinstance(error, AnabranchError) else str(error)
            reason = f"{CREATED}, and not at the target: {why}; {self._remedy.format(table=table.typed)}"
            log.get(job=self.progress.job, table=str(table)).warning("table_parked", reason=reason)
            return Parked(table, sequence, reason, barrier.statement, rule)
        reach("apply.created")
        log.get(job=self.progress.job, table=str(table)).info("table_created", statement=barrier.statement)
        return Decided(create(None, schema, target.target), sequence, barrier.statement, Outcome.CREATED, "", rule)

    def park_left_behind(self) -> None:
        """Park the followed tables that the source altered before the place where this target is, and that were not altered
        here: they were loaded meanwhile, or a person left that transaction out."""
        progress = self.progress
        at, history = progress.checkpoint.position.sequence, progress.trail.history
        self._park_left_out([e.schema for e in history.created_until(at) if e.schema])
        versions = {
            t: s.schema.version for t, s in progress.states.items() if t in progress.context.tables and s.schema
        }
        found = [table for table, version in versions.items() if history.altered_since(table, version, at)]
        if found:
            schemas = schemas_of(self.progress)
            together = sorted(component(found, schemas))
            left = [park(progress.states[t], left_behind(t, self._remedy)) for t in together]
            progress.park(*left, decided=[one for t in found for one in self._left_behind(t, versions[t])])
            for table in together:
                log.get(job=progress.job, table=str(table)).warning(
                    "table_parked", reason=left_behind(table, self._remedy)
                )

    def _park_left_out(self, created: Sequence[TableSchema]) -> None:
        """Park tables that the source made before the place where this target is, and that are not here."""
        progress, history = self.progress, self.progress.trail.history
        waited_for = set(self._names_waited_for())
        left = [
            park(heard_of(one.id, target), left_out(one.id, self._remedy))
            for one in created
            if one.id not in progress.states and one.id not in history.parked() and one.id not in waited_for
            if (target := self.tables.target_of(one.id)) is not None
        ]
        if left:
            progress.park(*left)

    def _names_waited_for(self) -> Iterator[TableId]:
        """Yield the next names of tables that wait in front of being renamed."""
        asked = {one for state in self.progress.states.values() if (one := state.facts.asked) is not None}
        for sequence in asked:
            yield from (TableId.parse(one.untold.moved) for one in self._every(sequence) if one.untold.moved)

    # --- what has to be done ------------------------------------------------------------------------------------------------

    def _every(self, sequence: int) -> Iterator[Barrier]:
        return altering_at(self.progress.trail, sequence)

    def _followed(self, barriers: Iterable[Barrier]) -> Iterator[Barrier]:
        """Yield those of a followed table. A table that was loaded behind it has the columns."""
        states, tables = self.progress.states, self.progress.context.tables
        for barrier in barriers:
            if barrier.table in tables and _is_ahead(barrier, states[barrier.table]):
                yield barrier

    def _altered(self, barrier: Barrier, state: TableState, actions: TableActions) -> AlteredTable:
        """Return the table with the steps that the target's needs. Raises NotAltered, StoppedByChange."""
        table, schema = barrier.table, barrier.schema
        assert schema is not None and state.schema is not None
        schema = leaving_out(state.schema, schema, barrier.untold, actions)
        if actions.of(ColumnChange.FOREIGN_KEYS) == IGNORE and not barrier.untold.built:
            schema = with_former_keys(state.schema, schema)
        not_yet = "" if state.is_streaming or state.is_resuming else "its load was not through"
        not_yet = "its rows were being read again" if not_yet and state.is_in_window_again else not_yet
        try:
            target = self.tables.target_table(schema)
            self.tables.where(schema)
            self.tables.on_conflict(schema)
            followed = self.progress.context.tables.get(table)
            former = state.schema, followed.table if followed else self.tables.target_table(state.schema)
        except ConfigError as error:
            raise NotAltered(table, not_yet or error.message) from error
        try:
            altered = altered_table(former, (schema, target), barrier.untold, actions, self.fits)
            refuse_aside(altered, state.facts.set_aside)
            if self.progress.settings.ddl_from and not not_yet:
                altered = agreed(self.writer, altered, actions, self.progress.settings, self.progress.job)
        except Stops as line:
            raise self._stopped(barrier, str(line)) from None
        except NotFollowed as why:
            raise NotAltered(table, not_yet or str(why)) from None
        except Conflict as why:  # of a column that cannot be made
            raise NotAltered(table, why.what) from None
        if not_yet := not_yet or self._why_not_together(altered, state):
            raise NotAltered(table, not_yet)
        if isinstance(self.writer, AltersTables):
            keeps_checks = not (barrier.untold.swapped or appending(self.writer))
            if keeps_checks and (name := redefined_unseen(altered.former, altered.schema)):
                raise NotAltered(table, REDEFINED.format(name=name, line=actions.line(ColumnChange.CHECKS)))
            return altered
        if altered.steps:
            raise NotAltered(table, "this target's tables are not altered")
        return altered.of_steps_alone()

    def _why_not_together(self, altered: AlteredTable, state: TableState) -> str:
        """Return why the table cannot go on behind foreign keys that come. One that resumes does so without the others."""
        if not keys_that_come(altered):
            return ""
        progress = self.progress
        states = progress.states if state.is_streaming else {state.source: state}
        return why_not_together(altered, states, progress.context, progress.settings.logs_cascades)

    def _park_behind(
        self, sequence: int, barrier: Barrier, states: Mapping[TableId, TableState], why: str
    ) -> list[TableState]:
        """Park tables that resume in front of the change: the trail is held for them no more."""
        reason = f"{_refused(barrier, why)}; {self._remedy.format(table=barrier.table.typed)} (at {sequence})"
        keeps = self._keeps_rows
        parked = {
            t: park(give_up_place(s), reason, stood=s.facts.resumes if keeps else None) for t, s in states.items()
        }
        decided = Decided(
            parked[barrier.table], sequence, barrier.statement, Outcome.PARKED, why, self._rule(barrier.schema)
        )
        self.progress.park(*parked.values(), decided=[decided])
        for table in parked:
            log.get(job=self.progress.job, table=str(table)).warning("table_parked", reason=reason)
        return list(parked.values())

    def _commit_behind(
        self,
        sequence: int,
        altered: AlteredTable,
        barrier: Barrier,
        states: Mapping[TableId, TableState],
        decided: Sequence[str],
        upto: int,
        left: Sequence[str],
    ) -> dict[TableId, TableState]:
        """Carry out an epoch that alters a table which resumes, and moves on nothing else; its group has come up to `upto`
        then. Raises NotAltered."""
        progress, table = self.progress, barrier.table
        then = progress.here()
        progress.begin(then)
        left = [*left, *self._alter_within(altered)]
        work = progress.work()
        after = {t: catch_up(s, upto) for t, s in states.items() if t != table}
        after[table] = catch_up(
            states[table], upto, altered.schema, altered.indexes, altered.passed, altered.checks, altered.keys
        )
        work.states |= after
        why = told(decided)
        if not decided or decided[0] != REPLACE:
            why = ", ".join(filter(None, (outcome_of(altered, barrier, left), why)))
        is_done = not barrier.untold.rows_went or (decided and decided[0] == REPLACE)
        outcome = Outcome.ALTERED if is_done else Outcome.IGNORED
        work.decided.append(
            Decided(after[table], sequence, barrier.statement, outcome, why, self._rule(barrier.schema))
        )
        reach("apply.altered.behind")
        progress.commit(then, work)
        return after

    def _stopped(self, barrier: Barrier, line: str) -> StoppedByChange:
        statement, went = f": {barrier.statement}" if barrier.statement else "", barrier.untold.rows_went
        return StoppedByChange(
            f"{WENT if went else 'its definition was altered at the source'}, and the job file has {line}{statement}",
            job=self.progress.job,
            table=str(barrier.table),
            hint=f'write "{KEEP if went else APPLY}" or another value there and start the job again: it goes on from here',
        )

    def _parked(
        self, sequence: int, barriers: Mapping[TableId, Barrier], refused: Mapping[TableId, str]
    ) -> list[Parked]:
        found = []
        together = sorted(component(refused, schemas_of(self.progress))) if refused else []
        is_through = all(self.progress.states[table].is_streaming for table in together)
        stood = sequence - 1 if is_through and self._keeps_rows else None
        for table in together:
            if table in refused:
                why = _refused(barriers[table], refused[table])
            else:
                why = f"{ALTERED}: {', '.join(map(str, refused))}, which foreign keys connect with this table"
            statement = next(barriers[one].statement for one in (table, *refused) if one in barriers)
            rule = next(self._rule(barriers[one].schema) for one in (table, *refused) if one in barriers)
            named = with_linked(table, schemas_of(self.progress), self.progress.settings.logs_cascades)
            remedies = [self._remedy.format(table=named)]
            if stood is not None:  # this command takes one table, and those parked with it go on with it
                remedies.append(OF_ROWS.format(table=table.typed))
            found.append(Parked(table, sequence, "; ".join([why, *remedies]), statement, rule, stood))
            log.get(job=self.progress.job, table=str(table)).warning("table_parked", reason=found[-1].reason)
        return found

    # --- what is noted of it --------------------------------------------------------------------------------------------------

    def _decided(
        self,
        sequence: int,
        barriers: Mapping[TableId, Barrier],
        altered: Mapping[TableId, AlteredTable],
        left: Mapping[TableId, Sequence[str]],
    ) -> Iterator[Decided]:
        for table, one in altered.items():
            state = alter(self.progress.states[table], one.schema, one.indexes, one.passed, one.checks, one.keys)
            barrier, why = barriers[table], outcome_of(one, barriers[table], left[table])
            is_built = barrier.untold.built
            rule = DdlRule("", IGNORE) if is_built else self._rule(one.schema)
            outcome = Outcome.IGNORED if is_built or barrier.untold.rows_went else Outcome.ALTERED
            yield Decided(state, sequence, barrier.statement, outcome, why, rule)

    def _left_behind(self, table: TableId, version: int) -> Iterator[Decided]:
        progress, why = self.progress, left_behind(table, self._remedy)
        for entry in progress.trail.history.alterations(table, version, progress.checkpoint.position.sequence):
            rule = self._rule(entry.schema)
            yield Decided(progress.states[table], entry.sequence, entry.statement, Outcome.PARKED, why, rule)

    def _rule(self, schema: TableSchema | None) -> DdlRule:
        return rule_of(schema, self.progress.trail.history, self.progress.settings.actions)

    # --- doing it -----------------------------------------------------------------------------------------------------------

    def _alter_apart(self, sequence: int, altered: AlteredTable) -> Sequence[str]:
        """Alter the table before the epoch, where the target cannot inside it. Returns what of its indexes was not done. Raises
        NotAltered."""
        writer, progress, table = self.writer, self.progress, altered.table.source
        if altered.is_all_behind or not isinstance(writer, AltersTables) or not writer.alters_apart:
            return ()
        try:
            if progress.states[table].facts.altering != sequence:
                writer.refuse_standing(altered)
                state = progress.states[table]
                begin = begin_altering if state.is_streaming else begin_altering_behind
                progress.save(begin(state, sequence))
                reach("apply.altering")
            left = writer.alter(progress.checkpoint, altered)
        except (TargetUnavailable, Fenced):
            raise
        except (Conflict, TargetError) as refusal:
            raise NotAltered(table, _why(refusal)) from refusal
        reach("apply.altered.apart")
        return left

    def _alter_within(self, altered: AlteredTable) -> Sequence[str]:
        """Alter the table in the open epoch, where the target can. Returns what of its indexes was not done. Raises
        NotAltered."""
        writer = self.writer
        if altered.is_all_behind or not isinstance(writer, AltersTables) or writer.alters_apart:
            return ()
        try:
            return writer.alter(self.progress.checkpoint, altered)
        except (TargetUnavailable, Fenced):
            raise
        except (Conflict, TargetError) as refusal:
            raise NotAltered(altered.table.source, _why(refusal)) from refusal

    def _commit(
        self,
        sequence: int,
        altered: Mapping[TableId, AlteredTable],
        parked: Iterable[Parked],
        decided: Sequence[Decided],
    ) -> None:
        """Carry out the transaction's epoch. Raises NotAltered, with the epoch open."""
        progress = self.progress
        where = progress.where(sequence)
        then = progress.then(Position.parse(where.position), where.commit_time)
        progress.begin(then)
        work = progress.work()
        notes = {one.state.source: one for one in decided}
        for table, one in altered.items():
            if left := self._alter_within(one):
                notes[table] = replace(notes[table], why="; ".join(filter(None, (notes[table].why, *left))))
            work.states[table] = alter(work.states[table], one.schema, one.indexes, one.passed, one.checks, one.keys)
            if is_apart(table, work.context):
                rows, policy = self.tables.where(one.schema), self.tables.on_conflict(one.schema)
                work.follow(still_followed(work.followed(table), one, rows, policy))
        work.states |= {one.state.source: one.state for one in decided if one.outcome is Outcome.CREATED}
        work.park(list(parked))
        work.decided += notes.values()
        reach("apply.altered")
        progress.commit(then, work)


def _is_ahead(barrier: Barrier, state: TableState) -> bool:
    """Return whether the table has not come by this definition yet. One that was loaded behind it has the columns."""
    return bool(barrier.schema and state.schema and state.schema.version < barrier.schema.version)


def _refused(barrier: Barrier, why: str) -> str:
    """Return the reason of a table that cannot go on behind the change."""
    return f"{WENT}: {why}" if barrier.untold.rows_went else f"{ALTERED}, and the target's cannot be: {why}"


def outcome_of(altered: AlteredTable, barrier: Barrier, left: Sequence[str]) -> str:
    """Return what is to be said of a table that goes on by its next definition; `left`: what was not done."""
    if barrier.untold.built:
        return BUILT_AT_SOURCE
    if barrier.untold.rows_went:
        return KEPT_ROWS
    missing = list(left_beside(altered, dict(barrier.untold.renamed)))
    missing += [f"{IGNORED}: {', '.join(altered.ignored)}"] if altered.ignored else []
    missing += [f"{AS_IT_IS}: {barrier.reason}"] if barrier.reason else []
    said = [] if not altered.does_nothing or barrier.untold.swapped or missing else [LEFT_OUT]
    if added := altered.indexes.added + altered.checks.added + altered.keys.added:
        said.append(f"{BUILT_BEHIND}: {', '.join(added)}")
    return "; ".join([*said, *missing, *left])


def left_beside(altered: AlteredTable, renamed: Mapping[str, str]) -> Iterator[str]:
    """Yield what the target is left without because the job file does not follow it. An index that a column takes along is not
    worth a word."""
    columns = {name for column in altered.schema.columns for name in (column.name, *_former(column.name, renamed))}
    for kind, unique in OF_INDEXES.items():
        if kind in altered.beside:
            continue
        found = index_changes(altered.former, altered.schema, renamed, unique)
        whole = {index.name for index in altered.former.indexes if columns.issuperset(index.columns)}
        if found := replace(found, dropped=tuple(name for name in found.dropped if name in whole)):
            yield f'{kind} = "{IGNORE}": {found}'
    comments = comment_changes(altered.former, altered.schema, renamed).of(altered.table.source_columns)
    if comments and ColumnChange.COMMENTS not in altered.beside:
        yield f'{ColumnChange.COMMENTS} = "{IGNORE}": {comments}'
    checks = check_changes(altered.former, as_at_source(altered.schema))
    if checks and ColumnChange.CHECKS not in altered.beside:
        yield f'{ColumnChange.CHECKS} = "{IGNORE}": {checks}'


def _former(name: str, renamed: Mapping[str, str]) -> Iterator[str]:
    return (former for former, to in renamed.items() if to == name)


def told(decided: Sequence[str]) -> str:
    """Return who has decided what, for people, with the statements that were run instead; "" where nobody has."""
    if not decided:
        return ""
    what, by, *statements = decided
    return "; ".join([f"{what}, decided by {by}", *statements])


def left_behind(table: TableId, remedy: str = REMEDY) -> str:
    """Return the reason of a table that is followed by a definition which the source has left behind."""
    return f"{ALTERED}, and the target's were not; {remedy.format(table=table.typed)}"


def _why(refusal: Conflict | TargetError) -> str:
    return refusal.what if isinstance(refusal, Conflict) else refusal.message


def left_out(table: TableId, remedy: str = REMEDY) -> str:
    """Return the reason of a table that the source made before the place where this target is, and that is not here."""
    return f"{CREATED}, and not at the target; {remedy.format(table=table.typed)}"
