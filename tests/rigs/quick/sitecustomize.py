"""Python runs this at its start where the folder is in PYTHONPATH: load, apply and verify do what Spark would do in their own
processes, as under torture (anabranch/testing/torture/local.py). For scenarios that are about processes, not about Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch import waits
from anabranch.job import Job, parts
from anabranch.testing.torture.local import LocalEngine, Small
from anabranch.testing.torture.local_verify import verify_here

if TYPE_CHECKING:
    from anabranch.verify.report import Verification


class _Local(LocalEngine):
    def __init__(self, factory: object, runner: str = "") -> None:
        super().__init__(Small())


_with_spark = parts.run_verify


def _verify(job: Job, repairs: bool = False, by_rows: bool = False) -> Verification:
    if any(table.where for table in job.config.tables):
        return _with_spark(job, repairs, by_rows)
    with waits.in_tasks():
        return verify_here(job, repairs, by_rows)


parts.SparkEngine = _Local  # type: ignore[misc,assignment]  # in its place
parts.run_verify = _verify
