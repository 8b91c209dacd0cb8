"""Looks at the workers of a cluster before a job needs them: tasks that report what they find where they run.

What does not live here: what becomes of it in a preflight report (job/spark_checks.py).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark import SparkContext

from anabranch.spark import fit, pieces
from anabranch.spark.fit import Fit
from anabranch.spark.session import session
from anabranch.spark.work import Outcome

STAY_SECONDS = 1.0  # of a task: long enough that the next one goes to another executor
MASTER_SECONDS, EXECUTOR_SECONDS = 10.0, 120.0  # for a master and for executors, of a person who waits

Ask = Callable[[], str]
"""A question to an end; what kept it from answering, "" for nothing. Picklable: it is asked on a worker."""


@dataclass(frozen=True)
class Site:
    """The findings of a task: `unfit` and each of `answers` say what is wrong there, "" for nothing."""

    host: str
    unfit: str
    answers: tuple[str, ...]


def survey(
    master: str,
    conf: dict[str, str],
    tasks: int,
    place: Path | None,
    archive: str | None,
    asks: Sequence[Ask],
) -> list[Site]:
    """Return what `tasks` tasks have found. A session that is made for it is stopped behind it. Raises SparkUnavailable for
    a cluster that is away or gives no executor, AnabranchError for what keeps tasks from running there."""
    is_ours = SparkContext._active_spark_context is None
    spark = session("anabranch preflight", master, conf, tasks, place, archive, MASTER_SECONDS)
    try:
        looked_for = fit.wanted(spark.sparkContext.master, needs_home=True)
        looking = spark.sparkContext.parallelize(range(tasks), tasks).map(partial(_look, looked_for, tuple(asks)))
        found: list[Site] = []
        pieces.run(spark, [looking], lambda outcome: found.append(outcome.value), lambda: False, EXECUTOR_SECONDS)
        return found
    finally:
        if is_ours:
            spark.stop()


def _look(looked_for: Fit | None, asks: tuple[Ask, ...], number: int) -> Outcome:
    time.sleep(STAY_SECONDS)
    unfit = looked_for.why_not() if looked_for is not None else ""
    return Outcome(number, Site(platform.node(), unfit, tuple(ask() for ask in asks)))
