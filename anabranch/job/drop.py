"""`drop`: what a job left at source, target and home, and its removal (K32). Replicated tables always stay."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from anabranch.errors import StateError
from anabranch.job import ends
from anabranch.state.store import StateStore

if TYPE_CHECKING:
    from anabranch.job.job import Job


def drop(job: Job, execute: bool) -> list[str]:
    """One line per thing. Refuses while a part runs."""
    state = StateStore(job.config.home)
    parts = state.snapshot()["parts"]
    state.close()
    if parts and execute:
        running = ", ".join(f"{part['name']} (pid {part['pid']})" for part in parts)
        raise StateError(f"the job is running: {running}", job=job.config.name, hint="stop it first")
    found = [*_source(job, execute), *_target(job, execute)]
    if job.config.home.exists():
        found.append(f"home {job.config.home}: trail, state.db, logs, Spark's checkpoint")
        if execute:
            shutil.rmtree(job.config.home)
    return found


def _source(job: Job, execute: bool) -> list[str]:
    leftovers = ends.source_of(job).leftovers(execute)
    return [f"source: {line}" for line in leftovers]


def _target(job: Job, execute: bool) -> list[str]:
    store = ends.target_of(job).store()
    try:
        if not store.exists() or store.job(job.config.name) is None:
            return []
        tables = store.tables(job.config.name)
        if execute:
            store.drop(job.config.name)
        return [f"target: state of job {job.config.name} in schema anabranch ({len(tables)} tables; their rows stay)"]
    finally:
        store.close()
