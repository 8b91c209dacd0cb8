"""Databases of this process: tables of text forms, transactions, a log of what they committed, and job state.

A row is a tuple of text forms (rows/lines.py, without escapes). A table with a key holds rows by key, another by number.
Nobody sees an open transaction; commits are in the log in their order.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from anabranch.contracts import LoadedChunk
from anabranch.errors import TargetError
from anabranch.model.cutover import CutoverNote
from anabranch.model.datatype import LogicalType
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow
from anabranch.model.schema import TableSchema
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.table_life import TableState
from anabranch.model.verified import Verified
from anabranch.rows.appended import Appended
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import NotedConflict
from anabranch.rows.net import TableNet

Row = tuple[str | None, ...]
Texts = Mapping[str, str | None]
Place = tuple[str | None, ...] | int


@dataclass
class Relation:
    """A table. `schema` is set where it is a source's; `unique` has its unique keys beside the primary, `checks` say
    which rows it takes; both are one for all copies."""

    id: TableId
    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    key: tuple[str, ...]
    schema: TableSchema | None = None
    rows: dict[Place, Row] = field(default_factory=dict)
    counter: int = 0
    unique: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[Callable[[Texts], bool]] = field(default_factory=list)

    def copy(self) -> Relation:
        made = copy(self)
        made.rows = dict(self.rows)
        return made

    def row(self, values: Texts) -> Row:
        """Return a row of these values; columns that are not named are NULL."""
        return tuple(values.get(name) for name in self.columns)

    def place(self, values: Texts) -> tuple[str | None, ...]:
        return tuple(values[name] for name in self.key)

    def texts(self, row: Row) -> dict[str, str | None]:
        return dict(zip(self.columns, row, strict=True))

    def put(self, row: Row) -> None:
        """Insert, or replace the row that has the key."""
        self.counter += 1
        self.rows[self.place(self.texts(row)) if self.key else self.counter] = row

    def meets(self, values: Texts) -> tuple[str, ...] | None:
        """Return a unique key in which some row has these values; NULL is equal to nothing."""
        return next((key for key in self.unique if self._has(key, values)), None)

    def _has(self, key: tuple[str, ...], values: Texts) -> bool:
        wanted = [(self.columns.index(name), values.get(name)) for name in key]
        if any(value is None for _, value in wanted):
            return False
        return any(all(row[at] == value for at, value in wanted) for row in self.rows.values())

    def find(self, values: Texts) -> Place | None:
        """Find a row that has these values, None if none has."""
        if self.key and all(name in values for name in self.key):
            place = self.place(values)
            return place if place in self.rows else None
        return next((p for p, row in self.rows.items() if values.items() <= self.texts(row).items()), None)


@dataclass(frozen=True, slots=True)
class Image:
    """A row change of a source transaction."""

    table: TableId
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class Commit:
    """An entry of the log: a transaction's images, or one statement; `origin`: of another database that it came from."""

    number: int
    time: int
    images: tuple[Image, ...] = ()
    statement: str = ""
    schema: str = ""
    origin: str | None = None


@dataclass
class JobState:
    """The state that a target keeps for one job."""

    facts: dict[str, str] | None = None
    checkpoint: Checkpoint | None = None
    tables: dict[TableId, TableState] = field(default_factory=dict)
    chunks: dict[tuple[TableId, int], list[LoadedChunk]] = field(default_factory=dict)
    conflicts: list[NotedConflict] = field(default_factory=list)
    ddl: list[DdlChange] = field(default_factory=list)
    aside: dict[int, AsideChange] = field(default_factory=dict)  # by number
    skipped: dict[int, Skipped] = field(default_factory=dict)
    trace: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id
    cutover: list[CutoverNote] = field(default_factory=list)
    verified: dict[TableId, Verified] = field(default_factory=dict)
    deleted: dict[str, DeletedRow] = field(default_factory=dict)  # of a pair, by id
    cleared: set[str] = field(default_factory=set)
    standing: dict[str, StandingRow] = field(default_factory=dict)


