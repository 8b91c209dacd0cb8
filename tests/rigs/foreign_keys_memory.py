"""What apply's plan makes of a history at the memory twin: set-wise, or row by row where the plan says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.apply.cascades.cascade import NeedsReferencedColumns
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext
from anabranch.apply.plan import group, stages
from anabranch.apply.row_steps import RemovedByKeys, steps
from anabranch.apply.stage import Group
from anabranch.connectors.memory.database import Database
from anabranch.connectors.memory.target.apply import MemoryWriter
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.state import Checkpoint
from anabranch.rows.net import Cascade, RowChange, TableNet
from rigs.chunks import chunk_of, context
from rigs.foreign_keys import Change, History

JOB = "shop"


@dataclass
class Outcome:
    """The target's rows. `stages`: how many there were, 0 where it went row by row."""

    rows: dict[str, list[tuple[str, ...]]]
    stages: int


def outcome(history: History, is_minimal: bool = False) -> Outcome | None:
    """After the whole history as one epoch; None where partial images cannot tell it. `is_minimal`: as the source has it with
    binlog_row_image = MINIMAL."""
    whole = context(history.schemas)
    changes = [minimal(history.schemas, change) if is_minimal else change for change in history.changes]
    try:
        part = group([chunk_of([[change] for change in changes], history.schemas)], whole)
    except NeedsReferencedColumns:
        return None
    try:
        return _at_once(history, part, whole)
    except (Conflict, NeedsSlowWay):
        return _one_by_one(history, part, whole)


def minimal(schemas: Sequence[TableSchema], change: Change) -> Change:
    name, what, *rows = change
    key = next(one for one in schemas if one.id.name == name).primary_key
    if not key or what == "i":
        return change
    before = {column: rows[0][column] for column in key}
    if what == "d":
        return (name, what, before)
    return (name, what, before, {column: value for column, value in rows[1].items() if rows[0][column] != value})


def _at_once(history: History, part: Group, whole: ApplyContext) -> Outcome:
    database, writer = _target(history)
    planned = stages(part, whole)
    for stage in planned:
        for net in stage.nets:
            writer.merge(net)
        for one in stage.cascades:
            writer.cascade(one, one.rules)
    writer.commit()
    return Outcome(_rows(database, history), len(planned))


def _one_by_one(history: History, part: Group, whole: ApplyContext) -> Outcome:
    database, writer = _target(history)
    for step in steps(part, whole, RemovedByKeys()):
        if isinstance(step, TableNet):
            writer.merge(step)
        elif isinstance(step, Cascade):
            writer.cascade(step, step.rules)
        else:
            assert isinstance(step, RowChange) and writer.change(step)
    writer.commit()
    return Outcome(_rows(database, history), 0)


def _target(history: History) -> tuple[Database, MemoryWriter]:
    made = Database("cascades")
    for one in history.schemas:
        made.create(one)
        for row in history.start[one.id.name]:
            made.tables[one.id].put(tuple(None if value is None else str(value) for value in row.values()))
    made.job(JOB).checkpoint = Checkpoint("", 0, Position(0, ""))
    writer = MemoryWriter(made, ValueRules())
    now = writer.claim(JOB, "me")
    writer.begin(now, Checkpoint("me", 1, Position(1, "")))
    return made, writer


def _rows(database: Database, history: History) -> dict[str, list[tuple[str, ...]]]:
    tables = {one.id.name: database.tables[one.id].rows.values() for one in history.schemas}
    return {
        name: sorted(tuple("None" if value is None else value for value in row) for row in rows)
        for name, rows in tables.items()
    }
