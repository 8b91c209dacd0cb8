"""A source of tables with foreign keys that behaves as InnoDB does, its log without what the keys did, and an applier that
brings it to a real PostgreSQL: as a superuser, or as an ordinary user on whom the target's keys act."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.order import key_order
from anabranch.connectors.postgresql.target import connector as target
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Action, ForeignKey, Index, TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from anabranch.rows.conflict import STRICT, ConflictPolicy
from anabranch.rows.net import TargetTable
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.chunks import INT, chunk_of, reference, schema
from rigs.endpoints import endpoint_of

RULES = ValueRules()
JOB = "shop"
Row = dict[str, Any]
Change = tuple[Any, ...]


class Refused(Exception):
    """The source's keys do not let it through."""


def table(name: str, columns: str, *keys: ForeignKey, unique: str = "", is_keyless: bool = False) -> TableSchema:
    made = schema(name, dict.fromkeys(["id", *columns.split()], INT), [] if is_keyless else ["id"], keys)
    return replace(made, indexes=(Index(f"one_{unique}", (unique,), True),)) if unique else made


def key(column: str, parent: str, on_delete: Action, on_update: Action = Action.RESTRICT, to: str = "id") -> ForeignKey:
    return replace(reference([column], parent, on_delete, on_update, (to,)), name=f"fk_{column}")


