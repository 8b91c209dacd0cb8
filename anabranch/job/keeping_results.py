"""Keeping what a verification found of a table, where others keep and forget results meanwhile.

What does not live here: what a result is (model/verified.py), the place where it is kept (`VerifiedStore`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.contracts import TargetStore
from anabranch.model.ids import TableId
from anabranch.model.verified import Verified
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


def known(store: TargetStore, job: str) -> dict[TableId, Verified]:
    """Return the last result of each table."""
    return {one.source: one for one in store.verifications.verified(job)}


def last_of(job: JobView, table: TableId) -> Verified | None:
    """Return the last result of a table."""
    with store_of(job) as store:
        return known(store, job.config.name).get(table)


def keep_in(
    store: TargetStore, job: str, before: Verified | None, made: Callable[[Verified | None], Verified], table: TableId
) -> bool:
    """Keep a result in place of the table's last one, whoever's clock is ahead. `before`: the one that was there before the
    table was compared; `made` returns what is kept in place of the one that it gets.

    That it is equal is not kept where the last one was forgotten meanwhile, or is of one that does not say so: rows may have
    changed since they were read. One that does not tell, and leaves the one before it as it was, takes nothing away. Returns
    whether it was kept."""
    store.prepare()  # of an earlier release it has no place for it
    while True:
        found = made(before)
        if before is not None:
            found = replace(found, at=max(found.at, before.at + 1))
        if store.verifications.note_verified(job, found, before.at if before else 0):
            return True
        before = known(store, job).get(table)
        if found.result == "identical" and (
            before is None or (before.result != "identical" and before.earlier is None)
        ):
            return False
