"""The state of a job whose target is a trail: TargetStore over the ledger.

Where the target is, is where the trail ends: what is published there has arrived. Nothing is noted that only rows at a target
can bring about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anabranch.errors import Fenced, StateError, StorageFull
from anabranch.failpoints import reach
from anabranch.model.cutover import CutoverNote
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.table_life import TableState, arrive, note_built, stream
from anabranch.model.verified import Verified
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import NotedConflict
from anabranch.trail import load_readers
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail_end import manifests
from anabranch.trail_end.ledger import (
    CHUNK,
    STATE,
    Ledger,
    columns_of,
    go_on_numbering,
    one_state,
    put_state,
    recorded,
    state_of,
)
from anabranch.trail_end.manifests import Manifest
from anabranch.trail_end.sealed_texts import SealingConnection

NOTHING = "a trail keeps no notes of a target: ask the job that applies it"


class TrailStore:
    """All parts of TargetStore in one."""

    def __init__(self, trail: Path) -> None:
        self._trail, self._ledger = trail, Ledger(trail)

    @property
    def jobs(self) -> TrailStore:
        return self

    @property
    def states(self) -> TrailStore:
        return self

    @property
    def journal(self) -> TrailStore:
        return self

    @property
    def asides(self) -> TrailStore:
        return self

    @property
    def cutovers(self) -> TrailStore:
        return self

    @property
    def verifications(self) -> TrailStore:
        return self

    def exists(self) -> bool:
        return self._ledger.exists()

    def prepare(self) -> None:
        self._ledger.prepare()

    def close(self) -> None:
        self._ledger.close()

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def job(self, job: str) -> dict[str, str] | None:
        found = self._ledger.rows("SELECT facts FROM job WHERE job = ?", job)
        return dict(json.loads(found[0][0])) if found and found[0][0] else None

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        with self._ledger.transaction() as connection:
            others = connection.execute("SELECT job FROM job WHERE job <> ?", (job,)).fetchone()
            if others is not None:
                hint = "one trail for each job that captures: give this one a directory of its own"
                raise StateError(f"the trail {self._trail} is that of the job {others[0]}", job=job, hint=hint)
            connection.execute(
                "INSERT INTO job (job, facts) VALUES (?, ?) ON CONFLICT (job) DO UPDATE SET facts = excluded.facts",
                (job, json.dumps(dict(facts))),
            )

    def checkpoint(self, job: str) -> Checkpoint | None:
        if not self._ledger.rows("SELECT 1 FROM job WHERE job = ? AND is_begun", job) or not exists(self._trail):
            return None
        with TrailReader(self._trail) as trail:
            end = trail.end()
        return Checkpoint("capture", 0, end.position, end.commit_time)

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        with self._ledger.transaction() as connection:
            connection.execute("UPDATE job SET is_begun = 1 WHERE job = ?", (job,))
        self._note_complete(job)

    def taken_off(self, job: str) -> list[str]:
        return []

    def drop(self, job: str) -> None:
        """Forget the job. Files of its load stay with the trail: whoever reads it may need them."""
        if not self.exists():
            return
        with self._ledger.transaction() as connection:
            for table in ("job", "table_state", "chunk"):
                connection.execute(f"DELETE FROM {table} WHERE job = ?", (job,))

    # --- states of tables ---------------------------------------------------------------------------------------------

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        rows = self._ledger.rows(f"SELECT {STATE} FROM table_state WHERE job = ? ORDER BY source", job)
        return {state.source: state for state in (state_of(row, whole) for row in rows)}

    def table(self, job: str, table: TableId) -> TableState | None:
        rows = self._ledger.rows(f"SELECT {STATE} FROM table_state WHERE job = ? AND source = ?", job, str(table))
        return state_of(rows[0]) if rows else None

    def others(self, job: str) -> frozenset[TableId]:
        return frozenset()

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        self.save_tables(job, [(state, before)])

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        """Write states as the contract says. A table whose rows are all there gets its manifest first, and is through then:
        what comes behind its rows is the trail's."""
        with self._ledger.transaction() as connection:
            for state, before in states:
                self._require(connection, job, state.source, before)
            kept = [self._through(connection, job, state) for state, _ in states]
            for state in kept:
                put_state(connection, job, state)
        through = [manifests.folder(state.source) for state in kept if state.is_streaming]
        with suppress(StorageFull):  # whoever drops segments tries it again
            load_readers.sweep(self._trail, through)
        self._note_complete(job)

    def forget_table(self, job: str, before: TableState) -> None:
        with self._ledger.transaction() as connection:
            self._require(connection, job, before.source, before)
            for table in ("table_state", "chunk"):
                connection.execute(f"DELETE FROM {table} WHERE job = ? AND source = ?", (job, str(before.source)))
            go_on_numbering(connection, job, before.source, manifests.last_number(self._trail, before.source))

    def _require(self, connection: SealingConnection, job: str, table: TableId, before: TableState | None) -> None:
        found = one_state(connection, job, table)
        if (found.place if found else None) != (before.place if before else None):
            hint = "another load of it goes on: let one of them end"
            raise Fenced("the table's state was changed meanwhile", job=job, table=str(table), hint=hint)

    def _through(self, connection: SealingConnection, job: str, state: TableState) -> TableState:
        if not state.is_loaded:
            return state
        rows = connection.execute(
            f"SELECT {CHUNK} FROM chunk WHERE job = ? AND source = ? AND generation = ? ORDER BY number",
            (job, str(state.source), state.generation),
        ).fetchall()
        known = state.schema or (one_state(connection, job, state.source) or state).schema
        assert known is not None, "its load has begun by a definition"
        reach("trail.load.manifest")
        columns, chunks = columns_of(connection, job, state.source), tuple(map(recorded, rows))
        number = self._ledger.number(job, state.source, state.generation)
        manifests.save(self._trail, Manifest(state.source, number, known.version, columns, chunks))
        reach("trail.load.through")
        return note_built(stream(arrive(state)))

    def _note_complete(self, job: str) -> None:
        """Say in the trail that the first load has ended, once no table of it is open."""
        if not self._ledger.rows("SELECT 1 FROM job WHERE job = ? AND is_begun", job):
            return
        states = self.tables(job, whole=False).values()
        if any(state.is_open for state in states) or manifests.is_complete(self._trail):
            return
        manifests.complete(self._trail, {state.source: state.reason for state in states if state.is_parked})

    # --- what only rows at a target can bring about ------------------------------------------------------------------

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        return []

    def forget_conflicts(self, job: str, upto: int) -> int:
        return 0

    def ddl_changes(self, job: str, table: TableId | None = None) -> list[DdlChange]:
        return []

    def skip(self, job: str, one: Skipped) -> None:
        raise StateError(
            "a transaction cannot be left out of a trail", job=job, hint="leave it out where it is applied"
        )

    def skipped(self, job: str) -> list[Skipped]:
        return []

    def unskip(self, job: str, sequence: int) -> bool:
        return False

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        return False

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        return []

    def set_aside(self, job: str, table: TableId | None = None, discarded: bool = False) -> list[AsideChange]:
        return []

    def count_aside(self, job: str) -> Mapping[TableId, int]:
        return {}

    def forget_aside(self, job: str, table: TableId) -> None:
        """Do nothing: nothing is set aside."""

    def asked(self, job: str) -> bool:
        return False

    def wish(self, job: str, numbers: Sequence[int], wish: str, reason: str = "") -> int:
        return 0

    def cutover_notes(self, job: str) -> list[CutoverNote]:
        return []

    def note_cutover(self, job: str, note: CutoverNote) -> None:
        raise StateError(NOTHING, job=job)

    def verified(self, job: str) -> list[Verified]:
        return []

    def note_verified(self, job: str, found: Verified, before: int = 0) -> bool:
        raise StateError(NOTHING, job=job)

    def forget_verified(self, job: str, table: TableId) -> None:
        """Do nothing: no result is kept."""
