"""Tables that the source has made: what apply makes of one before its epoch, or why it parks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from anabranch.apply.altering import Altering
from anabranch.apply.column_steps import NotFollowed
from anabranch.apply.decided import Decided
from anabranch.apply.settings import ApplySettings
from anabranch.apply.stage import Parked
from anabranch.errors import ConfigError, TargetError, TargetUnavailable
from anabranch.model.column_changes import ColumnChange, TableActions, Untold
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import TableState, take_over
from anabranch.rows.chunk import Barrier, BarrierKind
from anabranch.rows.net import TargetTable
from anabranch.trail.history import Entry, SchemaHistory

FRESH, THERE = TableId("shop", "fresh"), TableId("there", "fresh")
SCHEMA = TableSchema(FRESH, (Column("id", LogicalType(Kind.INT32), "int", nullable=False),), ("id",))
MADE = Barrier(
    0, 0, BarrierKind.ALTER, FRESH, "CREATE TABLE fresh (id INT)", schema=SCHEMA, untold=Untold(created=True)
)
APPLY = TableActions({ColumnChange.CREATE: "apply"})


@dataclass
class Here:
    """Stands for the applier and its target. `refuses`: the error with which the target answers the creation of the table."""

    actions: TableActions = APPLY
    states: dict[TableId, TableState] = field(default_factory=dict)
    refuses: Exception | None = None
    made: list[TableId] = field(default_factory=list)
    job = "shop"

    @property
    def settings(self) -> ApplySettings:
        return ApplySettings(actions=lambda table: self.actions)

    @property
    def trail(self) -> Any:
        history = SchemaHistory()
        history.add(Entry("schema", 7, schema=SCHEMA, altered=True, created=True, statement=MADE.statement))
        return type("Trail", (), {"history": history})

    def target_table(self, schema: TableSchema) -> TargetTable:
        if isinstance(self.refuses, ConfigError):
            raise self.refuses
        return TargetTable(FRESH, THERE, ("id",), (LogicalType(Kind.INT32),), ("id",), ("id",))

    def where(self, schema: TableSchema) -> None: ...

    def on_conflict(self, schema: TableSchema) -> None: ...

    def create(self, schema: TableSchema, table: TargetTable) -> None:
        if self.refuses:
            raise self.refuses
        self.made.append(table.target)

    def carried_out(self) -> Decided | Parked:
        here: Any = self
        altering = Altering(here, here, here, creating=here)
        assert altering._is_new(MADE)
        return altering._created(MADE, 7)


def test_a_table_that_is_made_streams_and_is_built_later() -> None:
    here = Here()
    found = here.carried_out()
    assert isinstance(found, Decided) and (found.outcome, found.sequence) == (Outcome.CREATED, 7)
    assert found.state.is_streaming and not found.state.is_built and found.state.target == THERE
    assert found.rule == DdlRule("[ddl] create_table", "apply") and here.made == [THERE]


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (Here(TableActions({})), '[ddl] create_table = "park"'),
        (Here(refuses=NotFollowed("there.fresh holds rows")), "holds rows"),
        (Here(refuses=ConfigError("its filter does not fit")), "does not fit"),
        (Here(refuses=TargetError("permission denied")), "permission denied"),
        (
            Here(states={TableId("b", "x"): take_over(None, replace(SCHEMA, id=TableId("b", "x")), THERE)}),
            "target of b.x",
        ),
    ],
)
def test_a_table_that_cannot_be_made_parks_with_the_reason(here: Here, why: str) -> None:
    found = here.carried_out()
    assert isinstance(found, Parked) and why in found.reason and found.reason.startswith("created at the source")
    assert (found.table, found.statement, here.made) == (FRESH, MADE.statement, [])


def test_a_target_that_is_away_is_waited_for() -> None:
    with pytest.raises(TargetUnavailable):
        Here(refuses=TargetUnavailable("gone")).carried_out()


def test_a_table_that_is_known_is_not_made() -> None:
    here: Any = Here(states={FRESH: take_over(None, SCHEMA, THERE)})
    altering = Altering(here, here, here, creating=here)
    assert not altering._is_new(MADE) and not altering._is_new(replace(MADE, table=THERE, untold=Untold()))
