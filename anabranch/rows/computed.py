"""Computed columns that only the source can evaluate: what a foreign key's action has to ask it for (K1).

A computed column is a function of other columns of its row. Where a foreign key's action changes one of these and the log
does not show it, the source says what the function gives for the row as it is at the target after the action. It may be
asked at any time, because the function depends on nothing else. What does not live here: which columns these are
(`apply/cascades/computed.py`), how a source is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from anabranch.model.datatype import Kind, LogicalType

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.model.value_rules import ValueRules
    from anabranch.rows.net import TargetTable

# Kinds whose values the source would not get back as they were: of a JSON document the text is another one at the target.
CHANGED_ON_THE_WAY = frozenset((Kind.GEOMETRY, Kind.VECTOR, Kind.JSON, Kind.INTERVAL, Kind.NATIVE))
WORDS = frozenset((Kind.TEXT, Kind.ENUM, Kind.SET))
CLOCKS = frozenset((Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT))
WHOLE = frozenset(kind for kind in Kind if kind.value.removeprefix("u").startswith("int"))


def refusals(
    schema: TableSchema, table: TargetTable, changed: Iterable[str], rules: ValueRules
) -> Iterator[tuple[str, str]]:
    """Yield why columns of this table cannot follow where foreign keys change others (source names), each with what to do."""
    there = dict(zip(table.source_columns, table.types, strict=True))
    for column in schema.columns:
        if column.set_by_server and column.name in there:
            yield f"the source itself then changes {column.name}, whose value nobody else knows", f"drop {column.name}"
    for column in schema.computed_over(changed):
        inputs = sorted(schema.inputs_of(column.name)) if column.name in there else []
        missing = [name for name in inputs if name not in there]
        if missing:
            names = ", ".join(missing)
            why = f"{column.name} is computed from {names}, which the job leaves out"
            yield why, f"replicate {names}, or drop {column.name}"
        for name in inputs:
            if name in there and (lost := _loss(there[name], rules)):
                yield f"{column.name} is computed from {name}, {lost}", f"drop {column.name}"


def _loss(type: LogicalType, rules: ValueRules) -> str:
    """Say what the target may hold otherwise than the source for a value of this type; "" if nothing."""
    if type.carried in CHANGED_ON_THE_WAY:
        return "and the target holds that in another form"
    if type.target and not (type.carried in WHOLE and type.at_target.keeps_whole):
        return f"for which the job chooses the type {type.target}"
    if type.carried in WORDS and rules.nul != "stop":
        return 'of which [types] nul = "strip" takes characters away'
    is_changed = rules.zero_date != "stop" or any(choice != "stop" for *_, choice in rules.zero_dates)
    return "of which [types] zero_date changes values" if type.carried in CLOCKS and is_changed else ""
