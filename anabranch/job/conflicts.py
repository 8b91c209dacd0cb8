"""Disagreements that were settled, as the target has noted them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.model.ids import TableId
    from anabranch.rows.conflict import NotedConflict
    from anabranch.view.job_view import JobView


def settled_conflicts(job: JobView, table: TableId | None, after: int, limit: int) -> list[NotedConflict]:
    """Return the conflicts that the target has noted; [] where the job has never been."""
    with store_of(job) as store:
        return store.journal.conflicts(job.config.name, table, after, limit) if store.exists() else []


def forget_conflicts(job: JobView, upto: int) -> int:
    with store_of(job) as store:
        return store.journal.forget_conflicts(job.config.name, upto) if store.exists() else 0
