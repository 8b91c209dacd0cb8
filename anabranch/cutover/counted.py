"""Counters of both ends: setting those of the target, or rehearsing that, and naming those that none continues."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

from anabranch.contracts import Counter, CounterSet, CountingSource, CountingTables
from anabranch.cutover.terms import Ends
from anabranch.rows.net import TargetTable
from anabranch.view.options import value_rules


def pass_counters(ends: Ends, margin: int, is_rehearsed: bool = False) -> tuple[list[CounterSet], list[str]]:
    """Set the target's counters past both ends, or only say what would be set. Returns them, and the columns of the source that
    no counter of the target continues. Raises SourceError and TargetError."""
    states = ends.store.states.tables(ends.job.config.name)
    schemas = {table: state.schema for table, state in states.items() if state.schema and state.is_streaming}
    source = ends.source
    counters = source.counters(schemas) if isinstance(source, CountingSource) else []
    tables = [ends.job.rules.target_table(schema) for schema in schemas.values()]
    with closing(ends.target.tables(value_rules(ends.job))) as maker:
        found = maker.pass_counters(tables, counters, margin, is_rehearsed) if isinstance(maker, CountingTables) else []
    return found, unmatched(tables, counters, found)


def unmatched(tables: Iterable[TargetTable], counters: Sequence[Counter], found: Iterable[CounterSet]) -> list[str]:
    """Return columns of the source, `schema.table.column`, whose numbers are given to rows there, and to none at the target: it
    has no sequence that belongs to the column, or the column is left out."""
    there = {(one.table, one.column) for one in found}
    goes_on = {
        (table.source, source)
        for table in tables
        for column, source in zip(table.columns, table.source_columns or table.columns, strict=True)
        if (table.target, column) in there
    }
    return sorted(f"{one.table}.{one.column}" for one in counters if (one.table, one.column) not in goes_on)
