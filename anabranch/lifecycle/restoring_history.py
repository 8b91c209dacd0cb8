"""Puts the schema history of a job's trail back, from a file that was exported from it, where its own is lost or damaged.

Nothing is decoded by a definition that is not certain: the file is of this trail and has all of its history, and what every
target knows of its tables is in it. What does not live here: the file (`trail/history_file.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import StateError, TrailError
from anabranch.model.ids import TableId
from anabranch.trail import history_file
from anabranch.trail.lock import WriterLock
from anabranch.trail.storage import LocalStorage
from anabranch.view.opened import store_of
from anabranch.view.running import require_stopped

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.trail.history import SchemaHistory
    from anabranch.view.job_view import JobView


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
    lock = WriterLock(job.trail, 0.0)
    try:
        data, history = history_file.restored(storage, came, file.name)
        for one in job.targets():
            _refuse_others(one, history, file.name)
        history_file.put_back(storage, data)
    finally:
        lock.close()
    return True


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