@dataclass
class Source:
    """Rows by key; `log` has the open transaction's changes, as the log would."""

    schemas: Sequence[TableSchema]
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    done: list[list[Change]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {s.id.name: {} for s in self.schemas}

    def insert(self, name: str, **values: Any) -> None:
        if values["id"] in self.rows[name]:
            raise Refused
        self._require(name, values)
        self.rows[name][values["id"]] = dict(values)
        self.log.append((name, "i", dict(values)))

    def update(self, name: str, number: int, **values: Any) -> None:
        with self._statement():
            old = self.rows[name].pop(number)
            new = {**old, **values}
            if new["id"] in self.rows[name]:
                raise Refused
            self._follow(name, old, new)
            self._require(name, new)
            self.rows[name][new["id"]] = new
            self.log.append((name, "u", old, new))

    def delete(self, name: str, number: int) -> None:
        with self._statement():
            old = self.rows[name].pop(number)
            self._follow(name, old, None)
            self.log.append((name, "d", old))

    def commit(self) -> None:
        self.done.append(self.log)
        self.log = []

    @contextmanager
    def _statement(self) -> Iterator[None]:
        before = {name: {n: dict(row) for n, row in rows.items()} for name, rows in self.rows.items()}
        try:
            yield
        except (Refused, KeyError):
            self.rows = before
            raise Refused from None

    def _require(self, name: str, row: Row) -> None:
        """Parents that are there, or the row itself; of values that others refer to each once."""
        for child, one in self._keys():
            value, column = row.get(one.columns[0]) if child == name else None, one.parent_columns[0]
            parents = [*self.rows[one.parent.name].values(), *([row] if one.parent.name == name else [])]
            if value is not None and value not in [parent[column] for parent in parents]:
                raise Refused
            if one.parent.name == name and row[column] in [other[column] for other in self.rows[name].values()]:
                raise Refused

    def _follow(self, name: str, old: Row, new: Row | None) -> None:
        """What the keys do to children of a row that goes or gets another value: not logged."""
        for child, one in self._keys():
            column, to = one.columns[0], one.parent_columns[0]
            if one.parent.name != name or old[to] is None or (new and old[to] == new[to]):
                continue
            action = one.on_delete if new is None else one.on_update
            for number in [n for n, row in self.rows[child].items() if row[column] == old[to]]:
                if action is Action.RESTRICT:
                    raise Refused
                if action is Action.CASCADE and new is None:
                    gone = self.rows[child].pop(number, None)
                    if gone:
                        self._follow(child, gone, None)
                elif number in self.rows[child]:
                    before = self.rows[child].pop(number)
                    after = {**before, column: new[to] if new and action is Action.CASCADE else None}
                    if after["id"] in self.rows[child]:
                        raise Refused
                    self._follow(child, before, after)
                    self.rows[child][after["id"]] = after

    def _keys(self) -> Iterator[tuple[str, ForeignKey]]:
        return ((s.id.name, one) for s in self.schemas for one in s.foreign_keys)


def transaction(source: Source, pick: random.Random, moves: float = 0.1) -> None:
    """Some changes, of which the source refuses what its keys forbid. `moves`: the part of them that give a row another key."""
    for _ in range(pick.randrange(1, 7)):
        try:
            _change_something(source, pick, moves)
        except (Refused, KeyError):
            continue
    if source.log:
        source.commit()


def _change_something(source: Source, pick: random.Random, moves: float) -> None:
    name = pick.choice([s.id.name for s in source.schemas])
    number = pick.randrange(1, 9)
    columns = [c.name for c in next(s for s in source.schemas if s.id.name == name).columns if c.name != "id"]
    values = {column: pick.choice([None, *range(1, 9)]) for column in columns}
    what = pick.random()
    if what < 0.5:
        source.insert(name, id=number, **values)
    elif what < 0.85 - moves:
        source.update(name, number, **values)
    elif what < 0.85:
        source.update(name, number, id=pick.randrange(1, 12))
    else:
        source.delete(name, number)


def with_keys_off(chunk: Chunk) -> Chunk:
    tables = (replace(t, shapes=tuple(replace(s, keys_off=True) for s in t.shapes)) for t in chunk.tables)
    return replace(chunk, tables=tuple(tables))


@dataclass
class Rig:
    """One applier of one job, over a trail of its own, into a schema of its own."""

    database: Any
    schemas: Sequence[TableSchema]
    applier: Applier
    trail: TrailWriter
    where: str
    connector: Any
    targets: Sequence[TargetTable]

    def log(self, *transactions: Sequence[Change], keys_off: bool = False) -> int:
        chunk = chunk_of(transactions, self.schemas, 0)
        self.trail.append(with_keys_off(chunk) if keys_off else chunk)
        self.trail.flush()
        return self.trail.end.position.sequence

    def apply(self, *transactions: Sequence[Change], keys_off: bool = False) -> int:
        """How many epochs, or transactions, went the slow way."""
        before = self.applier.progress.totals.slow_epochs
        self.applier.apply(self.log(*transactions, keys_off=keys_off))
        return self.applier.progress.totals.slow_epochs - before

    def truncate(self, *names: str) -> None:
        """In one statement."""
        tables = [next(s.id for s in self.schemas if s.id.name == name) for name in names]
        barriers = [Barrier(0, 0, BarrierKind.TRUNCATE, table) for table in tables]
        self.trail.append(chunk_of([[]], self.schemas, 0, barriers))
        self.trail.flush()
        self.applier.apply(self.trail.end.position.sequence)

    def pass_over(self) -> None:
        """What was refused is left out, as if a person had mended it."""
        self.applier.progress.look()
        self.applier.progress.move_on(self.trail.end.position, 0)

    def rows(self) -> dict[str, dict[int, Row]]:
        found = {}
        for one in self.schemas:
            names = [c.name for c in one.columns]
            rows = self.database.query(f"SELECT {', '.join(names)} FROM {self.where}.{one.id.name}")
            found[one.id.name] = {row[0]: dict(zip(names, row, strict=True)) for row in rows}
        return found

    def close(self) -> None:
        self.applier.progress.writer.close()
        self.applier.progress.store.close()
        self.applier.progress.trail.close()
        self.trail.close()


@contextmanager
def ordinary_user(database: Any) -> Iterator[str]:
    """A user that may make tables in the database and nothing else."""
    user = "plain_" + database.name[-12:]
    database.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'p'", f"GRANT CREATE ON DATABASE {database.name} TO {user}")
    yield user
    database.execute(f"DROP OWNED BY {user} CASCADE", f"DROP ROLE {user}")


def rig(
    database: Any,
    schemas: Sequence[TableSchema],
    directory: Path,
    user: str = "",
    where: str = "on",
    statements: Sequence[str] = (),
    build: bool = True,
    policies: Mapping[str, ConflictPolicy] | None = None,
    parks: bool = False,
    aside: int = 0,
    **trails: Any,
) -> Rig:
    """Tables are made by the load's own code, and so are keys, if `build`; `statements` run then. `policies` by table.
    `aside`: how many changes of a table may be set aside. `trails`: as TrailWriter.open has them."""
    job, where = f"{JOB}_{where}", f"keys_{where}"
    connector = target(endpoint_of(database, user, "p" if user else ""))
    loader, store = connector.loader(RULES), connector.store()
    store.prepare()
    store.create_checkpoint(job, Position(0, ""), 0)
    targets = {s.id: _target(s, where) for s in schemas}
    trail = TrailWriter.open(directory / where, job=job, job_uuid="u", source_identity="s", pack=False, **trails)
    for one in schemas:
        loader.create_table(one, targets[one.id], RULES, False)
        store.save_table(job, TableState(one.id, targets[one.id].target, "streaming", schema=one), None)
        trail.schema(one)
    for one in schemas if build else ():
        assert loader.build(job, one, targets[one.id], targets.get) == []
    database.execute(*(f"SET search_path TO {where}; {statement}" for statement in statements))
    writer = connector.writer(RULES, True)
    writer.claim(job, "me")

    def context(states: Mapping[TableId, TableState]) -> ApplyContext:
        chosen = policies or {}
        mine = [s for s in schemas if states[s.id].state != "parked" and not states[s.id].facts.joins]
        tables = {s.id: Followed(s, targets[s.id], on_conflict=chosen.get(s.id.name, STRICT)) for s in mine}
        with closing(connector.catalog()) as catalog:
            enforced = catalog.foreign_keys(list(targets.values()))
        keys = None if not writer.enforced().keys else key_order({s.id: s for s in schemas}, targets, enforced)
        return ApplyContext(tables, rules_of(tables), "truncate", keys)

    reader = TrailReader(directory / where)
    applier = an_applier(
        job, reader, writer, store, context, parks=parks, sets_aside=aside > 0, aside_limit=aside or 1000
    )
    applier.progress.look()
    return Rig(database, schemas, applier, trail, where, connector, list(targets.values()))


def _target(one: TableSchema, where: str) -> TargetTable:
    names = tuple(c.name for c in one.columns)
    types = tuple(c.type for c in one.columns if c.type)
    return TargetTable(one.id, TableId(where, one.id.name), names, types, one.primary_key, names)
