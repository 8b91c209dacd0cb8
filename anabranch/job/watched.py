"""A turn of `verify --watch`: one table is compared, and the place of the trail is found from which on that result needs only
what changed since.

What does not live here: whose turn it is (keep_verifying.py), what the place is good for (at_fence.py).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError
from anabranch.job.left_out import tells_all, unsure
from anabranch.job.verifying import (
    beside_running,
    compared,
    expected_identity,
    still_streaming,
    tables_of,
)
from anabranch.model.cutover import Cutover
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.model.value_rules import ValueRules
from anabranch.model.verified import Verified, VerifiedPlace
from anabranch.verify.again import Again
from anabranch.verify.both_ends import Beside
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.touched import Parent, Passing, all_pass
from anabranch.verify.wanted import Wanted
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import read_of, source_of, store_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.view.job_view import JobView

SECONDS = 10.0  # for the place; without one the result stands all the same


@dataclass(frozen=True, slots=True)
class Turn:
    """The outcome of one. `place`: where it began, if it says from where on the trail tells the rest; `server`: which one
    the source was then."""

    found: Verification
    place: VerifiedPlace | None = None
    server: str = ""


def as_kept(one: TableResult, state: TableState, turn: Turn, began: int) -> Verified:
    """Return a table's result as the target keeps it. `began`: in microseconds since 1970."""
    found, is_equal = turn.found, one.identical and one.is_complete and not one.pending
    differing = one.missing + one.extra + one.different
    result = "identical" if one.identical else "pending" if one.is_undecided else "different"
    positions = found.positions or ("", "")
    at = time.time_ns() // 1000
    return Verified(
        state.source,
        at,
        began,
        result,
        state.generation,
        positions,
        one.rows_source,
        differing,
        one.pending,
        one.is_complete,
        one.why,
        None if found.sample is None else found.sample.percent,
        turn.place if is_equal and found.sample is None and not one.only_changed else None,
    )


def verify_one(
    job: JobView,
    spark: Callable[[], SparkSession],
    state: TableState,
    wanted: Wanted,
    patience: float,
    stop: Callable[[], bool],
) -> Turn | None:
    """Compare one table that streams, beside the running job; what is undecided after `patience` seconds, and as long as the
    first comparison took, is pending. `wanted` says how, not what. None when stopped, or where no part of the job runs. The
    table is not in the result if it does not stream any more."""
    beside = beside_running(job)
    if beside is None:
        return None
    with store_of(job) as store:
        others = store.states.others(job.config.name)
        whole = store.states.table(job.config.name, state.source)
    if whole is None or not whole.is_streaming or whole.generation != state.generation:
        return Turn(Verification(()))
    states = {state.source: whole}
    tables = tables_of(job, states, others)
    # A lock that the job takes for one load is not for looks that go on for ever.
    beside = replace(beside, patience=patience, extends=False, lock="none")
    begun = _begun(job, tables[0], beside, stop) if beside.tells_all and tables and wanted.sample is None else None
    found = compared(job, spark, tables, wanted, beside, stop)
    if found is None:
        return None
    found = still_streaming(job, states, found)[1]
    if beside.tells_all and not tells_all(job):
        return Turn(unsure(found))
    if begun is None or not begun.is_at_one_server(job, beside, stop):
        return Turn(found)
    return Turn(found, begun.place, begun.server)


def compared_as(one: VerifyTable, rules: ValueRules, parents: Mapping[TableId, Parent]) -> str:
    """Return a digest of all that decides what is compared with what, and what changes rows unseen: another one means that no
    former result holds."""
    passes = one.filter and (one.filter.text, one.filter.columns)
    acting = sorted((str(table), sorted(parent.columns), parent.links) for table, parent in parents.items())
    told = repr((one.schema, one.table, passes, one.is_shared, one.only_changed, rules, acting))
    return hashlib.sha256(told.encode()).hexdigest()


def looking(
    job: JobView,
    kind: type[Again],
    beside: Beside,
    stop: Callable[[], bool] = lambda: False,
    passing: Passing = all_pass,
) -> Again:
    """Open both ends for looks at rows by their keys. `passing`: who tells which rows pass a table's filter."""
    ends = source_of(job), read_of(job), value_rules(job), expected_identity(job)
    return kind(*ends, beside, stop, passing=passing)


@dataclass(frozen=True, slots=True)
class _Begun:
    """The beginning of a turn: its place, and which server the source was."""

    place: VerifiedPlace
    server: str

    def is_at_one_server(self, job: JobView, beside: Beside, stop: Callable[[], bool]) -> bool:
        """Return whether the source is the same server still. Another one need not have had what the first one had."""
        with closing(looking(job, Again, beside, stop)) as again:
            return again.server() == self.server


def _begun(job: JobView, one: VerifyTable, beside: Beside, stop: Callable[[], bool]) -> _Begun | None:
    """Find the place before rows of the table are read; None where nobody can say one."""
    with store_of(job) as store:
        cutover = Cutover.of(store.cutovers.cutover_notes(job.config.name))
    uuid = trail_uuid(job)
    if cutover.is_fenced or uuid is None:
        return None
    try:
        with closing(looking(job, Again, beside, stop)) as again:
            again.until(time.monotonic() + SECONDS)
            server, place = again.server(), again.place(one)
    except AnabranchError:
        return (
            None  # an old MySQL that cannot say what a snapshot has; an end that is away says so where it is compared
        )
    if place is None:
        return None
    digest = compared_as(one, value_rules(job), beside.parents.get(one.table.source, {}))
    return _Begun(VerifiedPlace(str(place), uuid, digest, cutover.last), server)
