"""Tables that an apply takes from the load in a trail: what it says of them there, so that files that all have can go.

It is said which load of a table is taken before the first row of it is read, and that it is through once the table is handed
over at the target: a kill in between leaves files that are needed no more, and never too few.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.config.hops import Hop
from anabranch.errors import TrailError
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.trail import load_readers
from anabranch.trail.load_readers import Note, Taken
from anabranch.trail_end import manifests
from anabranch.view.definitions import history

if TYPE_CHECKING:
    from anabranch.load.plan import LoadTable
    from anabranch.view.job_view import JobView


def begin_anew(job: JobView) -> None:
    """Forget what a former job of the name has said, before this one holds the trail."""
    if _is_apply(job):
        load_readers.forget(job.trail, job.names.apply)


def take(job: JobView, loads: Sequence[LoadTable]) -> None:
    """Say which loads of these tables are taken. One that goes on is that of its beginning."""
    if not _is_apply(job):
        return
    note = load_readers.read(job.trail, job.names.apply)
    tables = dict(note.tables)
    for load in loads:
        known, found = tables.get(str(load.schema.id)), manifests.load(job.trail, load.schema.id)
        goes_on = known is not None and known.by == load.generation and not known.is_done
        if known is not None and goes_on:
            tables[str(load.schema.id)] = replace(known, is_left=False)
        elif found is not None:
            tables[str(load.schema.id)] = Taken(found.generation, load.generation)
    _save(job, note, replace(note, tables=tables))


def leave_aside(job: JobView, tables: Collection[TableId]) -> None:
    """Say which tables wait for others, though all of them is there: the load at the source's site does not wait for them."""
    note = load_readers.read(job.trail, job.names.apply)
    kept = dict(note.tables)
    for table in tables:
        known, found = kept.get(str(table), Taken(0)), manifests.load(job.trail, table)
        if found is not None and not known.is_done:
            kept[str(table)] = replace(known, load=max(known.load, found.generation), is_left=True)
    _save(job, note, replace(note, tables=kept))


def ask_again(job: JobView, table: TableId) -> None:
    """Say that a table's files are needed once more, before they are looked at."""
    note = load_readers.read(job.trail, job.names.apply)
    tables = {name: taken for name, taken in note.tables.items() if name != str(table)}
    _save(job, note, replace(note, tables=tables))


def taken(job: JobView) -> Mapping[str, Taken]:
    """Return what is said of each table, to be put back where a load is refused before it begins."""
    return load_readers.read(job.trail, job.names.apply).tables if _is_apply(job) else {}


def put_back(job: JobView, before: Mapping[str, Taken], tables: Collection[TableId]) -> None:
    """Say again what was said of these tables before their files were asked for, unless one of them has been taken since."""
    note, names = load_readers.read(job.trail, job.names.apply), {str(table) for table in tables}
    missing = {name: one for name, one in before.items() if name in names and name not in note.tables}
    _save(job, note, replace(note, tables={**note.tables, **missing}))


def settle(job: JobView, states: Mapping[TableId, TableState], is_through: bool = False) -> None:
    """Say which of the loads that were taken the target has, and which tables the job leaves out; remove what nobody needs.
    `is_through`: what comes later is taken when somebody asks for it."""
    if not _is_apply(job):
        return
    leave_aside(job, [table for table, state in states.items() if state.is_parked])
    note, by_name = load_readers.read(job.trail, job.names.apply), {str(table): one for table, one in states.items()}
    tables = {name: _settled(taken, by_name.get(name)) for name, taken in note.tables.items()}
    in_force, parked = history(job)
    left_out = frozenset(str(table) for table in {*in_force, *parked} if not job.rules.includes(table))
    reach("trail.load.taken")
    _save(job, note, replace(note, tables=tables, left_out=left_out, is_through=note.is_through or is_through))
    if os.access(job.trail / manifests.FOLDER, os.W_OK):
        with suppress(TrailError):  # folders below are of another user: who captures removes them
            load_readers.sweep(job.trail)


def _settled(taken: Taken, state: TableState | None) -> Taken:
    is_here = state is not None and state.generation >= taken.by > 0 and state.is_on_its_way
    return Taken(taken.load, taken.by, is_done=True) if is_here else taken


def _save(job: JobView, before: Note, now: Note) -> None:
    if now != before:
        load_readers.save(job.trail, job.names.apply, now)


def _is_apply(job: JobView) -> bool:
    return job.config.hop is Hop.APPLY
