"""Tables that an apply takes from the load in a trail: what it says of them there, so that files that all have can go.

It is said which load of a table is taken before the first row of it is read, and that it is through once the table is handed
over at the target: a kill in between leaves files that are needed no more, and never too few.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
        if found is not None and not goes_on:
            tables[str(load.schema.id)] = Taken(found.generation, load.generation)
    _save(job, note, Note(tables, note.left_out))


def ask_again(job: JobView, table: TableId) -> None:
    """Say that a table's files are needed once more, before they are looked at."""
    note = load_readers.read(job.trail, job.names.apply)
    tables = {name: taken for name, taken in note.tables.items() if name != str(table)}
    _save(job, note, Note(tables, note.left_out))


def settle(job: JobView, states: Mapping[TableId, TableState]) -> None:
    """Say which of the loads that were taken the target has, and which tables the job leaves out; remove what nobody needs."""
    if not _is_apply(job):
        return
    note, by_name = load_readers.read(job.trail, job.names.apply), {str(table): one for table, one in states.items()}
    tables = {name: _settled(taken, by_name.get(name)) for name, taken in note.tables.items()}
    in_force, parked = history(job)
    left_out = frozenset(str(table) for table in {*in_force, *parked} if not job.rules.includes(table))
    reach("trail.load.taken")
    _save(job, note, Note(tables, left_out))
    if os.access(job.trail / manifests.FOLDER, os.W_OK):
        with suppress(TrailError):  # folders below are of another user: who captures removes them
            load_readers.sweep(job.trail)


def _settled(taken: Taken, state: TableState | None) -> Taken:
    is_here = state is not None and state.generation >= taken.by and state.is_on_its_way
    return Taken(taken.load, taken.by, True) if is_here else taken


def _save(job: JobView, before: Note, now: Note) -> None:
    if now != before:
        load_readers.save(job.trail, job.names.apply, now)


def _is_apply(job: JobView) -> bool:
    return job.config.hop is Hop.APPLY
