"""The load into a trail: tables that are not made anywhere, and a file for each chunk.

Delivery: a chunk's file is durable before the ledger names it; a chunk that is done is never loaded again, and a file that the
ledger does not name is nobody's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anabranch.contracts import Bounds, Enforced, LoadedChunk, NewLoad, ValueRules
from anabranch.errors import Fenced, StateError
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep
from anabranch.model.table_life import begin, heard_of
from anabranch.rows.aside import AsideChange
from anabranch.rows.keys import EnforcedKey, UniqueKey
from anabranch.rows.net import TargetTable
from anabranch.trail.failures import writing
from anabranch.trail_end import chunk_files
from anabranch.trail_end.ledger import CHUNK, Ledger, chunk_of, go_on_numbering, one_state, put_chunks, put_state
from anabranch.trail_end.manifests import ChunkFile, folder, last_number


@dataclass(frozen=True, slots=True)
class _Written:
    """A chunk whose file is there, and that the ledger does not name yet."""

    job: str
    table: TableId
    generation: int
    number: int
    marks: tuple[str, str]
    file: ChunkFile


@dataclass
class TrailLoader:
    """Loader, TargetTables and TargetCatalog of a trail."""

    trail: Path
    _ledger: Ledger = field(init=False)
    _together: list[_Written] | None = None

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.trail)

    def close(self) -> None:
        self._ledger.close()

    # --- Loader -----------------------------------------------------------------------------------------------------

    def begin_generation(
        self, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool = False
    ) -> None:
        with self._ledger.transaction() as connection:
            last = one_state(connection, job, table.source) or heard_of(table.source, table.target)
            if last.generation > generation:
                raise Fenced(f"load {generation} of the table was replaced by load {last.generation}")
            if last.generation == generation and self.chunks(job, table.source, generation):
                return
            if not last.generation:
                go_on_numbering(connection, job, table.source, last_number(self.trail, table.source))
            put_state(connection, job, begin(last, generation))
            put_chunks(connection, job, table, generation, bounds)

    def begin_new(
        self, job: str, loads: Sequence[NewLoad], rules: ValueRules, beside: Collection[TableId]
    ) -> frozenset[TableId]:
        begun = set()
        with self._ledger.transaction() as connection:
            for one in loads:
                found = one_state(connection, job, one.table.source)
                if (found.place if found else None) != (one.before.place if one.before else None):
                    continue
                if found is None or not found.generation:
                    go_on_numbering(connection, job, one.table.source, last_number(self.trail, one.table.source))
                put_state(connection, job, one.state)
                put_chunks(connection, job, one.table, one.state.generation, one.bounds)
                begun.add(one.table.source)
        return frozenset(begun)

    def chunks(self, job: str, source: TableId, generation: int) -> list[LoadedChunk]:
        query = f"SELECT {CHUNK} FROM chunk WHERE job = ? AND source = ? AND generation = ? ORDER BY number"
        return [chunk_of(row) for row in self._ledger.rows(query, job, str(source), generation)]

    def ledgers(self, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
        return {source: self.chunks(job, source, generation) for source, generation in generations.items()}

    @contextmanager
    def together(self) -> Iterator[None]:
        self._together = []
        try:
            yield
            self._commit(self._together)
        finally:
            self._together = None

    def load_chunk(
        self,
        job: str,
        table: TargetTable,
        generation: int,
        number: int,
        marks: tuple[str, str],
        lines: Iterable[bytes],
        left_out: Callable[[], Sequence[AsideChange]] = tuple,
    ) -> int:
        done = {chunk.number: chunk.rows for chunk in self.chunks(job, table.source, generation)}
        if (rows := done.get(number)) is not None:
            return rows
        place = f"{folder(table.source)}/{self._ledger.number(job, table.source, generation)}"
        with writing(f"rows of {table.source}"):
            (self.trail / place).mkdir(parents=True, exist_ok=True)
        name = (
            f"{place}/{number:06}-{uuid.uuid4().hex[:12]}.arrow"  # two tasks may be at it: each has a file of its own
        )
        file = chunk_files.write(self.trail, name, table.source_columns, lines)
        if left_out():
            raise StateError("rows are set aside where they are applied", job=job, table=str(table.source))
        reach("trail.load.file")
        written = _Written(job, table.source, generation, number, marks, file)
        if self._together is None:
            self._commit([written])
        else:
            self._together.append(written)
        return file.rows

    def _commit(self, written: Sequence[_Written]) -> None:
        with self._ledger.transaction() as connection:
            for one in written:
                state = one_state(connection, one.job, one.table)
                if state is None or state.generation != one.generation or not state.is_loading:
                    raise Fenced(f"load {one.generation} of the table is over", job=one.job, table=str(one.table))
                file, (low, high) = one.file, one.marks
                done = file.rows, low, high, file.name, file.bytes, file.sha256
                connection.execute(
                    "UPDATE chunk SET rows = ?, low = ?, high = ?, file = ?, bytes = ?, sha256 = ? WHERE job = ? AND source = ?"
                    " AND generation = ? AND number = ? AND rows IS NULL",
                    (*done, one.job, str(one.table), one.generation, one.number),
                )

    # --- TargetTables: nothing is made where rows are files --------------------------------------------------------

    def create_table(
        self,
        schema: TableSchema,
        table: TargetTable,
        rules: ValueRules,
        recreate: bool,
        beside: Collection[TableId] = (),
        load: tuple[str, int] | None = None,
    ) -> None:
        """Do nothing: its definition is in the trail."""

    def script(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Iterator[DdlStep]:
        return iter(())

    def take_off_keys(self, job: str, table: TargetTable) -> None:
        """Do nothing: nothing is enforced."""

    def index_cascades(self, schema: TableSchema, table: TargetTable) -> None:
        """Do nothing: rows are looked for where they are applied."""

    def build(
        self, job: str, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
    ) -> list[str]:
        return []

    def build_small(
        self,
        job: str,
        tables: Sequence[tuple[TableSchema, TargetTable]],
        resolve: Callable[[TableId], TargetTable | None],
    ) -> dict[TableId, list[str]]:
        return {table.source: [] for _, table in tables}

    def raise_sequences(self, tables: Sequence[TargetTable]) -> list[str]:
        return []

    # --- TargetCatalog ----------------------------------------------------------------------------------------------

    def unique_keys(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[UniqueKey]]:
        return {}

    def guards(self, tables: Sequence[TargetTable]) -> Enforced:
        return Enforced(False, False)

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        return ()
