"""Job state of the twin."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.connectors.memory.database import Database, JobState
from anabranch.errors import Fenced, StateError
from anabranch.model.cutover import CutoverNote
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.table_life import Place, TableState
from anabranch.model.verified import Verified
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import NotedConflict


class MemoryStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def jobs(self) -> MemoryStore:
        return self

    @property
    def states(self) -> MemoryStore:
        return self

    @property
    def journal(self) -> MemoryStore:
        return self

    @property
    def asides(self) -> MemoryStore:
        return self

    @property
    def cutovers(self) -> MemoryStore:
        return self

    @property
    def verifications(self) -> MemoryStore:
        return self

    def exists(self) -> bool:
        return self._database.is_prepared

    def prepare(self) -> None:
        self._database.is_prepared = True

    def job(self, job: str) -> dict[str, str] | None:
        found = self._database.job(job).facts
        return None if found is None else dict(found)

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        with self._database.lock:
            state = self._database.job(job)
            if state.facts is not None and state.facts.get("target") != facts.get("target"):
                hint = "one database for each target"
                raise StateError("this database is another target of the job", job=job, hint=hint)
            state.facts = dict(facts)

    def checkpoint(self, job: str) -> Checkpoint | None:
        return self._database.job(job).checkpoint

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        with self._database.lock:
            state = self._database.job(job)
            if state.checkpoint is None:
                state.checkpoint = Checkpoint("", 0, position, commit_time)

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        with self._database.lock:
            return dict(self._database.job(job).tables)

    def table(self, job: str, table: TableId) -> TableState | None:
        return self.tables(job).get(table)

    def others(self, job: str) -> frozenset[TableId]:
        with self._database.lock:
            states = [of.tables for name, of in self._database.jobs.items() if name != job]
            return frozenset(state.target for tables in states for state in tables.values())

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        with self._database.lock:
            tables = self._database.job(job).tables
            found = tables.get(state.source)
            if place_of(found) != place_of(before):
                raise Fenced("the table's state was changed meanwhile", job=job, table=str(state.source))
            tables[state.source] = defined(state, found)

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        with self._database.lock:
            tables = self._database.job(job).tables
            for state, before in states:
                if place_of(tables.get(state.source)) != place_of(before):
                    raise Fenced("the table's state was changed meanwhile", job=job, table=str(state.source))
            tables.update({state.source: defined(state, tables.get(state.source)) for state, _ in states})

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        found = [one for one in self._database.job(job).conflicts if one.number > after and table in (None, one.source)]
        return found[: limit or None]

    def ddl_changes(self, job: str, table: TableId | None = None) -> list[DdlChange]:
        return [one for one in self._database.job(job).ddl if table in (None, one.source)]

    def set_aside(self, job: str, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
        found = [one for _, one in sorted(self._database.job(job).aside.items()) if one.is_discarded == discarded]
        return [one for one in found if table in (None, one.source)]

    def count_aside(self, job: str) -> Mapping[TableId, int]:
        return Counter(one.source for one in self.set_aside(job))

    def forget_aside(self, job: str, table: TableId) -> None:
        with self._database.lock:
            forget_aside(self._database.job(job), table)

    def asked(self, job: str) -> bool:
        return any(one.wish for one in self.set_aside(job))

    def wish(self, job: str, numbers: Sequence[int], wish: str, reason: str = "") -> int:
        with self._database.lock:
            aside = self._database.job(job).aside
            waiting = [number for number in numbers if number in aside and not aside[number].is_discarded]
            aside |= {n: replace(aside[n], wish=wish, reason=reason or aside[n].reason) for n in waiting}
            return len(waiting)

    def forget_table(self, job: str, before: TableState) -> None:
        with self._database.lock:
            tables = self._database.job(job).tables
            if place_of(tables.get(before.source)) != place_of(before):
                raise Fenced("the table's state was changed meanwhile", job=job, table=str(before.source))
            del tables[before.source]
            forget_aside(self._database.job(job), before.source)
            self._database.job(job).verified.pop(before.source, None)

    def skip(self, job: str, one: Skipped) -> None:
        found = self._database.job(job).skipped
        found.setdefault(one.sequence, replace(one, asked_at=time.time_ns() // 1000))

    def skipped(self, job: str) -> list[Skipped]:
        return [one for _, one in sorted(self._database.job(job).skipped.items())]

    def unskip(self, job: str, sequence: int) -> bool:
        return self._database.job(job).skipped.pop(sequence, None) is not None

    def forget_conflicts(self, job: str, upto: int) -> int:
        with self._database.lock:
            state = self._database.job(job)
            before = len(state.conflicts)
            state.conflicts = [one for one in state.conflicts if one.number > upto]
            return before - len(state.conflicts)

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        with self._database.lock:
            if self.job(job) is None:
                return False
            kept = self._database.job(job).trace
            kept.update({str(entry["id"]): dict(entry) for entry in entries if str(entry["id"]) not in kept})
            for one in [one for one in kept if one < oldest]:
                del kept[one]
            return True

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        with self._database.lock:
            return [entry for one, entry in sorted(self._database.job(job).trace.items()) if one >= first]

    def cutover_notes(self, job: str) -> list[CutoverNote]:
        return list(self._database.job(job).cutover)

    def note_cutover(self, job: str, note: CutoverNote) -> None:
        with self._database.lock:
            notes = self._database.job(job).cutover
            if note.number != len(notes) + 1:
                raise Fenced("another process is at the same cut-over", job=job)
            notes.append(note)

    def verified(self, job: str) -> list[Verified]:
        return [found for _, found in sorted(self._database.job(job).verified.items())]

    def note_verified(self, job: str, found: Verified, before: int = 0) -> bool:
        with self._database.lock:
            kept = self._database.job(job).verified
            if (kept[found.source].at if found.source in kept else 0) != before:
                return False
            kept[found.source] = found
            return True

    def forget_verified(self, job: str, table: TableId) -> None:
        with self._database.lock:
            self._database.job(job).verified.pop(table, None)

    def taken_off(self, job: str) -> list[str]:
        return []

    def drop(self, job: str) -> None:
        with self._database.lock:
            self._database.jobs.pop(job, None)
            self._database.is_prepared = bool(self._database.jobs)

    def close(self) -> None:
        pass


def add_aside(state: JobState, change: AsideChange) -> None:
    number = max(state.aside, default=0) + 1
    state.aside[number] = replace(change, number=number, set_aside_at=time.time_ns() // 1000)


def forget_aside(state: JobState, table: TableId) -> None:
    """Forget everything that is set aside for a table."""
    state.aside = {number: one for number, one in state.aside.items() if one.source != table}
    if (found := state.tables.get(table)) is not None:
        state.tables[table] = found.without_aside()


def defined(state: TableState, before: TableState | None) -> TableState:
    """Return a state with the definition of the one before, if it has none itself."""
    return replace(state, schema=before.schema) if state.schema is None and before is not None else state


def place_of(state: TableState | None) -> Place | None:
    return state.place if state else None


def keep_ddl(state: JobState, change: DdlChange) -> None:
    """Note what became of a change of a definition, in place of what is noted of the same transaction and table."""
    made = {(one.sequence, one.source): one.number for one in state.ddl}
    number = made.setdefault((change.sequence, change.source), max(made.values(), default=0) + 1)
    others = [one for one in state.ddl if one.number != number]
    noted = replace(change, number=number, noted_at=time.time_ns() // 1000)
    state.ddl = sorted([*others, noted], key=lambda one: one.number)
