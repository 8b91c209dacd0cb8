"""`anabranch cutover`: from the source to the target, in steps that survive a kill.

What does not live here: the steps (`cutover/`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, target_option, write_json

if TYPE_CHECKING:
    from anabranch.cutover.report import CutoverReport
    from anabranch.job import Job

PLAN, STATUS, ABORT = "plan", "status", "abort"


@click.command(cls=Verb)
@job_argument
@click.option("--plan", "asked", flag_value=PLAN, help="Only look what keeps it from being begun.")
@click.option("--status", "asked", flag_value=STATUS, help="Only say how far it is, and who may write now.")
@click.option("--abort", "asked", flag_value=ABORT, help="Take it back: the source takes writes again.")
@click.option("--flip-undone", is_flag=True, help="With --abort: what the flip command did is undone.")
@click.option("--verify", is_flag=True, help="Compare both ends while nobody writes.")
@click.option("--allow-parked", is_flag=True, help="Also without the rows of parked tables, or set aside.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=60.0,
    metavar="SECONDS",
    help="For older transactions, and the target  [default: 60]",
)
@target_option
@json_option
@log_level("warning")
def cutover(
    job: str,
    asked: str | None,
    flip_undone: bool,
    verify: bool,
    allow_parked: bool,
    wait: float,
    target: str | None,
    as_json: bool,
) -> None:
    """Switch to the target: fence the source, bring the target to the fence, flip.

    The job has to run meanwhile. An error before the flip opens the source again; after a kill, the same command goes
    on. [cutover] in the job file has the command that leads the application to the target.
    """
    from anabranch.job import Job

    if flip_undone and asked != ABORT:
        raise click.UsageError("--flip-undone has a meaning with --abort only")
    one = Job.from_file(job).on(target)
    if asked == PLAN:
        _plan(one, allow_parked, as_json)
    elif asked == STATUS:
        _show(one.cutover_status(), as_json)
    elif asked == ABORT:
        _show(one.abort_cutover(flip_undone, _told), as_json)
    else:
        _show(one.cutover(verify, allow_parked, wait, _told), as_json)


def _plan(job: Job, allow_parked: bool, as_json: bool) -> None:
    report = job.plan_cutover(allow_parked)
    write_json(report.to_json()) if as_json else report.write(sys.stdout)
    report.require()


def _show(report: CutoverReport, as_json: bool) -> None:
    write_json(report.to_json()) if as_json else click.echo(report.to_markdown(), nl=False)


def _told(line: str) -> None:
    click.echo(line, err=True)
