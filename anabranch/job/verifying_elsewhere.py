"""`verify` of a job that applies a trail: the source's site tells sums and digests of rows, this one compares them
with its own.

What does not live here: comparing (verify/elsewhere.py), answering at the source's site (answering.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError, StateError
from anabranch.job.keeping_results import keep_in, last_of
from anabranch.job.resuming import Resumed, require_whole, resumed
from anabranch.job.verifying import (
    beside_of,
    forget_differing,
    not_replicated,
    place_of,
    states_of,
    still_streaming,
    tables_of,
)
from anabranch.job.watched import Turn, as_kept
from anabranch.lifecycle.asides import set_aside
from anabranch.lifecycle.encrypting import note_keys
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.model.verified import Verified
from anabranch.spark.engine import Engine
from anabranch.trail.identity import IMPORTS, STORED
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail.storage import LocalStorage
from anabranch.verify.asking import Asking
from anabranch.verify.display import DIGESTS, telling
from anabranch.verify.elsewhere import Elsewhere
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.run import LIMIT_KEYS
from anabranch.verify.wanted import Wanted
from anabranch.view.opened import read_of, source_of, store_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

WAITS = "waits for the job that captures to tell of its rows; if that does not run, start it there: anabranch run JOB"


def verify_elsewhere(job: JobView, engine: Engine, wanted: Wanted) -> Verification:
    """Compare the tables of a job with what the site of its source tells. Raises ConfigError for what needs the
    source itself, StateError where the trail comes by a way on which nobody can be asked, and as `verify` does."""
    refuse_elsewhere(job, wanted)
    if wanted.resumes:
        require_whole(job, wanted)
    states, others = states_of(job, wanted.patterns)
    note_keys(job)
    before = place_of(job)
    tables = tables_of(job, states, others)
    going = resumed(job, wanted, tables, states, server_there(job)) if wanted.is_kept else None
    if going:
        going.begin()
    results = tuple(_results(job, engine, wanted, states, going.left(tables) if going else tables, going))
    now = place_of(job)
    found = Verification(tuple(replace(one, until=now) for one in results), positions=(before, now))
    found = going.whole(tables, found, server_there(job) == going.server) if going else found
    states, found = still_streaming(job, states, found)
    return replace(found, **not_replicated(job, states))


def refuse_elsewhere(job: JobView, wanted: Wanted) -> None:
    """Raise ConfigError for what needs the source itself, StateError where nobody can be asked."""
    asked = {
        "--repair": wanted.repairs,
        "--since": wanted.since,
        "--sample": wanted.sample,
        "--max-pause": wanted.max_pause,
    }
    if names := [name for name, is_wanted in asked.items() if is_wanted]:
        raise ConfigError(
            f"{', '.join(names)} needs the source itself, and the job's [source] url is a trail",
            job=job.config.name,
            hint="verify without it; a table that differs is loaded again: anabranch load JOB --table T",
        )
    if not {IMPORTS, STORED}.isdisjoint(LocalStorage(job.trail).names()):
        raise StateError(
            f"the trail {job.trail} comes by a way on which the site of the source cannot be asked about its rows",
            job=job.config.name,
            hint="compare by a file that has the source database as its [source] url, from where both are reached",
        )


def _results(
    job: JobView,
    engine: Engine,
    wanted: Wanted,
    states: Mapping[TableId, TableState],
    tables: Sequence[VerifyTable],
    going: Resumed | None,
) -> Iterator[TableResult]:
    """Yield the result of each of the tables, one after the other, and keep it as `verify --watch` does; or so that a
    verification can be gone on with."""

    across = _across(job, engine, wanted)
    with telling(wanted.show) as tell:
        for number, one in enumerate(tables):
            tell(DIGESTS, number, len(tables))
            began, before, last = time.time_ns() // 1000, place_of(job), last_of(job, one.table.source)
            result = across.compare(one)
            places, state = (before, place_of(job)), states[one.table.source]
            if going is None:
                _keep(job, state, result, places, began, last)
            elif result.is_told and server_there(job) == going.server:
                result = going.keep(one, state, result, began, places, last)
            if going is not None:
                forget_differing(job, [result])
            yield result


def server_there(job: JobView) -> str:
    """Return which server the source is, as far as the trail has come here; "" for the one with which it began."""
    if not exists(job.trail):
        return ""
    with TrailReader(job.trail) as trail:
        return next((one.reason for one in reversed(trail.history.entries) if one.kind == "source"), "")


def _across(job: JobView, engine: Engine, wanted: Wanted, stop: Callable[[], bool] = lambda: False) -> Elsewhere:
    def waits() -> None:
        if wanted.show is not None:
            wanted.show.write(f"{WAITS}\n")

    limit = max(LIMIT_KEYS, len(set_aside(job)) + 1)
    ends = source_of(job), read_of(job), value_rules(job), beside_of(job)
    return Elsewhere(engine, *ends, Asking(job.trail, waits), limit, time.monotonic() + wanted.budget, stop)


def verify_one_elsewhere(
    job: JobView, engine: Engine, state: TableState, wanted: Wanted, stop: Callable[[], bool]
) -> Turn | None:
    """Compare one table, as a turn of `verify --watch`; None when stopped. The table is not in the result if it does not stream
    any more. The caller has asked `refuse_elsewhere`."""
    with store_of(job) as store:
        others = store.states.others(job.config.name)
        whole = store.states.table(job.config.name, state.source)
    if whole is None or not whole.is_streaming or whole.generation != state.generation:
        return Turn(Verification(()))
    note_keys(job)
    before, states = place_of(job), {state.source: whole}
    (one,) = tables_of(job, states, others)
    result = _across(job, engine, wanted, stop).compare(one)
    if stop():
        return None
    found = Verification((result,), positions=(before, place_of(job)))
    return Turn(still_streaming(job, states, found)[1])


def _keep(
    job: JobView, state: TableState, result: TableResult, places: tuple[str, str], began: int, last: Verified | None
) -> None:
    kept = as_kept(result, state, Turn(Verification((result,), positions=places)), began)
    with store_of(job) as store:
        if store.exists() and store.jobs.job(job.config.name) is not None:
            keep_in(store, job.config.name, last, lambda _: kept, state.source)
