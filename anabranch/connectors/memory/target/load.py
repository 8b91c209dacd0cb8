"""Tables, chunks and the ledger of the twin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace

from anabranch.connectors.memory.database import Database, Relation, Texts
from anabranch.connectors.memory.target.store import add_aside, forget_aside, place_of
from anabranch.contracts import Bounds, Enforced, LoadedChunk, NewLoad, ValueRules
from anabranch.errors import Fenced, RowRefused, TargetError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep, When
from anabranch.model.table_life import begin, heard_of
from anabranch.rows.aside import AsideChange
from anabranch.rows.keys import EnforcedKey, UniqueKey
from anabranch.rows.lines import parse_line
from anabranch.rows.net import TargetTable
from anabranch.rows.raw import parse_text


class MemoryLoader:
    """Delivery: a chunk's rows and its ledger entry are there together; a chunk that is done is never loaded again."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create_table(
        self,
        schema: TableSchema,
        table: TargetTable,
        rules: ValueRules,
        recreate: bool,
        beside: Collection[TableId] = (),
        load: tuple[str, int] | None = None,
    ) -> None:
        with self._database.lock:
            if load is not None and recreate:
                last = self._database.job(load[0]).tables.get(table.source)
                if last is not None and last.generation >= load[1]:
                    raise Fenced(f"load {load[1]} of the table has begun already, or {last.generation}")
            if recreate or table.target not in self._database.tables:
                self._database.tables[table.target] = Relation(table.target, table.columns, table.types, table.key)

    def stands(self, table: TargetTable) -> bool:
        with self._database.lock:
            return table.target in self._database.tables

    def script(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Iterator[DdlStep]:
        for _, table in tables:
            columns = ", ".join(f"{name} {type}" for name, type in zip(table.columns, table.types, strict=True))
            yield DdlStep(When.BEFORE_LOAD, table.source, f"create {table.target} ({columns})")

    def begin_generation(
        self, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool = False
    ) -> None:
        with self._database.lock:
            state = self._database.job(job)
            last = state.tables.get(table.source) or heard_of(table.source, table.target)
            if last.generation > generation:
                raise Fenced(f"load {generation} of the table was replaced by load {last.generation}")
            if last.generation == generation and (table.source, generation) in state.chunks:
                return
            begun = begin(last, generation)  # refused before rows are removed
            if empty and self._is_shared(job, table.target):
                raise TargetError(f"{table.target} has rows of other jobs: it is not emptied", job=job)
            if not keep:
                self._make_room(table.target, empty)
            state.tables[table.source] = begun
            forget_aside(state, table.source)
            state.chunks[table.source, generation] = [LoadedChunk(n, b) for n, b in enumerate(bounds)]

    def begin_new(
        self, job: str, loads: Sequence[NewLoad], rules: ValueRules, beside: Collection[TableId]
    ) -> frozenset[TableId]:
        begun = set()
        with self._database.lock:
            state = self._database.job(job)
            for one in loads:
                source, target = one.table.source, one.table.target
                if target in self._database.tables or place_of(state.tables.get(source)) != place_of(one.before):
                    continue
                self.create_table(one.schema, one.table, rules, False)
                state.tables[source] = one.state
                state.chunks[source, one.state.generation] = [LoadedChunk(n, b) for n, b in enumerate(one.bounds)]
                begun.add(source)
        return frozenset(begun)

    def take_off_keys(self, job: str, table: TargetTable) -> None:
        """Do nothing: none are enforced."""

    def chunks(self, job: str, source: TableId, generation: int) -> list[LoadedChunk]:
        with self._database.lock:
            return list(self._database.job(job).chunks.get((source, generation), []))

    def ledgers(self, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
        return {source: self.chunks(job, source, generation) for source, generation in generations.items()}

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._database.lock:
            tables, jobs = dict(self._database.tables), deepcopy(self._database.jobs)
            try:
                yield
            except BaseException:  # whatever it was: put back, and passed on
                self._database.tables, self._database.jobs = tables, jobs
                raise

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
        chunk = self._enter(job, table.source, generation, number)
        if chunk.rows is not None:
            return chunk.rows
        lines_ = (line for block in lines for line in block.split(b"\n")[:-1])
        rows = [_checked(table, dict(zip(table.columns, parse_line(line), strict=True)), job) for line in lines_]
        low, high = marks
        with self._database.lock:
            chunk = self._enter(job, table.source, generation, number)
            if chunk.rows is not None:
                return chunk.rows
            self._add(rows, table, job)
            chunks = self._database.job(job).chunks[table.source, generation]
            chunks[number] = replace(chunk, rows=len(rows), low=low, high=high)
            for change in left_out():
                add_aside(self._database.job(job), change)
        return len(rows)

    def unique_keys(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[UniqueKey]]:
        found = {table: map(frozenset, self._database.table(table.target).unique) for table in tables}
        ours = {
            t.source: frozenset(UniqueKey(k & set(t.columns), k <= set(t.columns)) for k in keys if k & set(t.columns))
            for t, keys in found.items()
        }
        return {source: keys for source, keys in ours.items() if keys}

    def guards(self, tables: Sequence[TargetTable]) -> Enforced:
        return Enforced(keys=False, triggers=False)

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        return ()

    def index_cascades(self, schema: TableSchema, table: TargetTable) -> None:
        """Do nothing: the twin has no indexes."""

    def build(
        self, job: str, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
    ) -> list[str]:
        """Add unique keys; the twin has no other indexes, and checks no foreign keys."""
        names = dict(zip(table.source_columns, table.columns, strict=True))
        with self._database.lock:
            relation = self._database.table(table.target)
            keys = [tuple(names[column] for column in index.columns) for index in schema.indexes if index.unique]
            relation.unique.extend(key for key in keys if key not in relation.unique)
        return []

    def build_small(
        self,
        job: str,
        tables: Sequence[tuple[TableSchema, TargetTable]],
        resolve: Callable[[TableId], TargetTable | None],
    ) -> dict[TableId, list[str]]:
        return {table.source: self.build(job, schema, table, resolve) for schema, table in tables}

    def raise_sequences(self, tables: Sequence[TargetTable]) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def _is_shared(self, job: str, target: TableId) -> bool:
        others = (of.tables.values() for name, of in self._database.jobs.items() if name != job)
        return any(state.target == target for tables in others for state in tables)

    def _make_room(self, target: TableId, empty: bool) -> None:
        rows = self._database.table(target).rows
        if rows and not empty:
            raise TargetError(f"the target table {target} holds rows", hint='[load] existing = "empty"')
        rows.clear()

    def _enter(self, job: str, source: TableId, generation: int, number: int) -> LoadedChunk:
        with self._database.lock:
            state = self._database.job(job)
            table = state.tables.get(source)
            if table is None or table.generation != generation or not table.is_loading:
                raise Fenced(f"load {generation} of the table is over", table=str(source))
            return state.chunks[source, generation][number]

    def _add(self, rows: Sequence[Texts], table: TargetTable, job: str) -> None:
        made = self._database.table(table.target).copy()
        for values in rows:
            if made.key and made.find(values) is not None:
                raise _refusal(table, values, "the key is there already", job)
            made.put(made.row(values))
        self._database.tables[table.target] = made


def _checked(table: TargetTable, values: Texts, job: str) -> Texts:
    """Return the values if each is one of its column's type."""
    for name, type in zip(table.columns, table.types, strict=True):
        text = values[name]
        try:
            if text is not None:
                parse_text(type, text)
        except ValueError:
            raise _refusal(table, values, f"column {name} is no {type}", job) from None
    return values


def _refusal(table: TargetTable, values: Texts, what: str, job: str) -> RowRefused:
    key = ", ".join(f"{name}={values[name]}" for name in table.key) or "the row has no key"
    return RowRefused(f"{what}; key {key}", job=job, table=str(table.source))
