"""Opens what a job works on: its source, its targets, their stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anabranch import connectors
from anabranch.errors import ConfigError, TargetUnavailable
from anabranch.view.options import source_limits, target_limits

if TYPE_CHECKING:  # contracts take time to come, and `status` goes without them
    from anabranch.contracts import ReadTarget, RowTarget, SourceCatalog, SourceConnector, TargetStore
    from anabranch.model.endpoint import Endpoint
    from anabranch.view.job_view import JobView

T = TypeVar("T")


def source_of(job: JobView, at_most: float = math.inf) -> SourceConnector:
    """Return the source. `at_most`: seconds that connecting and each answer may take, for who asks by the way."""
    source, limits = job.config.source, source_limits(job)
    if at_most < math.inf:
        limits = replace(limits, connect=min(limits.connect, at_most), statement=min(limits.statement, at_most))
    return connectors.source(replace(source.endpoint, limits=limits), source.options)


def target_of(job: JobView) -> RowTarget:
    """Return the target of a job that keeps rows. Raises ConfigError for one that keeps changes: it cannot do that."""
    if job.config.keeps_changes:
        raise ConfigError(
            f"the job keeps changes ({job.config.kept_changes}): there are no rows to load, to compare or to go back from",
            job=job.config.name,
            hint="use a job of its own for the rows",
        )
    return connectors.row_target(_end(job), job.config.target_options(job.target))


def read_of(job: JobView) -> ReadTarget:
    """Return what of the target verification reads: its rows, or what its changes tell of them. Raises ConfigError for one
    whose changes tell none."""
    from anabranch.contracts import TellsRows

    if job.config.keeps_changes:
        found = end_of(job)
        if isinstance(found, TellsRows):
            return found.as_rows(job.config.name)
    return target_of(job)


def require_rows(job: JobView) -> None:
    """Raise ConfigError for a job that keeps changes, where something is asked that only rows can do."""
    if job.config.keeps_changes:
        raise ConfigError(
            f"the job keeps changes ({job.config.kept_changes}): there are no rows to load, to compare or to go back from",
            job=job.config.name,
            hint="use a job of its own for the rows",
        )


def end_of(job: JobView) -> RowTarget:
    """Return the target, whatever it keeps: for its state, its checks, and what is written there."""
    if job.config.keeps_changes:
        return connectors.change_target(_end(job), job.config.target_options(job.target))
    return target_of(job)


def _end(job: JobView) -> Endpoint:
    return replace(job.endpoint, limits=target_limits(job))


@contextmanager
def store_of(job: JobView) -> Iterator[TargetStore]:
    """Open the target's store, closed afterwards. It may not exist yet."""
    store = end_of(job).store()
    try:
        yield store
    finally:
        store.close()


@contextmanager
def catalog_of(source: SourceConnector) -> Iterator[SourceCatalog]:
    """Open the source's catalogue, closed afterwards."""
    catalog = source.catalog()
    try:
        yield catalog
    finally:
        catalog.close()


def of_each(job: JobView, ask: Callable[[JobView], T]) -> list[T]:
    """Return the answers of a job's targets; without those that are away, unless all of them are."""
    found, away = list[T](), list[TargetUnavailable]()
    for one in job.targets():
        try:
            found.append(ask(one))
        except TargetUnavailable as error:
            away.append(error)
    if away and not found:
        raise away[0]
    return found


def spark_home(job: JobView) -> Path:
    return job.target_home / "spark"
