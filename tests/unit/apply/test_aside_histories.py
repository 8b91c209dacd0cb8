"""Drawn histories of tables with foreign keys and unique values, at a target that refuses some rows: as long as rows are set
aside the target differs in those rows and in nothing else, and once it takes them it ends as the source has (K26)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch import connectors
from anabranch.apply.aside.release import settle_wishes
from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.context import ApplyContext
from anabranch.apply.epoch import Applier
from anabranch.apply.following import Following
from anabranch.apply.life.join import join_loaded
from anabranch.apply.window import WindowResolver
from anabranch.connectors.memory.database import Relation, database, forget
from anabranch.contracts import ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Action, TableSchema
from anabranch.model.table_life import TableState, resume
from anabranch.rows.aside import RELEASE, AsideChange
from anabranch.rows.chunk import META, Chunk, Shape, TableRows, Unconverted
from anabranch.rows.keys import UniqueKey
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import TablesOf, an_applier
from rigs.chunks import chunk_of, followed
from rigs.foreign_keys_postgresql import Refused, Row, Source, key, table

JOB, RULES = "shop", ValueRules()
HISTORIES = 60  # of each part
REFUSED = {"7", "8"}  # values of v
ACTIONS = (Action.RESTRICT, Action.RESTRICT, Action.CASCADE, Action.SET_NULL)
Rows = Mapping[str, Mapping[int, Row]]


class UniqueSource(Source):
    """One that has unique values, too."""

    def _require(self, name: str, row: Row) -> None:
        super()._require(name, row)
        for other in self.rows[name].values():
            if row.get("u") is not None and other["u"] == row["u"]:
                raise Refused


@dataclass
class Rig:
    """A source, its trail, an applier, a target that refuses rows until `mends`; `past`: the source's rows by sequence."""

    source: UniqueSource
    trail: TrailWriter
    applier: Applier
    following: Following
    past: dict[int, Rows] = field(default_factory=dict)
    refuses: bool = True
    is_unconverted: bool = False  # it is the source's reader that can do nothing with those values
    seen: set[str] = field(default_factory=set)

    def takes(self, values: Mapping[str, str | None]) -> bool:
        return not ((self.refuses or self.is_unconverted) and values["v"] in REFUSED)

    def go_on(self, pick: random.Random, transactions: int) -> None:
        """Some transactions of the source in one epoch."""
        for _ in range(transactions):
            self._change(pick)
        chunk = chunk_of(self.source.done, self.source.schemas, 0)
        self.trail.append(without_refused(chunk) if self.is_unconverted else chunk)
        self.trail.flush()
        self.source.done.clear()
        self.applier.apply(self.trail.end.position.sequence)

    def _change(self, pick: random.Random) -> None:
        for _ in range(pick.randrange(1, 4)):
            name = pick.choice([s.id.name for s in self.source.schemas])
            columns = [c.name for c in _schema(self.source, name).columns if c.name != "id"]
            values = {column: pick.choice([None, *range(1, 9)]) for column in columns if pick.random() < 0.8}
            number, what = pick.randrange(1, 7), pick.random()
            try:
                if what < 0.5:
                    self.source.insert(name, **{**dict.fromkeys(columns), **values, "id": number})
                elif what < 0.8:
                    self.source.update(name, number, **values)
                elif what < 0.85:
                    self.source.update(name, number, id=pick.randrange(1, 9))
                else:
                    self.source.delete(name, number)
            except (Refused, KeyError):
                continue
        self.source.commit()
        self.past[self.trail.end.position.sequence + len(self.source.done)] = deepcopy(self.source.rows)

    @property
    def states(self) -> Mapping[TableId, TableState]:
        return self.applier.progress.store.tables(JOB)

    @property
    def waiting(self) -> list[AsideChange]:
        return self.applier.progress.store.set_aside(JOB)

    def release(self) -> None:
        self.applier.progress.store.wish(JOB, [change.number for change in self.waiting], RELEASE)
        settle_wishes(self.applier, self.following)

    def resume(self) -> None:
        for state in self.states.values():
            if state.state == "parked":
                joining = resume(state)
                self.applier.progress.store.save_table(JOB, joining, state)
        join_loaded(self.applier, self.following)

    def rows(self, name: str) -> dict[int, Row]:
        relation = _relation(name)
        texts = [relation.texts(row) for row in relation.rows.values()]
        return {int(row["id"]): _row(row) for row in texts}

    def check(self) -> None:
        """The rule, at this moment."""
        states = self.states
        for one, state in states.items():
            self.seen.add(state.state)
            at = state.facts.resumes if state.is_parked else self.applier.progress.checkpoint.position.sequence
            there, mine = self.rows(one.name), [c for c in self.waiting if c.source == one]
            assert state.facts.set_aside == len(mine)
            self.seen |= {"aside" if mine else "", "behind" if any("waits" in c.reason for c in mine) else ""}
            for change in mine:
                _carry_out(change, there)
            assert there == self.past[at][one.name], one
        self._no_child_without_its_parent({t.name for t, s in states.items() if s.state == "streaming"})

    def _no_child_without_its_parent(self, streaming: set[str]) -> None:
        for schema in self.source.schemas:
            for one in schema.foreign_keys if schema.id.name in streaming else ():
                parents = self.rows(one.parent.name)
                for row in self.rows(schema.id.name).values():
                    assert row[one.columns[0]] is None or row[one.columns[0]] in parents


