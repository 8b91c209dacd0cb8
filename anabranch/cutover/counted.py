"""Find the counters of a source that no counter of the target continues, so that a cut-over can name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.contracts import Counter, CounterSet
from anabranch.rows.net import TargetTable


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
