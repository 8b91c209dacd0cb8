"""`verify --repair`: rows that differ are handed to apply, which makes them equal to the source's.

What does not live here: finding them (`verify/`), doing it (`apply/life/repair.py`), the mailbox between
(`trail/repairs.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch import log, pace
from anabranch.errors import StateError
from anabranch.lifecycle.asides import set_aside
from anabranch.model.ids import TableId
from anabranch.trail import repairs
from anabranch.verify.canonical import Canonical
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import Repaired, TableResult
from anabranch.view.opened import store_of
from anabranch.view.running import APPLY, running

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

KEYS = 10_000  # per table and call; where more differ, a load is quicker
WITH_KEYS = "anabranch load JOB --table {} brings it in again"


def require_apply(job: JobView) -> None:
    """Require that apply runs, which writes at the target. Raises StateError."""
    if not any(part.name == APPLY for part in running(job)):
        raise StateError("apply does not run, which does the repair", job=job.config.name, hint="anabranch run JOB")


def repair(
    job: JobView, tables: Sequence[VerifyTable], results: Sequence[TableResult], stop: Callable[[], bool]
) -> list[Repaired]:
    """Ask for every table that differs, and wait until apply has done it. Raises StateError where apply ends before."""
    by_name = {str(one.table.source): one for one in tables}
    left = {one.source: why for one in results if one.differs and (why := _why_not(job, by_name[one.source]))}
    asked = {}
    for one in results:
        if one.differs and one.source not in left:
            table = by_name[one.source]
            waits = [dict(change.key) for change in set_aside(job, table.table.source)]  # these rows wait for a person
            found = [d for d in one.sample if dict(d.key) not in waits]
            present = [d.key for d in found if d.kind != "extra"]
            extra = [d.key for d in found if d.kind == "extra" and not table.is_shared]
            _forget_verified(job, table.table.source)
            asked[table.table.source] = repairs.ask(job.names.repairs(job.trail), table.table.source, present, extra)
    done = [*_done(job, asked, stop)]
    return [*done, *(Repaired(name, left=why) for name, why in sorted(left.items()))]


def _forget_verified(job: JobView, table: TableId) -> None:
    """Forget what `verify --watch` has found: rows are about to change of which the trail does not tell."""
    with store_of(job) as store:
        store.verifications.forget_verified(job.config.name, table)


def _why_not(job: JobView, one: VerifyTable) -> str:
    """Say why rows of the table cannot be found by a key at both ends; "" where they can."""
    again = WITH_KEYS.format(one.table.source.typed)
    if not one.table.key:
        return f"it has no key: {again}"
    if one.filter is not None:
        return f"it has a filter: {again}"
    places = [one.table.columns.index(name) for name in one.table.key]
    if Canonical(one.table).has_forms(*places):
        return f"values of its key have several forms: {again}"
    return ""


def _done(job: JobView, asked: Mapping[TableId, repairs.Repair], stop: Callable[[], bool]) -> Iterator[Repaired]:
    """Yield the results, table by table; what is not done when this ends is withdrawn."""
    bound = log.get(job=job.config.name)
    if asked:
        bound.info("waiting_for_apply", why="it puts the rows right", tables=list(map(str, asked)))
    try:
        for table, one in asked.items():
            while (found := repairs.found(job.names.repairs(job.trail), table)) is not None and not found.is_done:
                if stop():
                    return
                require_apply(job)
                time.sleep(pace.current.repair_poll)
            if found is not None and found.id == one.id:
                yield Repaired(str(table), one.keys - len(found.refused), found.refused)
            else:
                yield Repaired(str(table), left="another repair of it was asked for meanwhile")
    finally:
        for one in asked.values():
            repairs.withdraw(job.names.repairs(job.trail), one)
