"""`preflight --scan` for a job: its tables as the source has them now, tried at one target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from anabranch import waits
from anabranch.config.deciding import deciding
from anabranch.errors import AnabranchError, ConfigError
from anabranch.job.parts import spark_factory
from anabranch.job.printing import source_definitions
from anabranch.job.verifying import fitting
from anabranch.model.schema import TableSchema
from anabranch.rows.zero_dates import NULL, STOP, choice
from anabranch.scan.plan import ScanTable
from anabranch.scan.report import ScanReport, TableScan
from anabranch.scan.run import scan_tables
from anabranch.spark.engine import Engine, SparkEngine
from anabranch.verify.display import telling
from anabranch.verify.wanted import Sample
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import value_rules
from anabranch.view.refusals import refuse_beside_trail

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


def scan(
    job: JobView,
    patterns: Sequence[str] = (),
    sample: Sample | None = None,
    show: IO[str] | None = None,
    engine: Engine | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ScanReport:
    """Try the rows of the job's tables, or of those that a pattern fits, at this target. `engine`: used instead of Spark.
    Raises ConfigError for a pattern that is none or fits no table, and for a sample that is no part; the error of an end that
    is away."""
    refuse_beside_trail(job, "a scan")
    if sample is not None and not 0 < sample.share <= 1:
        raise ConfigError(f"a sample of {sample.share} is no part of the rows", hint="above 0, at most 1: 0.05 is 5%")
    try:
        found = source_definitions(job, None)
        wanted = fitting(found, patterns) if patterns else found
        tables, left = _tables(job, [schema for _, schema in sorted(wanted.items())])
        with telling(show) as tell, waits.in_tasks():
            scans, findings = scan_tables(
                engine or SparkEngine(spark_factory(job, "scan")),
                source_of(job),
                target_of(job),
                tables,
                rules=value_rules(job),
                sample=sample,
                tell=tell,
                stop=stop,
            )
    except AnabranchError as error:
        error.job = error.job or job.label
        raise
    told = [replace(one, decides=deciding(job.config, one.hint, str(one.table))) for one in findings]
    seed = sample.seed if sample else None
    return ScanReport(job.config.name, [*left, *scans], told, job.config.apply.on_error, seed)


def _tables(job: JobView, schemas: Iterable[TableSchema]) -> tuple[list[ScanTable], list[TableScan]]:
    """Return the tables to look at, and those that the job cannot replicate as they are defined."""
    found, left = [], []
    for schema in schemas:
        try:
            found.append(_table(job, schema))
        except AnabranchError as error:
            left.append(TableScan(schema.id, 0, (0, 0), (error.message,)))
    return found, left


def _table(job: JobView, schema: TableSchema) -> ScanTable:
    rules = value_rules(job)
    choices = {column.name: choice(rules, schema, column.name) for column in schema.columns}
    dated = frozenset(name for name, said in choices.items() if said not in (STOP, NULL))
    chooses = rules.nul != STOP or any(said != STOP for said in choices.values())
    return ScanTable(schema, job.rules.target_table(schema), job.rules.where(schema), dated, chooses)
