"""The plan of a load: tables, their chunks, and where an interrupted load goes on.

The ledger at the target is the truth (K29): chunks that are in it keep their bounds and are loaded once. The exception
is a table without a key that was cut by where its rows lie: its chunks are one table only in the snapshot of the first
of them, which ends with the load that shares it. Another load begins such a table anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from anabranch import pace
from anabranch.contracts import (
    Bounds,
    LoadedChunk,
    Loader,
    NewLoad,
    RowTarget,
    SharingReader,
    SnapshotReader,
    SourceConnector,
    StandingTables,
    TargetStore,
    TargetTables,
    ValueRules,
)
from anabranch.errors import SchemaError
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_facts import NO_FACTS
from anabranch.model.table_life import TableState, begin, give_up_place, prepare
from anabranch.rows.net import TargetTable
from anabranch.spark.where import Named

CHUNKS = 8  # of a table
AT_ONCE = 64  # new tables that are begun in one transaction


@dataclass(frozen=True)
class LoadTable:
    """A table's load. `generation` counts its loads from 1; the same number again goes on with an interrupted one.

    - `empty`: rows of the target table are removed in the generation's first transaction; `recreate`: the table itself
      is.
    - `exact`: all rows are of one moment of the log (order.py); keyless tables always are.
    - `changed_with`: tables whose changes change rows of this one, unseen in the log.
    - `together`: tables whose rows must all be of the same moment as this one's.
    - `joins`: the others stream already (K15).
    - `keep`: rows of other jobs that are there stay.
    - `may_lack`: source columns whose values need not be convertible: a row without one is set aside, up to
      `aside_limit` of the table.
    - `anew`: a load that cannot go on begins once more, as the target has it, with rows of its own there to remove.
    """

    schema: TableSchema
    table: TargetTable
    filter: Named | None = None
    generation: int = 1
    empty: bool = False
    recreate: bool = False
    exact: bool = False
    changed_with: frozenset[TableId] = frozenset()
    together: frozenset[TableId] = frozenset()
    joins: bool = False
    keep: bool = False
    may_lack: frozenset[str] = frozenset()
    aside_limit: int = 0
    anew: bool = False


@dataclass(frozen=True)
class LoadPiece:
    """A chunk that is not loaded yet. `form`: in which its table takes rows unread (RawLoader), "" for lines; a piece has it
    for itself, because what is told of all tables would be carried by each task."""

    load: LoadTable
    number: int
    bounds: Bounds
    form: str = ""

    @property
    def is_placed(self) -> bool:
        """True if it is a piece only in the snapshot that the table's others are read in."""
        return is_placed(self.load.schema, self.bounds)


def is_placed(schema: TableSchema, bounds: Bounds) -> bool:
    return not schema.primary_key and bounds != Bounds()


@dataclass(frozen=True)
class Knot:
    """All of some tables, read in one snapshot and committed as one."""

    pieces: tuple[LoadPiece, ...]

    @property
    def load(self) -> LoadTable:
        """The load that the knot is reported under: its first table's."""
        return self.pieces[0].load


def pieces_of(piece: LoadPiece | Knot) -> tuple[LoadPiece, ...]:
    return piece.pieces if isinstance(piece, Knot) else (piece,)


@dataclass(frozen=True)
class PlannedLoad:
    """A table with its ledger as it stands."""

    load: LoadTable
    chunks: tuple[LoadedChunk, ...]
    estimate: int

    @property
    def pieces(self) -> list[LoadPiece]:
        return [LoadPiece(self.load, chunk.number, chunk.bounds) for chunk in self.chunks if chunk.rows is None]

    @property
    def rows(self) -> int:
        return sum(chunk.rows or 0 for chunk in self.chunks)


def plan(
    job: str,
    source: SourceConnector,
    target: RowTarget,
    tables: list[LoadTable],
    *,
    rows_per_chunk: int | None = None,
    rules: ValueRules,
    expected_identity: str,
    by_place: bool = True,
) -> list[PlannedLoad]:
    """Begin every table's generation, or find where it stands; large tables first. Tables that stream are left out.
    `rows_per_chunk`: None leaves it to the table's size. `by_place`: large tables without a key may be cut where the source
    can. A load that has to begin anew takes its place in `tables`: who plans again, because others were in the way, goes on
    with it."""
    with (
        closing(target.store()) as store,
        closing(target.tables(rules)) as made,
        closing(target.loader(rules)) as loader,
        closing(source.snapshot(expected_identity)) as snapshot,
    ):
        beside = frozenset(load.table.target for load in tables)
        planner = _Planner(job, store, made, loader, snapshot, rows_per_chunk, rules, beside, by_place, tables)
        states = store.states.tables(job)
        found = [*planner.new(tables, states), *(planner.table(load, states) for load in tables)]
    return sorted((one for one in found if one), key=lambda one: -one.estimate)