@dataclass
class Database:
    name: str
    identity: str = field(default_factory=lambda: str(uuid.uuid4()))
    tables: dict[TableId, Relation] = field(default_factory=dict)
    log: list[Commit] = field(default_factory=list)
    jobs: dict[str, JobState] = field(default_factory=dict)
    staged: dict[str, TableNet] = field(default_factory=dict)
    appended: list[Appended] = field(default_factory=list)  # what committed epochs of an Appender gave, in its order
    ended: dict[TableId, int] = field(default_factory=dict)  # tables of which nothing comes from this sequence on
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_prepared: bool = False
    purged: int = 0  # commits at the log's beginning that are forgotten

    def create(self, schema: TableSchema) -> None:
        """Create a source table."""
        names = tuple(column.name for column in schema.columns)
        types = tuple(column.type for column in schema.columns if column.type is not None)
        with self.lock:
            self.tables[schema.id] = Relation(schema.id, names, types, schema.primary_key, schema)

    @contextmanager
    def transaction(self, origin: str | None = None) -> Iterator[Transaction]:
        """Collect changes that commit together when the block ends, and not at all when it raises."""
        with self.lock:
            open_ = Transaction(self, origin)
            yield open_
            self.commit(open_)

    def commit(self, done: Transaction) -> None:
        self.tables |= done.touched
        if done.images:
            now = time.time_ns() // 1000
            self.log.append(Commit(len(self.log) + 1, now, tuple(done.images), origin=done.origin))

    def execute(self, statement: str, schema: str) -> None:
        """Log a statement; what it does to tables is the caller's business."""
        with self.lock:
            self.log.append(Commit(len(self.log) + 1, time.time_ns() // 1000, (), statement, schema))

    def purge(self) -> None:
        """Forget the log so far. Its entries stay counted."""
        with self.lock:
            self.purged = len(self.log)

    def table(self, table: TableId) -> Relation:
        found = self.tables.get(table)
        if found is None:
            raise TargetError(f"the table {table} does not exist")
        return found

    def pair_notes(self, job: str, limit: int = 0, after: str = "") -> PairNotes:
        with self.lock:
            state = self.job(job)
            above = [id for id in state.deleted if id > after]
            deleted, cleared = (sorted(ids)[: limit or None] for ids in (above, state.cleared))
            return PairNotes(tuple(state.deleted[id] for id in deleted), tuple(cleared))

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        with self.lock:
            every = self.job(job).standing
            return tuple(every[id] for id in sorted(id for id in every if id > after)[:limit])

    def job(self, job: str) -> JobState:
        return self.jobs.setdefault(job, JobState())


class Transaction:
    """Changes of tables that nobody else sees yet."""

    def __init__(self, database: Database, origin: str | None = None) -> None:
        self._database, self.origin = database, origin
        self.touched: dict[TableId, Relation] = {}
        self.images: list[Image] = []

    def table(self, table: TableId) -> Relation:
        """Return the table as this transaction sees it, to be changed."""
        if table not in self.touched:
            self.touched[table] = self._database.table(table).copy()
        return self.touched[table]

    def insert(self, table: TableId, values: Texts) -> None:
        relation = self.table(table)
        row = relation.row(values)
        if relation.key and relation.find(values) is not None:
            raise ValueError(f"{table} has a row with this key")
        relation.put(row)
        self.images.append(Image(table, None, row))

    def update(self, table: TableId, where: Texts, values: Texts) -> None:
        """Update the first row that `where` finds; it may move to another key."""
        relation = self.table(table)
        before = self._take(relation, where)
        after = relation.row({**relation.texts(before), **values})
        relation.put(after)
        self.images.append(Image(table, before, after))

    def delete(self, table: TableId, where: Texts) -> None:
        before = self._take(self.table(table), where)
        self.images.append(Image(table, before, None))

    def _take(self, relation: Relation, where: Texts) -> Row:
        place = relation.find(where)
        if place is None:
            raise ValueError(f"{relation.id} has no such row")
        return relation.rows.pop(place)


_databases: dict[str, Database] = {}
_lock = threading.Lock()


def database(name: str) -> Database:
    """Return the database of this name, made on first use."""
    with _lock:
        return _databases.setdefault(name, Database(name))


def forget(names: Sequence[str] | None = None) -> None:
    """Drop databases, all of them by default."""
    with _lock:
        for name in list(_databases) if names is None else names:
            _databases.pop(name, None)
