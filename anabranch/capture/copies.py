"""Tables that a tool changes online: it makes a copy, alters it, fills it while the table is in use, and swaps the two.

Each copy is followed through the log from the statement that makes it, so that it is known what comes in for the table: its
definition, altered by just what the log says. Its rows are left out; that they are the table's is what the job file says of
the tools (`[ddl] online_swap`). A copy that came about in any other way comes in for nothing: then the table is parked.

What does not live here: what statements mean (the source's dialect), tables that are altered themselves (`altered.py`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.capture.altered import is_as_before, noted
from anabranch.capture.kept_catalog import BEHIND_SECONDS, PAUSE, named, waits_behind
from anabranch.contracts import CopyingDialect
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.column_changes import (
    BESIDE_COLUMNS,
    OTHER_INDEXES,
    Altered,
    ColumnChange,
    Follows,
    Untold,
    kinds_between,
)
from anabranch.model.ghost_names import GhostNames
from anabranch.model.index_changes import others_differ
from anabranch.model.key_changes import keys_apart, may_become
from anabranch.rows.log_items import StatementFacts, StatementKind

if TYPE_CHECKING:
    from anabranch.capture.kept_catalog import KeptCatalog
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.rows.chunk import Barrier
    from anabranch.rows.log_items import LogStatement
    from anabranch.trail.history import Entry
    from anabranch.trail.writer import TrailWriter

NO_COPY = "the log that the job has read does not show that {copy} was made as a copy of it"
EMPTIED = "it was emptied while its copy was filled, which the tools do not follow"
UNCERTAIN = "its copy was altered by something that is not followed, or that may keep rows out of it"
SEVERAL = "several statements altered the same column of its copy"
OTHERWISE = "its copy was made of another definition than it has by now, or before it was brought in again"
REFERS = "foreign keys refer to it, or it has some: they stay with the table that was taken out"
PREPARED = "a prepared transaction with rows of the job is open"
NOT_SHOWN = "the source's catalogue has another definition of it by now than its copy had"
_KNOWN = frozenset((StatementKind.HARMLESS, StatementKind.DATA))  # leave definitions as they are
_ALTERS = frozenset((StatementKind.COLUMNS, StatementKind.ALTER))


class Copies:
    """Follows copies by the statements of the log; what is known of them is in the trail's history."""

    def __init__(self, kept: KeptCatalog, trail: TrailWriter, names: GhostNames, follows: Follows) -> None:
        self.kept, self.source, self.trail, self.names, self.follows = kept, kept.source, trail, names, follows
        if not self.is_followed:  # what becomes of them from here on is not noted
            for copy, entry in trail.history.copies().items():
                trail.copy(copy, None, entry.at)

    @property
    def is_followed(self) -> bool:
        return bool(self.names.patterns) and isinstance(self.source.dialect, CopyingDialect)

    def note(self, facts: StatementFacts, statement: LogStatement) -> None:
        """Note what the statement does to copies: those that it makes, alters, removes, and those of a table that it empties.
        Nothing that was noted already is noted again. Raises SourceUnavailable."""
        if not self.is_followed or facts.kind in _KNOWN:
            return
        known, at = self.trail.history.copies(), statement.mark.native
        for table in facts.tables:
            if table in known and known[table].at == at:
                continue
            if facts.kind == StatementKind.CREATE:
                self._made(table, statement, table in known)
            elif table in known:
                self._changed(facts, known[table], statement)
        for copy, entry in known.items():
            is_of = entry.schema and entry.schema.id in facts.tables
            if is_of and facts.kind == StatementKind.TRUNCATE and entry.reason != EMPTIED:
                self.trail.copy(copy, entry.schema, at, entry.filled, EMPTIED)
            elif facts.schema and copy.schema == facts.schema:
                self.trail.copy(copy, None, at)

    def _made(self, copy: TableId, statement: LogStatement, is_known: bool) -> None:
        dialect, in_force = self.source.dialect, self.trail.history.in_force()
        assert isinstance(dialect, CopyingDialect)
        of = [
            schema
            for table, schema in in_force.items()
            if table.schema == copy.schema and self.names.is_of(copy.name, table.name)
            if dialect.copies(statement.sql, statement.schema, schema)
        ]
        if of:
            self.trail.copy(copy, of[0], statement.mark.native)
            log.get().info("table_copied", table=str(of[0].id), copy=str(copy))
        elif is_known:
            self.trail.copy(copy, None, statement.mark.native)

    def _changed(self, facts: StatementFacts, entry: Entry, statement: LogStatement) -> None:
        assert entry.table is not None and entry.schema is not None
        at = statement.mark.native
        if facts.kind not in _ALTERS:
            self.trail.copy(entry.table, None, at)
        elif found := None if entry.reason else self._altered(entry, statement):
            # Two statements do to values what the definitions at both ends do not tell: a column that goes and comes again, or
            # whose default is changed behind rows that have got the former one. Others of other columns do not meet.
            first = self.trail.history.at(entry.schema.id, entry.schema.version)
            # What a generated column that they touch is computed of is theirs, too.
            do_meet = meet(
                _reached(first, entry.schema, entry.filled), _reached(entry.schema, found.schema, found.untold.filled)
            )
            filled = (*entry.filled, *found.untold.filled)
            self.trail.copy(entry.table, found.schema, at, filled, SEVERAL if do_meet else "")
        else:
            self.trail.copy(entry.table, entry.schema, at, entry.filled, entry.reason or UNCERTAIN)

    def _altered(self, entry: Entry, statement: LogStatement) -> Altered | None:
        """Return the table as it is once the copy comes in. The catalogue has the copy under its own name, or, where the log is
        behind, under the table's."""
        then, copy, dialect = entry.schema, entry.table, self.source.dialect
        assert then is not None and copy is not None and isinstance(dialect, CopyingDialect)
        self.kept.begin()
        until = time.monotonic() + waits_behind(statement.mark.commit_time)
        while True:
            try:
                tables = self.kept.ask(lambda catalog: named(catalog, (copy, then.id)))
            except SourceUnavailable:
                raise
            except SourceError as refused:  # the user may not see all of it
                log.get().warning("definition_not_read", table=str(copy), reason=refused.message)
                return None
            there = [replace(tables[table], id=then.id) for table in (copy, then.id) if table in tables]
            found = [dialect.copy_altered(statement.sql, statement.schema, then, now) for now in there]
            good = next((one for one in found if one is not None), None)
            if good is not None:
                return good
            if self.kept.renew():
                continue
            is_shown = bool(there) and not is_as_before(there[0], then)  # the copy's own, as long as it has its name
            if is_shown or time.monotonic() > until:
                return None
            time.sleep(PAUSE)

    def swapped(self, facts: StatementFacts) -> tuple[TableId, TableId] | None:
        """Return the table that a RENAME of two tables swaps with a copy, and the copy; None for any other statement."""
        if not self.is_followed or len(facts.renames) != 2:
            return None
        (table, out), (copy, name) = facts.renames
        is_swap = name == table and table.schema == copy.schema and bool(self.names.pattern_of(out.name))
        is_ours = table in self.trail.history.in_force() and self.names.is_of(copy.name, table.name)
        return (table, copy) if is_swap and is_ours and ColumnChange.SWAP in self.follows(table) else None

    def forget(self, copy: TableId, at: str) -> None:
        """Note that a statement at `at` has taken the name away."""
        if copy in self.trail.history.copies():
            self.trail.copy(copy, None, at)

    def come_in(self, table: TableId, copy: TableId, shown: str) -> Barrier | str:
        """Put the copy's definition in force for the table, and return the barrier that says so, or why that is not certain.
        Raises SourceUnavailable."""
        then, entry = self.trail.history.in_force()[table], self.trail.history.copies().get(copy)
        if entry is None or entry.schema is None or entry.schema.id != table:
            return NO_COPY.format(copy=copy)
        after = entry.schema.with_version(then.version)
        kinds = frozenset(kinds_between(then, after, {}))
        if why := entry.reason or self._why_not(then, entry.schema, kinds):
            return why
        try:
            now = self._shown(after)
        except SourceUnavailable:
            raise
        except SourceError as refused:
            return refused.message
        if now is None:
            return NOT_SHOWN
        tell_keys(after if ColumnChange.UNIQUE_KEYS in self.follows(table) else then, now)
        untold = Untold(filled=entry.filled, swapped=True)
        barrier = noted(self.trail, then, Altered(after, kinds, untold), statement=shown)
        return replace(barrier, reason=OTHER_INDEXES if others_differ(then, now) else "")

    def _why_not(self, then: TableSchema, after: TableSchema, kinds: frozenset[ColumnChange]) -> str:
        history = self.trail.history
        if after.version != then.version:
            return OTHERWISE
        if then.foreign_keys or any(
            key.parent == then.id for s in history.in_force().values() for key in s.foreign_keys
        ):
            return REFERS
        if self.trail.staging.waits:
            return PREPARED
        left = sorted(kinds - BESIDE_COLUMNS - self.follows(then.id))
        return f'[ddl] {left[0]} is "park"' if left else ""

    def _shown(self, after: TableSchema) -> TableSchema | None:
        """Return the table as the catalogue has it, None where that is not what is behind the swap, apart from what later
        statements may have done. It may show that a moment later than the log."""
        until = time.monotonic() + BEHIND_SECONDS
        self.kept.begin()
        while True:
            now = self.kept.table(after.id)
            if now is not None and may_become(after, now, self.follows(after.id)):
                return now
            if self.kept.renew():
                continue
            if time.monotonic() > until:
                return None
            time.sleep(PAUSE)


