"""Do the work of Spark in this process, because a JVM takes seconds to start; a filter starts Spark, which evaluates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.job import parts
from anabranch.model.datatype import LogicalType
from anabranch.spark.engine import SparkEngine
from anabranch.spark.work import Bundle, Outcome, Work
from anabranch.testing.torture.local import LocalEngine, Small
from anabranch.testing.torture.local_verify import local_spark

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


class Local(LocalEngine):
    """An engine as SparkEngine is made."""

    def __init__(self, session: Callable[[], Any], runner: str = "") -> None:
        super().__init__(Small())
        self._session = session

    @cached_property
    def _spark(self) -> SparkEngine:
        return SparkEngine(self._session)

    def run(
        self, work: Work, bundles: Sequence[Bundle], take: Callable[[Outcome], None], stop: Callable[[], bool]
    ) -> bool:
        plain, filtered = ([one for one in bundles if bool(one.where) is has] for has in (False, True))
        return super().run(work, plain, take, stop) and (not filtered or self._spark.run(work, filtered, take, stop))

    def passes(self, expression: str, types: Mapping[str, LogicalType], rows: pa.Table) -> pa.BooleanArray:
        return self._spark.passes(expression, types, rows)


_factory = parts.spark_factory


def _local_spark(job: JobView, part_name: str) -> Callable[[], Any]:
    """Return what verifies in this process; a job with filters has Spark."""
    if part_name != "verify" or any(table.where for table in job.config.tables):
        return _factory(job, part_name)
    return local_spark()


def in_this_process() -> None:
    parts.SparkEngine = Local  # type: ignore[misc,assignment]  # in its place
    parts.spark_factory = _local_spark
