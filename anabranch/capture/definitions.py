"""Changes of the definitions in force: statements in the log and requests of users let tables go on, truncate, park or
join.

A table that is parked takes its foreign-key component with it: half of it would not be consistent.
What does not live here: tables that are asked for, until they can join (`requested.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from anabranch import log
from anabranch.capture import altered, built, created, dropped
from anabranch.capture.begin import SourceDefinitions, Wanted, read_definitions
from anabranch.capture.beside import (
    about_beside,
    check_that_goes,
    foreign_key_that_goes,
    key_that_goes,
    kinds_of,
    without_keys,
)
from anabranch.capture.copies import Copies, tell_keys
from anabranch.capture.kept_catalog import KeptCatalog
from anabranch.capture.older import PATIENCE
from anabranch.capture.requested import Requested
from anabranch.capture.unlogged import REASON
from anabranch.contracts import BuiltDialect, SourceConnector
from anabranch.errors import LogLost, SourceError, SourceUnavailable, UnknownLogEvent
from anabranch.model.column_changes import (
    BESIDE_COLUMNS,
    FOLLOWS_NOTHING,
    Altered,
    ColumnChange,
    Follows,
    Untold,
)
from anabranch.model.ghost_names import GhostNames
from anabranch.model.ids import TableId
from anabranch.model.key_changes import acts, may_become
from anabranch.model.load_groups import with_linked
from anabranch.model.parked_reasons import ALTERED, ANEW, BEGUN_ANEW, CONNECTED, DROPPED, NO_MORE_CHANGES, tells_dropped
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema, component
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.rows.log_items import LogRedefined, LogStatement, StatementFacts, StatementKind
from anabranch.trail.writer import TrailWriter

VANISHES = frozenset({StatementKind.DROP, StatementKind.RENAME, StatementKind.PARTITION})
WARN_SECONDS = 60.0  # between two warnings of the same table
REMEDY = "anabranch load JOB --table {table} brings it in"
CREATED = "created after start"
SWAPPED = "swapped with a copy at the source, and not followed"
ITSELF = "its copy, or a table of the name that it was taken out to, is one that the job replicates itself"
ROWS_WENT = Untold(rows_went=True)
PART_WENT, BY_CATALOGUE = "a partition went", "catalogue"  # in place of a statement, where the log has none
NOT_FOLLOWED = (
    ", in a way that [ddl] does not follow: `anabranch ddl plan JOB STATEMENT` tells the word that would, if any"
)
ONLY_WENT = "and its rows went without the log"
CAME_OR_WENT = "and rows came or went with it without the log"
GONE = f"{DROPPED}, or renamed there: no table has this name any more"
BECAME = f"{DROPPED} as a table of its own: it is "
REMEDY_GONE = (
    "exclude it in the job file and run anabranch plan JOB, or load it when the source has a table of this name again"
)


class DefinitionKeeper:
    """Keeps the schema history true while the log goes by: barriers for the trail, answers to the reader's `select`."""

    def __init__(
        self,
        source: SourceConnector,
        trail: TrailWriter,
        wanted: Wanted,
        reselect: Callable[[], None],
        patience: float = PATIENCE,
        prepare: Callable[[Mapping[TableId, TableSchema]], object] = lambda tables: None,
        follows: Follows = FOLLOWS_NOTHING,
        ghosts: GhostNames | None = None,
        shares: Callable[[TableId, Iterable[TableId]], bool] = lambda table, others: False,
        tools: GhostNames | None = None,
        keeps_changes: bool = False,
        takes_over: bool = False,
    ) -> None:
        """Set up the keeper. `patience`: seconds that a table waits to join for prepared transactions to end.
        `prepare`: carries out at the source what these tables still need. `follows`: returns the kinds of changes behind
        which a table goes on, where all of it is certain. `ghosts`: how copies of tables are called that tools swap them with.
        `shares`: whether one of other tables goes into the same target table as this one. `tools`: as `ghosts`, also where
        swaps are not followed. `keeps_changes` (the target), `takes_over` (the job, its tables): no load brings one in.
        """
        self._remedy, self._remedy_gone = (ANEW, NO_MORE_CHANGES) if keeps_changes else (REMEDY, REMEDY_GONE)
        if takes_over:
            self._remedy = self._remedy_gone = BEGUN_ANEW
        self.shares, self.tools = shares, tools or GhostNames()
        self.kept = KeptCatalog(source)
        self.copies = Copies(self.kept, trail, ghosts or GhostNames(), follows)
        self.follows = follows
        self.requested = Requested(source, trail, patience, prepare)
        self.source, self.trail, self.wanted, self.reselect = source, trail, wanted, reselect
        self._warned: dict[TableId, float] = {}
        self.may_be_gone = False  # a statement dropped or renamed tables since somebody looked
        self._went: dict[TableId, str] = {}  # the last such statement of tables that are parked
        self._ahead: dict[TableId, built.Ahead] = {}  # what a catalogue had that the log may tell further on
        self.unsettled: dict[TableId, LogMark] = {}  # joined: definition read no later than this mark

    def select(self, table: TableId) -> TableSchema | None:
        """Return the definition in force, None for a table that is not replicated or parked. A wanted table that capture has
        never seen a definition of is parked when its first rows come by."""
        return self.trail.history.followed(table)

    # --- what the log says ---------------------------------------------------------------------------------------

    def on_chunk(self, chunk: Chunk) -> Chunk:
        """Take note of tables the reader parked, and park what hangs together with them."""
        extra: list[Barrier] = []
        for barrier in chunk.barriers:
            if barrier.kind is BarrierKind.PARK:
                extra += self._park([barrier.table], barrier.reason, barrier.statement, barrier.tx, barrier.ordinal)
        own = {barrier.table for barrier in chunk.barriers}
        return replace(chunk, barriers=chunk.barriers + tuple(b for b in extra if b.table not in own))

    def on_statement(self, statement: LogStatement) -> Chunk | None:
        """Return a chunk that carries what the statement does to replicated tables, None if nothing."""
        facts = self.source.dialect.facts(statement.sql, statement.schema)
        self.requested.forget(facts.tables)
        if facts.kind == StatementKind.HARMLESS:
            return None
        shown = replace(statement, sql=self.source.dialect.shown(statement.sql))
        barriers = self._swapped(facts, shown)
        if not barriers:
            self.copies.note(facts, statement)
            barriers = self._created(facts, statement, shown.sql) or self._goes_on(facts, statement, shown.sql)
            barriers = (
                barriers or self._dropped(facts, statement, shown.sql) or self._renamed(facts, statement, shown.sql)
            )
            barriers = barriers or self._parted(facts, shown) or self._indexed(facts, statement, shown.sql)
            if not barriers:
                own = self._built(facts, statement, shown.sql)
                barriers = self._barriers(facts, shown) if own is None else own
        if facts.kind in VANISHES or facts.schema:
            self._note_vanishing(facts, shown.sql)
        log.get().info("statement_seen", kind=facts.kind, statement=shown.sql, barriers=len(barriers))
        return alone(barriers, statement.mark, statement.gtid, statement.origin) if barriers else None

    def _note_vanishing(self, facts: StatementFacts, sql: str) -> None:
        """Note parked tables that the statement may have dropped or renamed; the source is asked later whether it did."""
        parked = self.trail.history.parked()
        tables = [table for table in parked if table in facts.tables or table.schema == facts.schema]
        self._went |= dict.fromkeys(tables, sql)
        self.may_be_gone |= bool(tables)

    def _swapped(self, facts: StatementFacts, statement: LogStatement) -> list[Barrier]:
        """Let a table go on that a tool swaps with a copy, or park it with the reason. Returns [] for any other statement."""
        swap = self.copies.swapped(facts)
        if swap is None:
            return []
        table, copy = swap
        in_force, others = self.trail.history.in_force(), set(facts.tables) - {table}
        if any(other in in_force or self.wanted(other) for other in others):
            found: Barrier | str = ITSELF
        elif table in self.unsettled and self._is_before(statement.mark, self.unsettled[table]):
            found = "its definition was read behind that"
        else:
            found = self.copies.come_in(table, copy, statement.sql)
        if isinstance(found, str):
            barriers = self._park([table], f"{SWAPPED}: {found}", statement.sql)
            self.copies.forget(copy, statement.mark.native)  # where it was one of another table
            return barriers + self._barriers(facts, statement)  # what it does to the others
        self.reselect()
        return [found]

    def _created(self, facts: StatementFacts, statement: LogStatement, shown: str) -> list[Barrier]:
        """Take in a table that the statement makes and the rules take. Returns [] for any other statement, for a table that was
        there before or that a tool works with, and where it is not certain what was made."""
        if facts.kind != StatementKind.CREATE or statement.is_inside:
            return []  # with rows in its transaction: CREATE TABLE … SELECT
        history, tools = self.trail.history, self.tools
        new = [t for t in facts.tables if self.wanted(t) and not history.knows(t) and t not in history.parked()]
        if not new or ColumnChange.CREATE not in self.follows(new[0]) or tools.pattern_of(new[0].name):
            return []
        if self.shares(new[0], {*history.in_force(), *history.parked()}):
            return []
        found = created.take_in(self.source, self.trail, new[0], statement, shown)
        if found is None:
            return []
        barrier, self.unsettled[new[0]] = found
        self.reselect()
        return [barrier]

    def _goes_on(self, facts: StatementFacts, statement: LogStatement, shown: str) -> list[Barrier]:
        """Let the table that a statement alters go on with its next definition. Returns [] where it has to be parked, or is
        none of ours. A table that has just joined may have been read behind the statement."""
        named = [table for table in facts.tables if table in self.trail.history.in_force()]
        if facts.kind != StatementKind.COLUMNS or len(named) != 1 or not (follows := self.follows(named[0])):
            return []
        return self._altered(named[0], statement, shown, follows | {ColumnChange.COMMENTS}) or []  # they park nothing

    def _indexed(self, facts: StatementFacts, statement: LogStatement, shown: str) -> list[Barrier]:
        """Let a table go on with the indexes, unique keys, checks and the comment that a statement gives, takes or renames,
        where the job file follows these, or park it where it is not certain which key or check goes. Returns [] for any other
        statement: the source sees to what indexes ask of rows. What later ones have made of this and of other tables
        shows at their places: a transaction that alters a table parks none."""
        named = [table for table in facts.tables if table in self.trail.history.in_force()]
        about = about_beside(facts)
        if len(named) != 1 or not about or not (follows := self.follows(named[0]) & about):
            return []
        if self._drops_acting_key(facts, named) or not self._is_of_engine(named, facts.engine):
            return []
        then, is_about_keys = self.trail.history.in_force()[named[0]], ColumnChange.UNIQUE_KEYS in follows
        beside = ", ".join(kind for kind in kinds_of(facts, then) if kind not in BESIDE_COLUMNS)
        if is_about_keys and (reason := key_that_goes(facts, then, is_certain=True)):
            return self._park(named, reason, shown)
        found = self._altered(named[0], statement, shown, follows)
        if found is None and is_about_keys and (reason := key_that_goes(facts, then, is_certain=False)):
            return self._park(named, reason, shown)
        if found is None and ColumnChange.CHECKS in follows and (reason := check_that_goes(facts, then)):
            return self._park(named, reason, shown)
        if found is None and ColumnChange.FOREIGN_KEYS in follows and (reason := foreign_key_that_goes(facts, then)):
            return self._park(named, reason, shown)
        return [replace(one, reason=without_keys(beside, facts, then, one)) for one in found or ()]

    def _built(self, facts: StatementFacts, statement: LogStatement, shown: str) -> list[Barrier] | None:
        """Let a table go on for which a job of ours that writes here has built, or taken off, what others would have parked it
        for. None for any other statement, and where it is not certain what there is behind it."""
        named = [table for table in facts.tables if table in self.trail.history.in_force()]
        is_about = facts.kind == StatementKind.COLUMNS or self._drops_acting_key(facts, named)
        if len(named) != 1 or len(facts.tables) != 1 or not is_about:
            return None
        table = named[0]
        if table in self.unsettled and self._is_before(statement.mark, self.unsettled[table]):
            return None
        found = built.go_on(self.kept, self.trail, table, statement, shown)
        if found is not None:
            self._ahead.pop(table, None)
        if found:
            self.reselect()
        return found

    def _altered(
        self, table: TableId, statement: LogStatement, shown: str, follows: frozenset[ColumnChange]
    ) -> list[Barrier] | None:
        if table in self.unsettled and self._is_before(statement.mark, self.unsettled[table]):
            return None
        barriers = altered.go_on(self.kept, self.trail, table, statement, shown, follows)
        if barriers:
            self.reselect()
        return barriers

    def _dropped(self, facts: StatementFacts, statement: LogStatement, shown: str) -> list[Barrier]:
        """Let the tables go that a statement drops. Returns [] where they have to be parked, or are none of ours: all that one
        statement drops goes the same way. A table that has just joined may be one that was made behind the statement."""
        in_force, at = self.trail.history.in_force(), statement.mark
        tables = [t for t in in_force if t in facts.tables or t.schema == facts.schema]
        is_drop = facts.kind == StatementKind.DROP or bool(facts.schema)
        if not tables or not is_drop or facts.makes_anew:
            return []
        if self._came_behind(tables, at):
            return []
        found = dropped.leave(self.trail, tables, shown, self.follows)
        if isinstance(found, str):
            return self._park(tables, f"{StatementKind.DROP} at the source, and not followed: {found}", shown)
        if found:
            self.reselect()
        return found

    def _parted(self, facts: StatementFacts, statement: LogStatement) -> list[Barrier]:
        """Let a table go on of which rows go with a partition, where the job file says what becomes of them at the target.
        Returns [] where it has to be parked, or is none of ours. A table that such rows go to is new for a load."""
        in_force = self.trail.history.in_force()
        if not facts.rows_go or (table := facts.tables[0]) not in in_force or in_force.keys() & {*facts.tables[1:]}:
            return []
        if ColumnChange.PARTITIONS not in self.follows(table) or self._came_behind([table], statement.mark):
            return []
        if self.trail.staging.waits:  # a prepared transaction may have rows of that partition
            return []
        return [*self.rows_went(in_force[table], statement.sql), *self._new_tables(facts.tables[1:], facts, statement)]

    def rows_went(self, schema: TableSchema, shown: str = "") -> list[Barrier]:
        """Let a table go on of which rows went with a partition, by a definition that is as it was but for its partitions.
        `shown`: the statement as people may see it, "" where the log has none."""
        return self._by_catalogue(Altered(schema, frozenset({ColumnChange.PARTITIONS}), ROWS_WENT), PART_WENT, shown)

    def rekeyed(self, schema: TableSchema) -> list[Barrier]:
        """Let a table go on by a definition that is as it was but for its foreign keys."""
        return self._by_catalogue(Altered(schema, frozenset({ColumnChange.FOREIGN_KEYS})), BY_CATALOGUE, "")

    def _by_catalogue(self, after: Altered, by: str, shown: str) -> list[Barrier]:
        then = self.trail.history.in_force()[after.schema.id]
        barrier = altered.noted(self.trail, then, after, statement=shown, by=by)
        self.reselect()
        return [barrier]

    def _came_behind(self, tables: Iterable[TableId], at: LogMark) -> bool:
        """Return whether one of the tables has joined by a definition that was read behind this place. What a statement of the
        log has made is that table in any case."""
        in_force, history = self.trail.history.in_force(), self.trail.history
        came = [t for t in tables if t in self.unsettled and not history.was_created(in_force[t])]
        return any(self._is_before(at, self.unsettled[t]) for t in came)

    def _renamed(self, facts: StatementFacts, statement: LogStatement, shown: str) -> list[Barrier]:
        """Let tables go on under the names that a statement gives to them, or go where the rules do not take these. Returns []
        where they have to be parked, or are none of ours: all of one statement go the same way."""
        in_force = self.trail.history.in_force()
        ours = {table: to for table, to in facts.renames if table in in_force}
        if not ours or not self._is_move(facts, ours) or self._came_behind(ours, statement.mark):
            return []
        if all(map(self.wanted, ours.values())):
            found = dropped.move(self.trail, ours, shown)
        elif not any(map(self.wanted, ours.values())):
            found = dropped.leave(self.trail, ours, shown, self.follows)
        else:
            return []
        if isinstance(found, str):
            parked = self._park(ours, f"{StatementKind.RENAME} at the source, and not followed: {found}", shown)
            return parked + self._new_tables(facts.tables, facts, replace(statement, sql=shown))
        if found:
            self.reselect()
        return found

    def _is_move(self, facts: StatementFacts, ours: Mapping[TableId, TableId]) -> bool:
        """Return whether a RENAME of tables, `ours` among them, gives them names that nothing has: none is there twice, is
        known to the job, or one that tools use, and no other table comes in by it."""
        in_force, known = self.trail.history.in_force(), {*self.trail.history.in_force(), *self.trail.history.parked()}
        names = [name for pair in facts.renames for name in pair]
        return (
            len(set(names)) == len(names)
            and all(ColumnChange.RENAME_TABLE in self.follows(table) for table in ours)
            and not any(to in known or self.tools.pattern_of(to.name) for to in ours.values())
            and not any(self.wanted(to) for table, to in facts.renames if table not in in_force)
            and not any(self.wanted(to) and self.shares(to, known - {table}) for table, to in ours.items())
        )

    def on_redefined(self, item: LogRedefined) -> Chunk | None:
        """Return a chunk that lets a table go on whose rows come by other columns, or parks it; None if it is parked already.
        Its place is the item's: the transaction with these rows is behind it. A table that has just joined may have been read
        behind them."""
        table, end = item.table, self.trail.appended
        mark = replace(item.mark, commit_time=item.mark.commit_time or end.commit_time)
        if table not in self.trail.history.in_force():
            return None
        settled = self.unsettled.get(table)
        if settled is not None and self.source.order.includes(settled, item.native, None):
            return alone(self.park([table], item.reason), mark, None)
        found = altered.follow(self.kept, self.trail, item, self.follows(table))
        if isinstance(found, str):
            return alone(self.park([table], f"{item.reason}: {found}"), mark, None)
        self.reselect()
        return alone([found], mark, None)

    def just_altered(self, mark: LogMark) -> tuple[dict[TableId, list[TableSchema]], str]:
        """Return the tables that the next transaction alters by its rows, and that go on, with their former definitions, and
        where it is committed: one behind `mark`, or just there, of which the trail has the next definitions alone."""
        history, order = self.trail.history, self.source.order
        for native in history.altering():
            if native == mark.native or not order.includes(mark, native, None):
                return history.altered_at(native), native
        return {}, ""

    def _barriers(self, facts: StatementFacts, statement: LogStatement) -> list[Barrier]:
        """Return the barriers that a statement puts into the trail. Raises UnknownLogEvent for a change logged as a
        statement.

        `statement` has its text as people may see it: it goes into the log, the trail, and the reason of a parked
        table.
        """
        in_force = self.trail.history.in_force()
        named = [table for table in in_force if table in facts.tables or table.schema == facts.schema]
        if facts.tables and not any(map(self.wanted, facts.tables)) and not named:
            if facts.kind == StatementKind.DATA:
                self._warn_of_triggers(facts.tables)
            return []
        if facts.schema and not facts.tables and not named:
            return []  # a schema without any of ours
        if facts.kind == StatementKind.DATA or (
            facts.kind == StatementKind.TRUNCATE and not self._is_of_engine(named, facts.engine)
        ):
            raise UnknownLogEvent(
                f"a change logged as a statement, not as rows: {statement.sql}",
                position=statement.mark.native,
                hint="let every session log rows (ROW format), then load the job again",
            )
        if facts.kind == StatementKind.TRUNCATE:
            return [Barrier(0, place, BarrierKind.TRUNCATE, t, statement.sql) for place, t in enumerate(named)]
        if facts.kind == StatementKind.COLUMNS or self._drops_acting_key(facts, named):
            not_followed = NOT_FOLLOWED * any(map(self.follows, named))
            return self._park(named, f"{ALTERED}{not_followed}", statement.sql)
        if facts.kind in VANISHES:
            why = f"{facts.kind} at the source"
            if facts.kind == StatementKind.PARTITION:
                why += f", {ONLY_WENT if facts.rows_go else CAME_OR_WENT}"
            parked = self._park(named, why, statement.sql)
            if facts.kind != StatementKind.DROP:
                gone = {table for table, _ in facts.renames} & self.trail.history.dropped()
                came = [table for table in facts.tables if table not in gone]
                parked += self._new_tables(came, facts, statement)
            return parked
        return self._compared(facts, named, statement)

    def _warn_of_triggers(self, tables: Iterable[TableId]) -> None:
        now = time.monotonic()
        for table in tables:
            if now - self._warned.get(table, -WARN_SECONDS) >= WARN_SECONDS:
                self._warned[table] = now
                why = "logged as a statement: what its triggers change in replicated tables is not in the log"
                log.get().warning("statement_passed_over", table=str(table), why=why)

    def _is_of_engine(self, tables: Iterable[TableId], engine: str) -> bool:
        in_force = self.trail.history.in_force()
        return not engine or all(in_force[table].engine.upper() == engine for table in tables)

    def _drops_acting_key(self, facts: StatementFacts, named: Iterable[TableId]) -> bool:
        """Return whether a key goes that takes rows along. It may be there again by the time that definitions are compared."""
        in_force, dropped = self.trail.history.in_force(), {name.lower() for name in facts.dropped_keys}
        return bool(dropped) and any(
            acts(key) and key.name.lower() in dropped for table in named for key in in_force[table].foreign_keys
        )

    def _compared(self, facts: StatementFacts, named: list[TableId], statement: LogStatement) -> list[Barrier]:
        in_force = self.trail.history.in_force()
        with closing(self.source.catalog()) as catalog:
            # Tables that the job file leaves out by now are compared, too: nobody has said so yet.
            found = read_definitions(catalog, lambda table: table in in_force or self.wanted(table))
        # What a statement further on has done is its affair.
        now, changed = found.tables, [*self._changed(found, statement.mark)]
        for table in (table for table in named if table not in changed):
            tell_keys(in_force[table], now[table])
        unsettled = [t for t in named if t in self.unsettled and self._is_before(statement.mark, self.unsettled[t])]
        if facts.kind == StatementKind.UNKNOWN or not self._is_of_engine(named, facts.engine):
            changed += named
        reason = "its definition changed at the source"
        parked = self._park([*dict.fromkeys([*changed, *unsettled])], reason, statement.sql)
        return [*parked, *self._noted(facts, named, statement.sql), *self._new_tables(now, facts, statement)]

    def _changed(self, found: SourceDefinitions, at: LogMark) -> Iterator[TableId]:
        """Yield the tables that the catalogue has by other definitions than are in force, apart from what statements behind
        `at` may have done. What a job builds is waited for up to the place that the log had when the catalogue was asked."""
        for table, schema in self.trail.history.in_force().items():
            ahead, now = self._ahead.pop(table, None), found.tables.get(table)
            if now is not None and may_become(schema, now, self.follows(table)):
                continue
            is_seen = self._is_before(found.after, at) or not isinstance(self.source.dialect, BuiltDialect)
            if is_seen or now is None or not built.is_of_building(schema, now, self.follows(table)):
                yield table
            elif ahead and self._is_before(ahead[0], at) and not may_become(schema, ahead[1], self.follows(table)):
                yield table  # no statement has told of it
            else:
                self._ahead[table] = ahead if ahead and not self._is_before(ahead[0], at) else (found.after, now)

    def look_ahead(self, found: SourceDefinitions | None = None) -> None:
        """Note tables whose keys act otherwise at the source than in the trail, where the log may tell of it further on. What
        was noted before the log was opened again is forgotten: the server may be another one.

        `found`: what that server had just before; where no key acts otherwise there, it is not asked once more. A user who
        may not see all keys was told too few of them: that tells of a difference that is none, and never hides one."""
        self._ahead.clear()
        if not isinstance(self.source.dialect, BuiltDialect) or (found and not self._any_acts_otherwise(found)):
            return
        if (found := self._definitions()) is None:
            return
        for table, schema in self.trail.history.in_force().items():
            now = found.tables.get(table)
            if now and built.acts_otherwise(schema, now) and built.is_of_building(schema, now, self.follows(table)):
                self._ahead[table] = (found.after, now)

    def _any_acts_otherwise(self, found: SourceDefinitions) -> bool:
        in_force = self.trail.history.in_force()
        return any(
            table in in_force and built.acts_otherwise(in_force[table], now) for table, now in found.tables.items()
        )

    def park_untold(self, at: LogMark) -> Chunk | None:
        """Return a chunk that parks tables that were noted as ahead of the log, and of which no statement has told up to `at`,
        though the log has passed the place of then; None if there is none."""
        passed = [table for table, (place, _) in self._ahead.items() if self._has_passed(place, at)]
        if not passed or (found := self._definitions()) is None:
            return None
        in_force, untold = self.trail.history.in_force(), []
        for table in passed:
            (_, then), now, schema = self._ahead.pop(table), found.tables.get(table), in_force.get(table)
            if schema is None or now is None or may_become(schema, now, self.follows(table)):
                continue
            if not may_become(schema, then, self.follows(table)):
                untold.append(table)
            elif built.is_of_building(schema, now, self.follows(table)):
                self._ahead[table] = (found.after, now)
        return self.park_unlogged(untold, at)

    def _definitions(self) -> SourceDefinitions | None:
        """Return what the source has of the tables in force; None where the user may not see all of it any more."""
        try:
            with closing(self.source.catalog()) as catalog:
                return read_definitions(catalog, self.trail.history.in_force().__contains__)
        except SourceUnavailable:
            raise
        except SourceError as refused:  # the next statement that has to be compared says so
            log.get().warning("definitions_not_read", reason=refused.message)
            return None

    def _has_passed(self, place: LogMark, at: LogMark) -> bool:
        """Return whether the log is read up to a place; False where a server that took over does not know the mark `at` yet."""
        try:
            return self._is_before(place, at)
        except LogLost:
            return False

    def _noted(self, facts: StatementFacts, named: Iterable[TableId], statement: str) -> Iterator[Barrier]:
        """Yield what is said of tables that go on as they are, with indexes, keys or the like that are not followed."""
        in_force = self.trail.history.in_force()
        for table in named if facts.beside else ():
            if schema := in_force.get(table):
                yield Barrier(0, 0, BarrierKind.NOTE, table, statement, ", ".join(kinds_of(facts, schema)))

    def _new_tables(self, tables: Iterable[TableId], facts: StatementFacts, statement: LogStatement) -> list[Barrier]:
        """Park new tables. Only those that the statement names tell it: others came by ones that the log has further on."""
        history, parked = self.trail.history, self.trail.history.parked()
        new = [
            table
            for table in tables
            if self.wanted(table) and (tells_dropped(parked[table]) if table in parked else not history.knows(table))
        ]
        named = self._park((table for table in new if table in facts.tables), CREATED, statement.sql)
        unnamed = (table for table in new if table not in facts.tables)
        return named + self._park((t for t in unnamed if ColumnChange.CREATE not in self.follows(t)), CREATED, "")

    def _is_before(self, mark: LogMark, other: LogMark) -> bool:
        return self.source.order.includes(other, mark.native, None)

    def park(self, tables: Iterable[TableId], reason: str) -> list[Barrier]:
        """Park tables whose rows cannot be followed any more, for a reason that is not a statement."""
        return self._park(tables, reason, "")

    def drop(self, table: TableId, what: str = "") -> list[Barrier]:
        """Note that a parked table is gone at the source, or has become `what`. A target that never had it forgets it there."""
        entry = self.trail.history.parked_by(table)
        is_known = entry is not None and entry.reason.partition(" ")[0] in VANISHES
        statement = self._went.pop(table, entry.statement if entry and is_known else "")
        why = f"{BECAME + what if what else GONE}; {self._remedy_gone}"
        self.trail.park(table, why, statement)
        log.get().info("table_dropped", table=str(table), reason=why, statement=statement)
        return [Barrier(0, 0, BarrierKind.PARK, table, statement, why)]

    def park_at(self, barrier: Barrier) -> list[Barrier]:
        """Park the barrier's table at the barrier's place. Returns [] if it has been parked meanwhile, together with
        another one.
        """
        if barrier.table not in self.trail.history.in_force():
            return []
        return self._park([barrier.table], barrier.reason, barrier.statement, barrier.tx, barrier.ordinal)

    def _park(
        self, tables: Iterable[TableId], reason: str, statement: str, tx: int = 0, ordinal: int = 0
    ) -> list[Barrier]:
        tables, in_force = list(tables), self.trail.history.in_force()
        barriers = []
        for table in component(tables, in_force):
            why = reason if table in tables else f"{reason}: {', '.join(map(str, tables))}, {CONNECTED}"
            why = f"{why}; {self._remedy.format(table=with_linked(table, in_force, self.trail.logs_cascades))}"
            self.trail.park(table, why, statement)
            barriers.append(Barrier(tx, ordinal, BarrierKind.PARK, table, statement, why))
            log.get().warning("table_parked", table=str(table), reason=why)
        if barriers:
            self.reselect()
        return barriers

    def park_unlogged(self, tables: Iterable[TableId], mark: LogMark) -> Chunk | None:
        """Return a chunk that parks tables that were altered behind the log's back, at the place it is read up to."""
        barriers = self._park(tables, REASON, "")
        return alone(barriers, mark, None) if barriers else None

    # --- what users ask for -------------------------------------------------------------------------------------------

    def join(self, mark: LogMark) -> Chunk | None:
        """Bring in requested tables whose definition holds at `mark`, the place the log is read up to. Not while a prepared
        transaction is open whose rows of the table were left out: they would be missing at its commit (K6)."""
        barriers: list[Barrier] = []
        for table, joining in self.requested.ready(mark).items():
            latest = self.trail.history.latest(table)
            schema = joining.schema.with_version(latest.version + 1 if latest else 1)
            self.trail.schema(schema, joined=True)
            self.unsettled[table] = joining.settled
            barriers.append(Barrier(0, len(barriers), BarrierKind.SCHEMA, table, schema=schema))
        if not barriers:
            return None
        self.reselect()
        return alone(barriers, mark, None)


def alone(barriers: list[Barrier], mark: LogMark, gtid: str | None, origin: str | None = None) -> Chunk:
    """Return a chunk of one transaction without rows, in which this happens."""
    facts = {"native": mark.native, "gtid": gtid, "commit_time": mark.commit_time, "rows": 0, "origin": origin}
    transactions = pa.RecordBatch.from_pylist([facts], schema=TRANSACTION_SCHEMA)
    return Chunk(transactions, (), tuple(barriers), resume=mark.resume)
