"""The beginning of loads: tables made or emptied, states and ledgers written, in an order in which a process may die anywhere.

Statements that make or empty a table commit by themselves (https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html), so
"all of it or nothing" takes three steps, of one session that holds a lock of the whole server (`begin.py`): nobody else begins
meanwhile, and what a dead process has left running ends with its session, before the lock is free.

1. One transaction: what is asked is refused or allowed; the states of tables with an older load say `pending`, so that no
   chunk of it can commit any more (those under way are waited for); the ledger has a mark of what is to come (`ledger.py`).
2. Tables are created, keys taken off, rows removed. A process that dies from step 1 on leaves tables that no load has, with
   the mark: who begins the load next, finding it, knows that rows in the table are to go, or that a table without rows is
   its own, and does the step again.
3. One transaction: all is as it was left in step 1, and the tables have no rows; states say `loading`, ledgers have chunks.

What does not live here: definitions (`tables.py`), chunks (`load.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from anabranch import log
from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target import aside, ledger
from anabranch.connectors.mysql.target import shared_tables as shared
from anabranch.connectors.mysql.target.begin import empty_table
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.ledger import Mark
from anabranch.connectors.mysql.target.session import Connection, ask, run, table_name, transaction
from anabranch.connectors.mysql.target.states import save_state
from anabranch.connectors.mysql.target.structures import BASE_TABLE, ExistingTable, holds_rows, read_tables
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import Bounds, NewLoad, ValueRules
from anabranch.errors import Fenced, TargetError, TargetUnavailable
from anabranch.failpoints import reach
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.table_life import Life, TableState, begin, heard_of, read_stored, require_begin
from anabranch.rows.net import TargetTable

LOCK_STATES = """
SELECT source_table, target_table, state, generation, low, high, reason, rows_loaded, changes_applied, facts
  FROM anabranch.table_state WHERE job = %s AND source_table IN ({sources}) ORDER BY source_table FOR UPDATE
