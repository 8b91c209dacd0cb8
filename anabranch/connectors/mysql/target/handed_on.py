"""Children that take from each other the values which a key's action gives them (K1, K8): all of them leave the table, then all
come back with the new values.

A server of this family looks for equal values row by row, so rows in between would collide. They wait in a staging table as
whole rows, with what the job does not write, as updates that contend do (`exchange.py`). Where rows may not leave, because a
key would take others along or a trigger would see it, it is a conflict: then the changes go one by one, as the source made
them, and nothing is handed on.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.connectors.mysql.target.cascade_step import Step
from anabranch.connectors.mysql.target.conditions import Numbered, batches, holds, holds_any, literal
from anabranch.connectors.mysql.target.exchange import ANY, CANNOT_PARK, REFERRED, leaving_alone
from anabranch.connectors.mysql.target.known_columns import KnownTable, has_triggers
from anabranch.connectors.mysql.target.session import Connection, ask, column_list, quoted, run, table_name
from anabranch.connectors.mysql.target.staging import StagingTables, refuse_warnings
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, StageColumn
from anabranch.contracts import Conflict


def hand_on(stages: StagingTables, step: Step, keys_act: bool) -> None:
    """Give the children the new values, all at once. Raises Conflict where rows may not leave; then nothing was done."""
    connection, table = stages.connection, step.child
    is_referred = keys_act and ask(connection, REFERRED, table.target.schema, table.target.name)
    if is_referred or has_triggers(connection, table.target):
        raise Conflict(table.source, CANNOT_PARK)
    known, target = stages.known.whole(table.target), table_name(table.target)
    whole = tuple(StageColumn(f"c{place}", ANY, name) for place, name in enumerate(known.written))
    columns = column_list(column.name for column in whole)
    piece = MergePiece(table, MergeAction.UPDATE, whole)
    with stages.empty(piece) as held:
        for batch in batches(step.olds):
            where = holds_any(connection, table, step.columns, [values for _, values in batch])
            values = _values(connection, known, step, batch)
            held_rows = (
                f"INSERT INTO {table_name(held)} ({columns}) SELECT {values} FROM {target} WHERE {where} FOR UPDATE"
            )
            came = run(connection, held_rows)
            refuse_warnings(connection, table.source)
            with leaving_alone(connection):
                left = run(connection, f"DELETE FROM {target} WHERE {where}")
            if came != left:
                raise Conflict(table.source, f"{came} children of a foreign key were put aside, {left} removed")
        arrival = f"INSERT INTO {target} ({column_list(known.written)}) SELECT {columns} FROM {table_name(held)}"
        run(connection, arrival)
        refuse_warnings(connection, table.source)


def _values(connection: Connection, known: KnownTable, step: Step, batch: Sequence[Numbered]) -> str:
    """Return what the children hold afterwards, for all columns that are written."""
    table = step.child
    sets = {}
    for place, name in enumerate(step.columns):
        cases = (
            f"WHEN {holds(connection, table, step.columns, old)} "
            f"THEN {literal(connection, table, name, step.news[number][place])}"
            for number, old in batch
        )
        sets[name.lower()] = f"CASE {' '.join(cases)} END"
    return ", ".join(sets.get(name.lower(), quoted(name)) for name in known.written)