def touched(former: TableSchema, now: TableSchema) -> set[str]:
    """Return the columns, in small letters, that are not the same in both definitions, or in one of them alone."""
    before, behind = ({c.name.lower(): (c, c.comment) for c in schema.columns} for schema in (former, now))
    return {name for name in before.keys() | behind.keys() if before.get(name) != behind.get(name)}


def meet(one: set[str] | None, other: set[str] | None) -> bool:
    """Return whether two statements reach the same column. None: nobody knows which ones; none at all meet nothing."""
    if one is None or other is None:
        return one != set() and other != set()
    return not one.isdisjoint(other)


def _reached(former: TableSchema, now: TableSchema, filled: tuple[tuple[str, str], ...]) -> set[str] | None:
    """Return the columns, in small letters, that a change touches or fills, and those that a generated one among them is
    computed of; None where that is not known."""
    found = touched(former, now) | {name.lower() for name, _ in filled}
    computed = [c for one in (former, now) for c in one.columns if c.generated and c.name.lower() in found]
    if any(c.computed_from is None for c in computed):
        return None
    return found.union(name.lower() for c in computed for name in c.computed_from or ())


def tell_keys(then: TableSchema, now: TableSchema) -> None:
    """Say which keys of a table that is followed on differ from the source's of now: the target's stay as they are."""
    if apart := keys_apart(then, now):
        why = "the target's keys stay as they are"
        log.get().warning("keys_altered", table=str(then.id), keys=apart, why=why)
