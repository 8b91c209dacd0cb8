"""Statements that drop or rename tables: which of them the trail follows, and what is known of the tables behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.capture.definitions import DefinitionKeeper
from anabranch.connectors.memory.source.capture import MemoryOrder, mark
from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.model.column_changes import ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ghost_names import USUAL, GhostNames
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, ForeignKey, TableSchema
from anabranch.rows.chunk import Barrier, BarrierKind
from anabranch.rows.log_items import LogStatement
from anabranch.trail.writer import TrailWriter

A, B, CHILD, FATHER = (TableId("shop", name) for name in ("a", "b", "child", "father"))
KEY = ForeignKey("refers", ("id",), FATHER, ("id",))


def _schema(table: TableId, *keys: ForeignKey) -> TableSchema:
    column = Column("id", LogicalType(Kind.INT32), "int", nullable=False)
    return TableSchema(table, (column,), ("id",), engine="InnoDB", foreign_keys=keys)


class Source:
    """A connector that nobody asks anything but what statements mean."""

    def __init__(self) -> None:
        self.order, self.dialect = MemoryOrder(), MysqlDialect()


class Here:
    """A trail with tables, and capture's keeper of their definitions."""

    def __init__(self, trail: TrailWriter, leaves: frozenset[ColumnChange] = frozenset(), **loads: bool) -> None:
        self.trail, self.at = trail, 1
        for schema in (_schema(A), _schema(B), _schema(FATHER), _schema(CHILD, KEY)):
            trail.schema(schema)
        source: Any = Source()
        self.keeper = DefinitionKeeper(
            source,
            trail,
            lambda table: table.name != "elsewhere",
            lambda: None,
            follows=lambda _: frozenset(ColumnChange) - leaves,
            tools=GhostNames(USUAL),
            **loads,
        )

    def told(self, sql: str) -> tuple[Barrier, ...]:
        self.at += 1
        chunk = self.keeper.on_statement(LogStatement(sql, "shop", mark("server", self.at)))
        return chunk.barriers if chunk else ()


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[TrailWriter]:
    with TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="server", pack=False) as writer:
        yield writer


@pytest.mark.parametrize(
    ("sql", "gone"),
    [
        ("DROP TABLE a", {A}),
        ("DROP TABLE IF EXISTS b, nothing, a", {A, B}),
        ("DROP TABLE father, child", {CHILD, FATHER}),
        ("DROP TABLE child", {CHILD}),
        ("DROP DATABASE shop", {A, B, CHILD, FATHER}),
        ("RENAME TABLE a TO elsewhere", {A}),
    ],
)
def test_a_table_that_is_dropped_has_no_definition_any_more(trail: TrailWriter, sql: str, gone: set[TableId]) -> None:
    here = Here(trail)
    barriers = here.told(sql)
    assert {one.table for one in barriers} == gone == trail.history.dropped()
    assert all(one.kind is BarrierKind.ALTER and one.untold.dropped and not one.untold.moved for one in barriers)
    assert trail.history.in_force().keys() == {A, B, CHILD, FATHER} - gone and not trail.history.parked()
    assert not any(map(trail.history.knows, gone)) and trail.history.drops_at(trail.next_sequence)
    assert here.told(sql) == ()  # nothing is left of it


@pytest.mark.parametrize("keeps_changes", [True, False])
def test_a_reason_names_a_load_only_where_there_is_one(trail: TrailWriter, keeps_changes: bool) -> None:
    here = Here(trail, keeps_changes=keeps_changes)
    reasons = [one.reason for one in here.told("CREATE OR REPLACE TABLE a (id INT)")]
    reasons += [one.reason for one in here.keeper.park([B], "for a reason that is no statement")]
    reasons += [one.reason for one in here.keeper.drop(B)]
    assert len(reasons) == 3 and [" load " in one for one in reasons] == [not keeps_changes] * 3, reasons
    assert all("begins again brings it in" in one for one in reasons) == keeps_changes


def test_a_reason_names_no_load_in_a_job_that_takes_its_tables_over(trail: TrailWriter) -> None:
    """Such a job, a way back for example, refuses every load."""
    here = Here(trail, takes_over=True)
    reasons = [one.reason for one in here.told("CREATE OR REPLACE TABLE a (id INT)")]
    reasons += [one.reason for one in here.keeper.park([B], "for a reason that is no statement")]
    reasons += [one.reason for one in here.keeper.drop(B)]
    assert len(reasons) == 3 and not any(" load " in one for one in reasons), reasons
    assert all("where the job is begun anew: anabranch drop JOB" in one for one in reasons)


@pytest.mark.parametrize(
    ("sql", "parked"),
    [
        ("DROP TABLE father", {FATHER, CHILD}),  # with foreign_key_checks = 0
        ("CREATE OR REPLACE TABLE a (id INT)", {A}),
        ("DROP TABLE a, father", {A, FATHER, CHILD}),
        ("RENAME TABLE a TO b2, b TO a", {A, B}),  # a name is there twice
        ("RENAME TABLE a TO _a_del", {A}),
        ("RENAME TABLE child TO kid", {CHILD, FATHER, TableId("shop", "kid")}),
        ("RENAME TABLE a TO away, other TO inside", {A, TableId("shop", "away"), TableId("shop", "inside")}),
        ("ALTER TABLE a ADD n INT, RENAME TO away", {A, TableId("shop", "away")}),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", {A, B}),
        ("ALTER TABLE a CONVERT PARTITION p TO TABLE b", {A, B}),
    ],
)
def test_what_is_not_certain_parks(trail: TrailWriter, sql: str, parked: set[TableId]) -> None:
    here = Here(trail)
    barriers = here.told(sql)
    assert {one.table for one in barriers if one.kind is BarrierKind.PARK} >= parked, barriers
    assert not trail.history.dropped() and parked <= trail.history.parked().keys()


@pytest.mark.parametrize("sql", ["DROP TABLE a", "RENAME TABLE a TO away", "RENAME TABLE a TO elsewhere"])
def test_the_job_file_may_park_them(trail: TrailWriter, sql: str) -> None:
    here = Here(trail, frozenset((ColumnChange.DROP_TABLE, ColumnChange.RENAME_TABLE)))
    assert {one.kind for one in here.told(sql)} == {BarrierKind.PARK} and A in trail.history.parked()


@pytest.mark.parametrize("sql", ["RENAME TABLE a TO away", "ALTER TABLE a RENAME AS away"])
def test_a_table_that_is_renamed_goes_on_by_its_definition(trail: TrailWriter, sql: str) -> None:
    here, away = Here(trail), TableId("shop", "away")
    gone, comes = here.told(sql)
    assert (gone.table, gone.untold.moved, comes.table, comes.untold.created) == (A, str(away), away, True)
    assert trail.history.in_force()[away] == replace(_schema(A), id=away).with_version(1)
    assert trail.history.dropped() == {A} and [e.schema.id for e in trail.history.created_until(9) if e.schema] == [
        away
    ]
    (back, again) = here.told("RENAME TABLE away TO a")
    assert (back.table, again.table, again.schema and again.schema.version) == (away, A, 3)
    assert trail.history.dropped() == {away} and A in trail.history.in_force()


def test_what_was_not_appended_is_taken_back(trail: TrailWriter) -> None:
    here = Here(trail)
    here.told("DROP TABLE a")
    trail.rewind()
    assert A in trail.history.in_force() and not trail.history.dropped()
