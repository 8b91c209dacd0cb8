"""Snapshots, chunks and the ledger of the twin. A snapshot is exact: low and high are one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any

from anabranch.abc import Bounds, LoadedChunk, NewLoad, ValueRules
from anabranch.connectors.memory.capture import mark
from anabranch.connectors.memory.database import Database, Relation, Row, Texts, database
from anabranch.connectors.memory.store import add_aside, forget_aside, place_of
from anabranch.errors import Fenced, RowRefused, SourceError, TargetError, ValueRefused
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.model.state import TableState
from anabranch.model.steps import DdlStep
from anabranch.rows.aside import AsideChange
from anabranch.rows.keys import EnforcedKey
from anabranch.rows.lines import escaped_line, parse_line
from anabranch.rows.net import TargetTable
from anabranch.rows.raw import parse_text

BLOCK_ROWS = 1000


class MemorySnapshot:
    """Delivery: every row inside the bounds as of `open`, exactly once."""

    def __init__(self, name: str, expected: str) -> None:
        self._name, self._expected = name, expected
        self._tables: Mapping[TableId, Relation] | None = None

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        if not table.primary_key:
            return [Bounds()]
        rows = _in_order(self._now()[table.id])
        ends = [
            _key(table, row) for row in rows[rows_per_chunk - 1 :: rows_per_chunk][: (len(rows) - 1) // rows_per_chunk]
        ]
        edges: list[tuple[str, ...] | None] = [None, *ends, None]
        return [Bounds(lower, upper) for lower, upper in pairwise(edges)]

    def estimate(self, table: TableSchema) -> int:
        return len(self._now()[table.id].rows)

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        found = self._database()
        with found.lock:
            self._tables = {id_: relation.copy() for id_, relation in found.tables.items()}
            here = mark(found.identity, len(found.log))
        return here, here

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        relation = self._now()[table.id]
        lower, upper = (None if end is None else _typed(relation, end) for end in (bounds.lower, bounds.upper))
        rows = _in_order(relation) if bounds != Bounds() else list(relation.rows.values())
        inside = [
            row
            for row in rows
            if (lower is None or _sort_key(relation, row) > lower)
            and (upper is None or _sort_key(relation, row) <= upper)
        ]
        return _blocks(relation, inside, columns, rules)

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        relation = self._now()[table.id]
        places = (relation.find(key) for key in keys)
        return _blocks(relation, [relation.rows[place] for place in places if place is not None], columns, rules)

    def close(self) -> None:
        self._tables = None

    def _database(self) -> Database:
        found = database(self._name)
        if self._expected and found.identity != self._expected:
            raise SourceError(f"the database is {found.identity}, capture follows {self._expected}")
        return found

    def _now(self) -> Mapping[TableId, Relation]:
        """The opened snapshot; without one, the tables as they are."""
        return self._database().tables if self._tables is None else self._tables


def _key(table: TableSchema, row: Row) -> tuple[str, ...]:
    return tuple(row[place] or "" for place in table.key_indexes)


def _typed(relation: Relation, key: Sequence[str | None]) -> tuple[Any, ...]:
    types = [relation.types[relation.columns.index(name)] for name in relation.key]
    return tuple(parse_text(type, text or "") for type, text in zip(types, key, strict=True))


def _sort_key(relation: Relation, row: Row) -> tuple[Any, ...]:
    return _typed(relation, relation.place(relation.texts(row)))


def _in_order(relation: Relation) -> list[Row]:
    return sorted(relation.rows.values(), key=lambda row: _sort_key(relation, row))


def _blocks(relation: Relation, rows: Sequence[Row], columns: Sequence[str], rules: ValueRules) -> Iterator[bytes]:
    places = [relation.columns.index(name) for name in columns]
    for first in range(0, len(rows), BLOCK_ROWS):
        some = rows[first : first + BLOCK_ROWS]
        yield b"".join([escaped_line([_stripped(row[place], rules) for place in places]) for row in some])


def _stripped(text: str | None, rules: ValueRules) -> str | None:
    if text is None or "\0" not in text:
        return text
    if rules.nul != "strip":
        raise ValueRefused("a text holds a zero character", hint='set [types] nul = "strip"')
    return text.replace("\0", "")


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

    def ddl(self, schema: TableSchema, table: TargetTable) -> list[str]:
        columns = ", ".join(f"{name} {type}" for name, type in zip(table.columns, table.types, strict=True))
        return [f"create {table.target} ({columns})"]

    def script(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Iterator[DdlStep]:
        for schema, table in tables:
            yield from (DdlStep("before the load", table.source, statement) for statement in self.ddl(schema, table))

    def begin_generation(
        self, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool = False
    ) -> None:
        with self._database.lock:
            state = self._database.job(job)
            last = state.tables.get(table.source) or TableState(table.source, table.target, "pending")
            if last.generation > generation:
                raise Fenced(f"load {generation} of the table was replaced by load {last.generation}")
            if last.generation == generation and (table.source, generation) in state.chunks:
                return
            if empty and self._is_shared(job, table.target):
                raise TargetError(f"{table.target} has rows of other jobs: it is not emptied", job=job)
            if not keep:
                self._make_room(table.target, empty)
            state.tables[table.source] = replace(
                last, state="loading", generation=generation, low="", high="", reason="", rows_loaded=0
            )
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
        """None are enforced."""

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

    def unique_columns(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[str]]:
        keys = {table: self._database.table(table.target).unique for table in tables}
        ours = {
            t.source: frozenset(name for key in found for name in key) & set(t.columns) for t, found in keys.items()
        }
        return {source: columns for source, columns in ours.items() if columns}

    def has_guards(self, tables: Sequence[TargetTable]) -> bool:
        return False

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        return ()

    def index_cascades(self, schema: TableSchema, table: TargetTable) -> None:
        """The twin has none."""

    def build(
        self, job: str, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
    ) -> list[str]:
        """The twin has unique keys, no other indexes, and checks no foreign keys."""
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
            if table is None or table.generation != generation or table.state != "loading":
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
    """The values, each of its column's type."""
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
