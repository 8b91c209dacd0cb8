"""Do the work of Spark in this process, because a JVM takes seconds to start; a filter starts Spark, which evaluates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch import waits
from anabranch.job import Job, parts
from anabranch.model.datatype import LogicalType
from anabranch.spark.engine import SparkEngine
from anabranch.spark.work import Bundle, Outcome, Work
from anabranch.testing.torture.local import LocalEngine, Small
from anabranch.testing.torture.local_verify import verify_here

if TYPE_CHECKING:
    from anabranch.verify.report import Verification
    from anabranch.verify.wanted import Wanted


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


_with_spark = parts.run_verify


def _verify(job: Job, wanted: Wanted) -> Verification:
    if job.config.hop or any(table.where for table in job.config.tables):
        return _with_spark(job, wanted)
    with waits.in_tasks():
        return verify_here(job, **vars(wanted))


def in_this_process() -> None:
    parts.SparkEngine = Local  # type: ignore[misc,assignment]  # in its place
    parts.run_verify = _verify