@dataclass(frozen=True)
class _Planner:
    job: str
    store: TargetStore
    tables: TargetTables
    loader: Loader
    snapshot: SnapshotReader
    rows_per_chunk: int | None
    rules: ValueRules
    beside: frozenset[TableId]
    by_place: bool
    wanted: list[LoadTable]  # of the caller
    begun: set[TableId] = field(default_factory=set)
    estimates: dict[TableId, int] = field(default_factory=dict)

    def new(self, tables: Sequence[LoadTable], states: Mapping[TableId, TableState]) -> Iterator[PlannedLoad]:
        """Yield tables that the target knows nothing of yet, many at a time. Which are begun stands in `begun`."""
        fresh = [load for load in tables if _is_new(load, states.get(load.schema.id))]
        for first in range(0, len(fresh), AT_ONCE):
            loads = fresh[first : first + AT_ONCE]
            news = {load.schema.id: self._new(load, states.get(load.schema.id)) for load in loads}
            begun = self.loader.begin_new(self.job, list(news.values()), self.rules, self.beside)
            _have_begun()
            self.begun.update(begun)
            for load in loads:
                if load.schema.id in begun:
                    chunks = tuple(LoadedChunk(n, one) for n, one in enumerate(news[load.schema.id].bounds))
                    yield PlannedLoad(load, chunks, self._estimate(load.schema))

    def _new(self, load: LoadTable, before: TableState | None) -> NewLoad:
        state = begin(prepare(before, load.schema, load.table.target), load.generation)
        return NewLoad(load.schema, load.table, state, before, self._bounds(load))

    def _estimate(self, schema: TableSchema) -> int:
        """Estimate a table's rows; the source is asked once."""
        if schema.id not in self.estimates:
            self.estimates[schema.id] = self.snapshot.estimate(schema)
        return self.estimates[schema.id]

    def table(self, load: LoadTable, states: Mapping[TableId, TableState]) -> PlannedLoad | None:
        if load.schema.id in self.begun:
            return None
        state = states.get(load.schema.id)
        begun = state is not None and state.generation == load.generation
        if begun and state is not None:
            if not state.is_loading or state.is_loaded:
                return None
            _refuse_another_definition(load, state)
            self._refuse_other_columns(load)
        chunks = self.loader.chunks(self.job, load.schema.id, load.generation) if begun else []
        if not chunks:
            chunks = self._begin_generation(load) if load.anew else self._begin(load, state)
        elif any(chunk.rows is None and is_placed(load.schema, chunk.bounds) for chunk in chunks):
            anew = replace(load, generation=load.generation + 1, empty=True, recreate=False, anew=True)
            self.wanted[self.wanted.index(load)] = anew  # first: when others are in the way, it may be half begun
            load, chunks = anew, self._begin_generation(anew)
        return PlannedLoad(load, tuple(chunks), self._estimate(load.schema))

    def _refuse_other_columns(self, load: LoadTable) -> None:
        """Refuse to go on with a load whose rows would be written otherwise now than those that are there."""
        if isinstance(self.tables, StandingTables) and (other := self.tables.differences(load.schema, load.table)):
            raise _changed(load, f"what the job makes of it ({'; '.join(other)})")

    def _begin(self, load: LoadTable, state: TableState | None) -> list[LoadedChunk]:
        """Begin a table's load. The definition is saved before the generation begins, so that a ledger never stands
        beside another load's facts. A table that is dropped first cannot go on from where it was parked: its state says so
        before, in case that this process ends in between.
        """
        of = (self.job, load.generation)
        if load.recreate and state is not None and {state.facts.resumes, state.facts.stood} != {None}:
            state, before = give_up_place(state), state
            self.store.states.save_table(self.job, state, before)
        self.tables.create_table(load.schema, load.table, self.rules, load.recreate, self.beside, of)
        pending = prepare(state, load.schema, load.table.target, load.joins, load.keep)
        self.store.states.save_table(self.job, pending, state)
        reach("load.table.created")
        return self._begin_generation(load)

    def _begin_generation(self, load: LoadTable) -> list[LoadedChunk]:
        bounds = self._bounds(load)
        self.loader.begin_generation(self.job, load.table, load.generation, bounds, load.empty, load.keep)
        _have_begun()
        return self.loader.chunks(self.job, load.schema.id, load.generation)

    def _bounds(self, load: LoadTable) -> list[Bounds]:
        """Cut a table into chunks. One that keeps rows of other jobs is not cut by place: it could not be emptied and
        begun anew.
        """
        if not load.exact:
            return self.snapshot.bounds(load.schema, self._chunk_rows(load))
        if load.schema.primary_key or load.keep or load.together or not self.by_place:
            return [Bounds()]
        if not isinstance(self.snapshot, SharingReader):
            return [Bounds()]
        return self.snapshot.places(load.schema, self._chunk_rows(load))

    def _chunk_rows(self, load: LoadTable) -> int:
        return self.rows_per_chunk or chunk_rows(self._estimate(load.schema))


def _have_begun() -> None:
    reach("load.generation")


def _is_new(load: LoadTable, state: TableState | None) -> bool:
    """Return whether nothing of the table was ever here, and nothing is asked for but to load it."""
    is_first = state is None or (state.is_unbegun and state.facts == NO_FACTS)
    return is_first and load.generation == 1 and not (load.recreate or load.joins or load.keep)


def chunk_rows(rows: int) -> int:
    """Return the rows of a chunk, for a table of so many rows.

    Chunks are enough for tasks side by side, and few enough that the overhead of each (connections, a snapshot, a
    commit: a tenth of a second) does not count.
    """
    least, most = pace.current.load_rows
    return min(max(rows // CHUNKS, least), most)


def _refuse_another_definition(load: LoadTable, state: TableState) -> None:
    if state.schema is not None and not state.schema.same_definition(load.schema):
        raise _changed(load, "the definition")


def _changed(load: LoadTable, what: str) -> SchemaError:
    hint = f"load it again: anabranch load JOB --table {load.schema.id.typed} --recreate"
    return SchemaError(f"{what} changed while the table was being loaded", table=str(load.schema.id), hint=hint)
