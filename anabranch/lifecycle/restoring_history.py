"""Puts the schema history of a job's trail back, from a file that was exported from it, where its own is lost or damaged.
Without such a file it is made anew of what the targets know, where they have all that the trail has.

Nothing is decoded by a definition that is not certain: the file is of this trail and has all of its history, and what every
target knows of its tables is in it. What does not live here: the file (`trail/history_file.py`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import StateError, TrailError
from anabranch.model.check_changes import as_at_source
from anabranch.model.ids import TableId
from anabranch.trail import headers, history_file
from anabranch.trail.history import Entry
from anabranch.trail.identity import load as load_identity
from anabranch.trail.lease import writing_right
from anabranch.trail.reader import TrailReader
from anabranch.trail.staging import waiting
from anabranch.trail.storage import LocalStorage
from anabranch.view.opened import store_of
from anabranch.view.running import require_stopped

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.trail.history import SchemaHistory
    from anabranch.view.job_view import JobView

LOST = "the schema history was lost, and a target does not follow it"


def exported_history(job: JobView) -> str:
    """Return the history of the job's trail as a text to keep elsewhere. The job may run. Raises TrailError."""
    return history_file.exported(LocalStorage(job.trail))


def restore_history(job: JobView, file: Path) -> bool:
    """Put an exported history back. Returns False where the trail's own is whole: then nothing is changed. Raises TrailError
    for a file that does not fit the trail, StateError for one that does not fit a target, or while the job runs."""
    require_stopped(job)
    storage = LocalStorage(job.trail)
    came = history_file.lines_of(storage, _text(file), file.name)
    if history_file.is_whole(storage):
        return False
    lock = writing_right(job.trail)
    try:
        data, history = history_file.restored(storage, came, file.name)
        for one in job.targets():
            _refuse_others(one, history, file.name)
        history_file.put_back(storage, data)
    finally:
        lock.close()
    return True


def rebuild_history(job: JobView) -> bool:
    """Make a lost history anew of the definitions by which every target follows its tables: those that are in force where the
    trail ends, if the targets have come to there. A table that all targets have parked is parked in the trail.
    Returns False where the trail's own is whole. Raises StateError where anything of the trail is still to be read by a
    definition."""
    require_stopped(job)
    storage = LocalStorage(job.trail)
    if history_file.is_whole(storage):
        return False
    lock = writing_right(job.trail)
    try:
        _refuse_former_sources(job, storage)
        with TrailReader(job.trail) as trail:
            end = trail.end().position.sequence
            if waiting(job.trail):
                raise _uncertain(job, "rows of prepared transactions wait for their commit")
            followed, parked = _known_by_all(job, end)
            versions = _versions(trail)
        entries = [Entry("schema", end + 1, schema=schema) for schema in followed.values()]
        for table, schema in parked.items():
            later = max(versions.get(table, 0), schema.version if schema else 0) + 1  # what nothing in the trail has
            entries += [Entry("schema", end + 1, schema=replace(schema, version=later))] if schema else []
            entries.append(Entry("park", end, table=table, reason=LOST))
        history_file.put_back(storage, history_file.made_anew(storage, entries))
    finally:
        lock.close()
    return True


def _known_by_all(job: JobView, end: int) -> tuple[dict[TableId, TableSchema], dict[TableId, TableSchema | None]]:
    """Return the tables that all targets follow, and those that one has parked, as they know them at the trail's end."""
    followed: dict[TableId, TableSchema] = {}
    parked: dict[TableId, TableSchema | None] = {}
    for one in job.targets():
        with store_of(one) as store:
            checkpoint = store.jobs.checkpoint(job.config.name) if store.exists() else None
            states = store.states.tables(job.config.name) if store.exists() else {}
        if checkpoint is None or checkpoint.position.sequence != end:
            at = checkpoint.position.sequence if checkpoint else "nothing"
            raise _uncertain(one, f"the target has {at} of the trail, which ends at {end}")
        for table, state in sorted(states.items()):
            schema = as_at_source(state.schema) if state.schema else None
            if state.is_parked:
                parked[table] = schema or parked.get(table)
            elif not state.is_streaming or schema is None or state.facts.altering is not None:
                raise _uncertain(one, f"{table} is {state.state}, and does not follow the trail yet")
            elif not _is_same(followed.setdefault(table, schema), schema):
                raise _uncertain(one, f"two targets know {table} by two definitions")
    if both := sorted(followed.keys() & parked.keys()):
        raise _uncertain(job, f"one target has parked {both[0]}, which another streams")  # it would stop there unseen
    return followed, parked


def _refuse_former_sources(job: JobView, storage: LocalStorage) -> None:
    """Refuse a trail that another server was captured to before: only the lost history says which, and where it ended."""
    ours = load_identity(storage)
    if ours is not None and (others := sorted(headers.other_sources(storage, ours))):
        raise _uncertain(
            job, f"the trail has rows of {', '.join(others)}, which the job followed before another server"
        )


def _is_same(one: TableSchema, other: TableSchema) -> bool:
    return one.version == other.version and one.same_definition(other)


def _versions(trail: TrailReader) -> dict[TableId, int]:
    """Return the latest version of each table that rows of the trail have."""
    found: dict[TableId, int] = {}
    for ref in trail.descriptors(trail.first() - 1):
        for rows in trail.load(ref).tables:
            found[rows.table] = max(found.get(rows.table, 0), rows.version)
    return found


def _uncertain(job: JobView, why: str) -> StateError:
    return StateError(
        f"the history cannot be made anew: {why}",
        job=job.label,
        hint="anabranch schema import FILE JOB with an exported one, or a backup of the trail; without either, remove the job's"
        " state (anabranch drop JOB --execute) and load again",
    )


def _refuse_others(job: JobView, history: SchemaHistory, file: str) -> None:
    """Raise StateError where a target knows a table by a definition that is not in the history: then it is that of a copy of
    the trail, which went on otherwise."""
    with store_of(job) as store:
        states = store.states.tables(job.config.name) if store.exists() else {}
    for table, state in sorted(states.items()):
        if state.schema is not None and not _knows(history, table, state.schema):
            raise StateError(
                f"{file} has no version {state.schema.version} of {table} as the target knows it",
                job=job.label,
                table=str(table),
                hint="it was exported from another copy of this trail; use the home that was used last, or load again",
            )


def _knows(history: SchemaHistory, table: TableId, schema: TableSchema) -> bool:
    try:
        found = history.at(table, schema.version)
    except KeyError:
        return False
    return (found.columns, found.primary_key) == (schema.columns, schema.primary_key)


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise TrailError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TrailError(
            f"{file} is no schema history", hint="anabranch schema export JOB -o FILE writes one"
        ) from None
