"""Checks of the cluster that `[spark] master` names: can it be had, are its workers fit, do they reach both ends?

They start Spark there, so they are for a person who asks (`anabranch preflight`); the parts find the same out as they go.
What does not live here: what a task looks at (spark/fit.py, spark/survey.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.contracts import RowTarget, SourceConnector
from anabranch.errors import AnabranchError, SourceUnavailable, SparkUnavailable, TargetUnavailable
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.spark.cluster import NO_EXECUTOR, is_cluster
from anabranch.view.opened import end_of, source_of, spark_home

if TYPE_CHECKING:
    from anabranch.spark.survey import Site
    from anabranch.view.job_view import JobView

ANSWER_S = 10.0  # for which a worker waits until an end counts as away
CLUSTER, WORKERS, LINES = "spark.cluster", "spark.workers", "spark.lines"
GUIDE = "docs/howto/on-a-spark-cluster.md"


@dataclass(frozen=True)
class AskSource:
    """Opens a line to the source, on a worker."""

    source: SourceConnector

    def __call__(self) -> str:
        try:
            with closing(self.source.catalog()) as catalog:
                catalog.writers()
        except SourceUnavailable as away:
            return f"the source: {away.message}"
        except AnabranchError:  # it answers; what it refuses is the other checks' to say
            pass
        return ""


@dataclass(frozen=True)
class AskTarget:
    """Opens a line to the target, on a worker."""

    target: RowTarget

    def __call__(self) -> str:
        try:
            with closing(self.target.store()) as store:
                store.exists()
        except TargetUnavailable as away:
            return f"the target: {away.message}"
        except AnabranchError:  # as above
            pass
        return ""


def spark_results(job: JobView) -> list[CheckResult]:
    """Return the checks of the job's cluster; none of a job whose Spark is on this machine."""
    spark = job.config.spark
    if not is_cluster(spark.master):
        return []
    from anabranch.spark.survey import survey

    asks = (AskSource(source_of(job, ANSWER_S)), AskTarget(end_of(job)))
    try:
        found = survey(spark.master, spark.conf, job.config.load.parallel, spark_home(job), spark.archive, asks)
    except SparkUnavailable as away:
        return [CheckResult(CLUSTER, CheckVerdict.FAILED, away.message, away.hint or NO_EXECUTOR)]
    except AnabranchError as error:
        return [
            CheckResult(CLUSTER, CheckVerdict.FAILED, error.message, f"{error.hint}; {GUIDE} says what workers need")
        ]
    return list(_told(spark.master, found))


def _told(master: str, found: Sequence[Site]) -> Iterator[CheckResult]:
    hosts = sorted({site.host for site in found})
    yield CheckResult(CLUSTER, CheckVerdict.OK, f"{master} ran {len(found)} tasks, on {', '.join(hosts)}")
    unfit = sorted({(site.host, site.unfit) for site in found if site.unfit})
    yield from (
        CheckResult(WORKERS, CheckVerdict.FAILED, f"the worker on {host} {why}", f"see {GUIDE}") for host, why in unfit
    )
    if not unfit:
        yield CheckResult(WORKERS, CheckVerdict.OK, "workers have this release, this Python, and the job's home")
    away = sorted({(site.host, why) for site in found for why in site.answers if why})
    yield from (
        CheckResult(LINES, CheckVerdict.FAILED, f"the worker on {host} does not reach {why}", "open the way from there")
        for host, why in away
    )
    if not away:
        yield CheckResult(LINES, CheckVerdict.OK, "workers reach both ends")
