"""`anabranch preflight`: is the job possible, and, with --scan, do its values fit?"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import (
    Verb,
    each_target_option,
    job_argument,
    json_option,
    log_level,
    parsed_part,
    write_json,
)

if TYPE_CHECKING:
    from anabranch.job import Job
    from anabranch.preflight.report import Report
    from anabranch.scan.report import ScanReport


@dataclass(frozen=True)
class _Found:
    """The checks of one target, with what a scan adds to them."""

    report: Report
    scan: ScanReport | None = None

    def to_json(self) -> dict[str, Any]:
        found = self.report.to_json()
        return found | {"scan": self.scan.to_json()} if self.scan is not None else found


@click.command(cls=Verb)
@job_argument
@each_target_option
@click.option("--reverse", is_flag=True, help="Check the way back, too: what could not go back, and why.")
@click.option("--scan", is_flag=True, help="Try the source's rows at the target; none stays.")
@click.option(
    "--tables", multiple=True, metavar="PATTERN", help="Scan only source tables that fit, 'shop.*'; may be repeated."
)
@click.option(
    "--sample", metavar="PART", callback=parsed_part, help="Scan only '5%' of each table, by ranges of its key."
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Draw the ranges of --sample as another scan did.")
@json_option
@log_level("warning")
def preflight(
    job: str,
    target: str | None,
    reverse: bool,
    scan: bool,
    tables: tuple[str, ...],
    sample: float | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Check both ends and the rules; each finding has its remedy.

    All checks run, whatever the others say. Where [spark] master names a cluster, tasks look at its workers. Exit code 3 if a
    check fails, 5 or 6 if an end cannot be entered, 3 if a load would refuse a row that --scan has tried. A Kafka that is away
    is reported alone; so is the right to enter a database, with exit code 3.
    """
    if not scan and (tables or sample is not None):
        raise click.UsageError("--tables and --sample say what --scan looks at")
    if seed is not None and sample is None:
        raise click.UsageError("--seed needs --sample")
    from anabranch.config.hop_files import is_pump_file
    from anabranch.errors import PreflightFailed

    if is_pump_file(job):
        from anabranch.job.hopping import pump_job

        found = pump_job(job).check()
        if as_json:
            write_json({"version": 1, "job": pump_job(job).name, "problems": found})
        if found:
            raise PreflightFailed("; ".join(found))
        return
    from anabranch.job import Job

    def asked(one: Job) -> _Found:
        report = one.preflight(reverse, workers=True)
        if not scan or report.exit_code != PreflightFailed.exit_code:  # rows of an end that cannot be entered
            return _Found(report)
        found = one.scan(tables, sample, seed, None if as_json else sys.stderr)
        return _Found(report.with_(found.results()), found)

    answers = of_each(Job.from_file(job), target, asked)
    answers.show(as_json, lambda found: found.to_json(), lambda found: found.report.write(sys.stdout))
    answers.exit([found.report.exit_code for found in answers.found.values() if found.report.failed])