def _schema(source: Source, name: str) -> TableSchema:
    return next(s for s in source.schemas if s.id.name == name)


def _row(texts: Mapping[str, str | None]) -> Row:
    return {name: None if value is None else int(value) for name, value in texts.items()}


def _carry_out(change: AsideChange, rows: dict[int, Row]) -> None:
    """As if the target took it."""
    number = int(change.key["id"] or 0)
    assert (number in rows) == (change.operation != "insert")
    if change.operation == "delete":
        del rows[number]
    else:
        rows[number] = {**rows.get(number, {}), **_row({**(change.after or {}), **change.unconverted})}


def without_refused(chunk: Chunk) -> Chunk:
    """As a reader gives it that cannot convert those values of v. Its words for a value are the value."""
    return replace(chunk, tables=tuple(map(_without_refused, chunk.tables)))


def _without_refused(rows: TableRows) -> TableRows:
    place, shapes = rows.batch.schema.get_field_index("v"), list(rows.shapes)
    values, shape = rows.batch.column(place).to_pylist(), rows.batch.column("_shape").to_pylist()
    bad = [row for row, value in enumerate(values) if str(value) in REFUSED]
    marks = tuple(Unconverted(row, place - META, str(values[row])) for row in bad)
    for row in bad:
        values[row] = None
        present = tuple(is_there and at != place - META for at, is_there in enumerate(rows.shapes[shape[row]].present))
        shapes.append(Shape(present))
        shape[row] = len(shapes) - 1
    names = rows.batch.schema.names
    batch = rows.batch.set_column(
        place, rows.batch.schema.field(place), pa.array(values, rows.batch.column(place).type)
    )
    at = names.index("_shape")
    batch = batch.set_column(at, batch.schema.field(at), pa.array(shape, pa.int16()))
    return replace(rows, batch=batch, shapes=tuple(shapes), unconverted=marks)


def _relation(name: str) -> Relation:
    return database("aside").tables[TableId("shop", name)]


