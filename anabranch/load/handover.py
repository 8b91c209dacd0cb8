"""Handing loaded tables to the stream: all marks of their chunks, kept with their states at the target.

Marks are not compared here: the apply engine resolves them to sequences of the trail. The table stays `loading` until
the stream has passed its window (K5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from anabranch import log
from anabranch.contracts import LoadedChunk, Loader, TargetStore, TargetTables
from anabranch.errors import Fenced, StateError
from anabranch.load.plan import LoadTable, is_placed
from anabranch.model import table_life
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState, park


def hand_over_all(
    store: TargetStore,
    tables: TargetTables,
    loader: Loader,
    job: str,
    loads: Sequence[LoadTable],
    parked: Callable[[TableId], str],
) -> None:
    """Hand over many tables at once; one by one where some are not as their load left them.

    Whether capture has parked one is asked after its indexes are built, which may take long.
    """
    states = store.states.tables(job) if len(loads) > 1 else {}
    asides = store.asides.count_aside(job)  # also what a former run has, by another job file
    plain = [load for load in loads if _is_under_way(states.get(load.schema.id), load)]
    for load in loads:
        tables.index_cascades(load.schema, load.table)
    ledgers = loader.ledgers(job, {load.schema.id: load.generation for load in plain}) if plain else {}
    saved: list[tuple[TableState, TableState | None]] = []
    for load in plain:
        table, state = load.schema.id, states[load.schema.id]
        saved.append((_handed_over(job, load, state, ledgers[table], parked(table), asides.get(table, 0)), state))
    try:
        if saved:
            store.states.save_tables(job, saved)
    except Fenced:
        plain = []
    through = {load.schema.id for load in plain}
    for load in loads:
        if load.schema.id not in through:
            found = parked(load.schema.id), asides.get(load.schema.id, 0)
            hand_over(store, tables, loader, job, load, *found)
    for load in loads:
        if asides.get(load.schema.id, 0) > load.aside_limit:  # behind its park, for which they are the reason
            store.asides.forget_aside(job, load.schema.id)


def hand_over(
    store: TargetStore,
    tables: TargetTables,
    loader: Loader,
    job: str,
    load: LoadTable,
    parked: str = "",
    asides: int = 0,
) -> None:
    """Tell the stream that the table is there, with the marks of all chunks. May be repeated.

    One that capture has parked meanwhile stays parked: if that lies before the first chunk's mark, the stream would not
    look at it again."""
    state = store.states.table(job, load.schema.id)
    if state is not None and state.is_handed_over(load.generation):
        return  # an answer was lost, or another load has done it; the stream may have noted something since
    if state is None or not _is_under_way(state, load):
        raise StateError(
            "the table's state changed during its load",
            job=job,
            table=str(load.schema.id),
            hint="another load of the table was started: let one of them end",
        )
    tables.index_cascades(load.schema, load.table)
    now = _handed_over(job, load, state, loader.chunks(job, load.schema.id, load.generation), parked, asides)
    try:
        store.states.save_table(job, now, state)
    except Fenced:
        there = store.states.table(job, load.schema.id)
        if there is None or not there.is_handed_over(load.generation):
            raise


def _handed_over(
    job: str, load: LoadTable, state: TableState, chunks: Sequence[LoadedChunk], parked: str, asides: int
) -> TableState:
    if any(is_placed(load.schema, chunk.bounds) for chunk in chunks) and len({chunk.high for chunk in chunks}) > 1:
        raise StateError(
            "the pieces of the table are of several moments",
            job=job,
            table=str(load.schema.id),
            hint=f"load it again: anabranch load JOB --table {load.schema.id.typed}",
        )
    now = loaded(state, chunks, asides)
    if asides:
        log.get(job=job, table=str(load.schema.id)).warning("rows_set_aside", rows=asides)
        if asides > load.aside_limit:
            parked = (
                f"{asides:,} rows cannot be converted, of which {load.aside_limit:,} may be set aside (set_aside_limit)"
            )
    if parked:
        now = park(now, f"{parked} (while it was being loaded)")
    return now


def _is_under_way(state: TableState | None, load: LoadTable) -> bool:
    """Return whether the state is that of this load, and not handed over yet."""
    return state is not None and state.generation == load.generation and state.is_loading and not state.is_loaded


def loaded(state: TableState, chunks: Sequence[LoadedChunk], aside: int = 0) -> TableState:
    """Return the table's state once every chunk is in the ledger. `aside`: rows that were set aside on the way."""
    if any(chunk.rows is None for chunk in chunks):
        raise ValueError(f"{state.source}: chunks are missing")
    low, high = _distinct(chunk.low for chunk in chunks), _distinct(chunk.high for chunk in chunks)
    return table_life.hand_over(state, low, high, sum(chunk.rows or 0 for chunk in chunks), aside)


def _distinct(marks: Iterable[str]) -> str:
    return json.dumps(list(dict.fromkeys(marks)))
