"""Rows that wait to be read from the source again, on the memory twin: whatever fails on the way, they wait on (K3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import connectors, failpoints
from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.context import ApplyContext
from anabranch.apply.epoch import Applier
from anabranch.apply.life.reread import Rereader
from anabranch.apply.plan import group
from anabranch.apply.row_steps import RemovedByKeys, steps
from anabranch.apply.window import WindowResolver
from anabranch.apply.work import key_of
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.source.capture import mark
from anabranch.contracts import LogOptions, ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import Position
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Chunk
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.chunks import ITEMS, chunk_of, context, followed

JOB, RULES = "shop", ValueRules()


def endpoint(name: str) -> Endpoint:
    return Endpoint("memory", "", 0, "", "", name)


class Rig:
    """A source with a log, its trail, an applier whose table has a row that waits: of it the stream brings nothing."""

    def __init__(self, directory: Path) -> None:
        self.database = database("reread_source")
        self.database.create(ITEMS)
        self.connector = connectors.source(endpoint("reread_source"))
        self.log = self.connector.log(LogOptions(1, 1.0))
        self.log.start(mark(self.database.identity, 0), lambda table: ITEMS)
        self.trail = TrailWriter.open(directory / "trail", job=JOB, job_uuid="u", source_identity="s", pack=False)
        self.trail.schema(ITEMS)
        self.reader = TrailReader(directory / "trail")
        self.resolver = WindowResolver(self.reader, self.connector.order)
        self.applier = self._applier()
        self.rereader = Rereader(self.connector, self.resolver, RULES, "lock", "", lambda: False)

    def _applier(self) -> Applier:
        target = connectors.target(endpoint("reread_target"))
        store, begin = target.store(), json.dumps([mark(self.database.identity, 0).resume])
        target.loader(RULES).create_table(ITEMS, followed(ITEMS).table, RULES, False)
        store.create_checkpoint(JOB, Position(0, ""), 0)
        state = TableState(ITEMS.id, ITEMS.id, "loading", schema=ITEMS, low=begin, high=begin)
        store.save_table(JOB, state.with_waiting([{"id": "1"}]), None)
        writer = target.writer(RULES, False)
        writer.claim(JOB, "me")
        made = an_applier(JOB, self.reader, writer, store, self._context)
        made.progress.look()
        return made

    def _context(self, states: Any) -> ApplyContext:
        state, low, high = states[ITEMS.id], 0, 0
        if state.state == "loading":
            low, high = self.resolver.window(state)
        waiting = frozenset(key_of(followed(ITEMS).table, key) for key in state.facts.reread)
        tables = {ITEMS.id: followed(ITEMS, low=low, high=high, waiting=waiting)}
        return ApplyContext(tables, rules_of(tables))

    def commit(self, *numbers: int) -> None:
        with self.database.transaction() as open_:
            for number in numbers:
                open_.insert(ITEMS.id, {"id": str(number), "a": str(number), "b": "x"})

    def follow(self) -> None:
        chunk = self.log.read(1)
        assert isinstance(chunk, Chunk)
        self.trail.append(chunk)
        self.trail.flush()
        self.applier.apply(self.trail.end.position.sequence)

    @property
    def rows(self) -> list[int]:
        relation = database("reread_target").tables[ITEMS.id]
        return sorted(int(relation.texts(row)["id"] or 0) for row in relation.rows.values())

    @property
    def state(self) -> TableState:
        return self.applier.progress.store.tables(JOB)[ITEMS.id]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    failpoints.arm({})
    made.trail.close()
    made.reader.close()
    forget()


def test_rule_03_rows_that_were_read_again_are_there_once(rig: Rig) -> None:
    """A failure between reading them and putting them: they wait on, and come next time."""
    rig.commit(1)
    rig.commit(2)
    rig.follow()
    assert rig.rows == [2] and rig.state.facts.reread == ({"id": "1"},)
    failpoints.arm({failpoints.VARIABLE: "apply.reread=raise"})
    with pytest.raises(Exception, match=r"apply\.reread"):
        rig.rereader.look(rig.applier)
    assert rig.rows == [2] and rig.state.facts.reread == ({"id": "1"},)
    failpoints.arm({})
    rig.rereader.look(rig.applier)
    assert rig.rows == [1, 2] and rig.state.facts.reread == ()
    rig.commit(3)
    rig.follow()
    assert rig.rows == [1, 2, 3] and rig.state.state == "streaming"


def test_rule_03_rule_08_of_a_row_that_keeps_its_key_the_target_s_own_columns_stay() -> None:
    """Row by row inside a window: only a row that moves leaves its place, all others take the new values there."""
    one, two = {"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": 2, "b": "y"}
    chunk = chunk_of([[("u", one, {**one, "a": 5}), ("u", two, {**two, "id": 3}), ("u", one, {"id": 1, "a": 7})]])
    whole = context([ITEMS], {"items": (0, 9)})
    done = [step for step in steps(group([chunk], whole), whole, RemovedByKeys()) if isinstance(step, RowChange)]
    assert not any(change.checked for change in done)
    assert [(change.operation, change.old_key, change.values) for change in done] == [
        (INSERT, {}, {"id": "1", "a": "5", "b": "x"}),
        (DELETE, {"id": "2"}, {}),
        (INSERT, {}, {"id": "3", "a": "2", "b": "y"}),
        (UPDATE, {"id": "1"}, {"id": "1", "a": "7"}),
    ]