def tables(pick: random.Random) -> list[TableSchema]:
    """One that nothing is connected with, and three in a row; some refer to themselves."""
    pairs = [(pick.choice(ACTIONS), pick.choice(ACTIONS)) for _ in range(3)]
    own = [key("up", "child", *pairs[2])] if pick.random() < 0.3 else []
    return [
        table("alone", "v u", unique="u"),
        table("parent", "v u", unique="u"),
        table("child", "p up v u", key("p", "parent", *pairs[0]), *own, unique="u"),
        table("below", "c v u", key("c", "child", *pairs[1]), unique="u"),
    ]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Any]:
    made: list[Rig] = []

    def make(schemas: list[TableSchema], name: str, **options: Any) -> Rig:
        forget()
        trail = TrailWriter.open(tmp_path / name, job=JOB, job_uuid="u", source_identity="s", pack=False)
        target = connectors.target(Endpoint("memory", "", 0, "", "", "aside"))
        loader, store, targets = target.loader(RULES), target.store(), {s.id: followed(s).table for s in schemas}
        store.create_checkpoint(JOB, Position(0, ""), 0)
        for one in schemas:
            trail.schema(one)
            loader.create_table(one, targets[one.id], RULES, False)
            loader.build(JOB, one, targets[one.id], targets.get)
            store.save_table(JOB, TableState(one.id, one.id, "streaming", schema=one), None)
        writer, reader = target.writer(RULES, False), TrailReader(tmp_path / name)
        writer.claim(JOB, "me")

        def context(states: Mapping[TableId, TableState]) -> ApplyContext:
            found = {s.id: followed(s) for s in schemas if states[s.id].is_followed}
            found = {t: replace(f, unique_keys=frozenset({UniqueKey(frozenset("u"))})) for t, f in found.items()}
            return ApplyContext(found, rules_of(found))

        applier = an_applier(JOB, reader, writer, store, context, parks=True, sets_aside=True, **options)
        resolver = WindowResolver(reader, connectors.source(Endpoint("memory", "", 0, "", "", "origin")).order)
        following = Following(target, RULES, TablesOf(targets), applier.progress.settings, resolver)
        applier.progress.look()
        one_rig = Rig(UniqueSource(schemas), trail, applier, following)
        one_rig.past[0] = deepcopy(one_rig.source.rows)
        for schema in schemas:
            _relation(schema.id.name).checks.append(one_rig.takes)
        made.append(one_rig)
        return one_rig

    yield make
    for one in made:
        one.trail.close()
        one.applier.progress.trail.close()
    forget()


@pytest.mark.parametrize("part", range(4))
def test_rule_26_the_target_differs_in_rows_that_are_set_aside_and_in_nothing_else(rig: Any, part: int) -> None:
    seen: set[str] = set()
    for seed in range(part * HISTORIES, (part + 1) * HISTORIES):
        pick = random.Random(seed)
        one = rig(tables(pick), str(seed), per_transaction=seed % 3 == 0)
        for _ in range(pick.randrange(2, 7)):
            one.go_on(pick, pick.randrange(1, 12))
            one.check()
            if pick.random() < 0.2:
                one.applier.progress.ask_again()  # as a start does
            if pick.random() < 0.3:
                one.refuses = pick.random() < 0.5
                one.release()
                one.check()
                one.resume()
                one.check()
                one.refuses = True
        mended(one)
        seen |= one.seen
    assert seen >= {"streaming", "parked", "aside", "behind"}


def mended(one: Rig) -> None:
    """Whatever was refused, whatever waits: it all comes back."""
    one.refuses = False
    for _ in range(20):
        one.release()
        one.resume()
        one.check()
    assert one.waiting == [] and {state.state for state in one.states.values()} == {"streaming"}
    assert {s.id.name: one.rows(s.id.name) for s in one.source.schemas} == one.source.rows


@pytest.mark.parametrize("part", range(2))
def test_rule_26_rows_that_cannot_be_converted_are_all_that_the_target_lacks(rig: Any, part: int) -> None:
    seen: set[str] = set()
    for seed in range(part * HISTORIES, (part + 1) * HISTORIES):
        pick = random.Random(seed)
        one = rig(tables(pick), str(seed), per_transaction=seed % 3 == 0)
        one.is_unconverted = True
        for _ in range(pick.randrange(2, 7)):
            one.go_on(pick, pick.randrange(1, 12))
            one.check()
            if pick.random() < 0.3:
                one.release()
                one.check()
                one.resume()
                one.check()
        corrected(one)
        seen |= one.seen
    assert seen >= {"streaming", "parked", "aside", "behind"}


def corrected(one: Rig) -> None:
    """No such value is at the source any more: what waits comes back. A table that parked at such a change stays so."""
    for name, rows in one.source.rows.items():
        for number in [number for number, row in rows.items() if str(row["v"]) in REFUSED]:
            one.source.update(name, number, v=1)
    one.source.commit()
    one.past[one.trail.end.position.sequence + len(one.source.done)] = deepcopy(one.source.rows)
    one.go_on(random.Random(0), 0)
    for _ in range(3):
        one.release()
        one.check()
    streaming = {table for table, state in one.states.items() if state.state == "streaming"}
    assert [change for change in one.waiting if change.source in streaming] == []
    assert {t.name: one.rows(t.name) for t in streaming} == {t.name: one.source.rows[t.name] for t in streaming}