"""
FORGET = "DELETE FROM anabranch.table_state WHERE job = %s AND source_table = %s"
INNODB = "innodb"


@dataclass
class Beginning:
    """The loads of one job that begin, over a session that holds the lock."""

    connection: Connection
    endpoint: Endpoint
    rules: ValueRules
    job: str

    # --- one table ----------------------------------------------------------------------------------------------------

    def generation(
        self, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool
    ) -> None:
        if self._allowed(table, generation, empty, keep):
            self._make_room(table, keep)
            self._begun(table, generation, bounds, keep)

    def _allowed(self, table: TargetTable, generation: int, empty: bool, keep: bool) -> bool:
        """Take step 1. Returns False for a load that has begun."""
        connection, job, source = self.connection, self.job, table.source
        with transaction(connection):
            before = self._locked(table, generation)
            if before is None:
                return False
            require_begin(before.state, source)
            existing = self._existing(table)
            # Rows of an older load of the job's; those that a first one was to remove are nobody's until they are gone.
            is_ours = before.generation > 0 and not keep and ledger.marked(connection, job, source) is Mark.EMPTY
            if empty or is_ours:
                shared.refuse_to_empty(connection, job, table)
            shared.refuse_unfinished(connection, job, table)
            has_rows = holds_rows(connection, existing.id)
            if has_rows and not (empty or is_ours or keep):
                raise TargetError(
                    f"the target table {table.target} holds rows",
                    table=str(source),
                    hint='empty it, or let the job do it: [load] existing = "empty"; "keep" leaves them there',
                )
            if has_rows and not keep:
                ledger.mark(connection, job, source, generation, Mark.EMPTY)
            if before.is_loading:  # no chunk of an older load commits from here on
                facts = replace(before.facts, kept=before.facts.kept and keep)
                save_state(connection, job, replace(before, state=Life.PENDING, facts=facts))
        return True

    def _make_room(self, table: TargetTable, keep: bool = False) -> None:
        """Take step 2. A mark that a load left which was to empty the table says nothing to one that keeps its rows."""
        with closing(MysqlTables(self.endpoint, self.rules, family(self.connection))) as tables:
            tables.take_off_keys(self.job, table)
        if not keep and ledger.marked(self.connection, self.job, table.source) is Mark.EMPTY:
            empty_table(self.connection, table.target, self.job, table.source)

    def _begun(self, table: TargetTable, generation: int, bounds: Sequence[Bounds], keep: bool) -> None:
        """Take step 3."""
        with transaction(self.connection):
            before = self._locked(table, generation)
            if before is None:
                return
            require_begin(before.state, table.source)
            is_kept = holds_rows(self.connection, table.target)
            if is_kept and not keep:
                message = f"rows came into {table.target} while it was emptied"
                raise TargetError(message, table=str(table.source), hint="stop whoever writes to it, then start again")
            begun = begin(replace(before, target=table.target), generation)
            facts = replace(begun.facts, kept=begun.facts.kept and is_kept, set_aside=0)
            save_state(self.connection, self.job, replace(begun, facts=facts))
            ledger.replace(self.connection, self.job, table.source, generation, bounds)
            aside.forget(self.connection, self.job, table.source)

    def _locked(self, table: TargetTable, generation: int) -> TableState | None:
        """Return the table's state, which nobody changes meanwhile; None where the load has begun. Raises Fenced for one that
        comes too late."""
        state = locked_states(self.connection, self.job, [table.source]).get(table.source) or heard_of(
            table.source, table.target
        )
        if state.generation > generation:
            message = f"load {generation} of the table was replaced by load {state.generation}"
            raise Fenced(message, table=str(table.source))
        has_ledger = ledger.has_begun(self.connection, self.job, table.source, generation)
        return None if state.generation == generation and has_ledger else state

    def _existing(self, table: TargetTable) -> ExistingTable:
        existing = read_tables(self.connection, [table.target]).get(table.target)
        if existing is None:
            raise TargetError(f"the target table {table.target} does not exist", hint="create it before the load")
        if existing.type.upper() != BASE_TABLE:
            raise TargetError(f"{table.target} is a {existing.type.lower()}", hint="choose another target name")
        if existing.engine.lower() != INNODB:
            raise TargetError(
                f"{table.target} has the engine {existing.engine}: what is not complete could not be taken back",
                table=str(table.source),
                hint=f"ALTER TABLE {table_name(table.target)} ENGINE=InnoDB",
            )
        return existing

    # --- tables that are not there yet --------------------------------------------------------------------------------

    def new(self, loads: Sequence[NewLoad], beside: Collection[TableId]) -> frozenset[TableId]:
        """Make tables of which the target has nothing, and begin their loads. Returns those that are begun."""
        planned = self._planned(loads)
        with closing(MysqlTables(self.endpoint, self.rules, family(self.connection))) as tables:
            made = [load for load, is_there in planned if self._made(tables, load, is_there, beside)]
        begun = set()
        with transaction(self.connection):
            states = locked_states(self.connection, self.job, [load.table.source for load, _ in planned])
            for load, _ in planned:
                state, source = states.get(load.table.source), load.table.source
                if state is None or state.place != _unbegun(load).place:
                    continue  # somebody has moved it meanwhile
                if load in made and not holds_rows(self.connection, load.table.target):
                    save_state(self.connection, self.job, load.state)
                    ledger.replace(self.connection, self.job, source, load.state.generation, load.bounds)
                    begun.add(source)
                else:
                    self._put_back(load)
            reach("load.generations.written")
        return frozenset(begun)

    def _planned(self, loads: Sequence[NewLoad]) -> list[tuple[NewLoad, bool]]:
        """Take step 1: pick tables of which the target has nothing, or one without rows that a load has made and that did not
        begin (True)."""
        connection, job, found = self.connection, self.job, []
        with transaction(connection):
            states = locked_states(connection, job, [load.table.source for load in loads])
            there = read_tables(connection, [load.table.target for load in loads])
            for load in loads:
                source, target, state = load.table.source, load.table.target, states.get(load.table.source)
                known = None if load.before is None else load.before.place
                if (None if state is None else state.place) != known or shared.others(connection, job, target):
                    continue
                if target in there and not self._is_left(source, target):
                    continue
                save_state(connection, job, _unbegun(load))
                ledger.mark(connection, job, source, load.state.generation, Mark.MAKE)
                found.append((load, target in there))
        return found

    def _is_left(self, source: TableId, target: TableId) -> bool:
        """Return whether a load has made the table and did not begin. Nobody else has put rows into it since."""
        return ledger.marked(self.connection, self.job, source) is Mark.MAKE and not holds_rows(self.connection, target)

    def _made(self, tables: MysqlTables, load: NewLoad, is_there: bool, beside: Collection[TableId]) -> bool:
        """Take step 2: create the table, anew where it is there. Returns False where the server refuses it: table by table
        it is said why."""
        try:
            with translated(f"create {load.table.target}"):
                if is_there:
                    run(self.connection, f"DROP TABLE {table_name(load.table.target)}")
                tables.create_table(load.schema, load.table, self.rules, False, beside)
        except TargetUnavailable:
            raise
        except TargetError as error:
            log.get(job=self.job, table=str(load.table.source)).debug("table_not_made_at_once", reason=error.message)
            return False
        return True

    def _put_back(self, load: NewLoad) -> None:
        """Leave a table's state as it was before its load was to begin."""
        ledger.clear(self.connection, self.job, load.table.source)
        if load.before is None:
            run(self.connection, FORGET, self.job, str(load.table.source))
        else:
            save_state(self.connection, self.job, load.before)


def locked_states(connection: Connection, job: str, sources: Sequence[TableId]) -> dict[TableId, TableState]:
    """Return the states of these tables, which nobody changes until the transaction ends; without definitions."""
    places = ", ".join(["%s"] * len(sources))
    found = ask(connection, LOCK_STATES.format(sources=places), job, *map(str, sources)) if sources else []
    return {state.source: state for state in map(_state, found)}


def _state(row: tuple[Any, ...]) -> TableState:
    source, target, state, generation, low, high, reason, rows, changes, facts = row
    life, known = read_stored(state, reason or "", json.loads(facts or "{}"))
    ids = TableId.parse(source), TableId.parse(target)
    return TableState(*ids, life, generation, low or "", high or "", reason or "", rows, changes, None, known)


def _unbegun(load: NewLoad) -> TableState:
    """Return the state of a table whose load is about to begin: as if it had only been heard of."""
    return replace(load.state, state=Life.PENDING, generation=0, schema=None)
