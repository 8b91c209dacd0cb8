"""Build the commands `cutover` and `failback`: their options, and what each of them asks a job for.

What does not live here: the steps (`cutover/`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, target_option, write_json

if TYPE_CHECKING:
    from anabranch.cutover.report import CutoverReport
    from anabranch.job import Job

PLAN, STATUS, ABORT = "plan", "status", "abort"


def switch(verb: Callable[..., None]) -> click.Command:
    """Return the command of a switch to the other end, with the options that both have."""
    options = (
        job_argument,
        click.option("--plan", "asked", flag_value=PLAN, help="Only check what prevents its start."),
        click.option("--status", "asked", flag_value=STATUS, help="Only show its progress, and who may write now."),
        click.option("--abort", "asked", flag_value=ABORT, help="Undo it: writes go where they went before."),
        click.option("--flip-undone", is_flag=True, help="With --abort: what the flip command did is undone."),
        click.option("--verify", is_flag=True, help="Compare both ends while nobody writes."),
        click.option("--since-watch", is_flag=True, help="Compare what changed since verify --watch."),
        click.option("--allow-parked", is_flag=True, help="Proceed without parked tables or rows set aside."),
        click.option(
            "--wait",
            type=click.FloatRange(min=0),
            default=60.0,
            metavar="SECONDS",
            help="For older transactions, and the other end  [default: 60]",
        ),
        target_option,
        json_option,
        log_level("warning"),
    )
    for option in reversed(options):
        verb = option(verb)
    return click.command(cls=Verb)(verb)


def job_of(job: str, target: str | None, asked: str | None, flip_undone: bool) -> Job:
    from anabranch.job import Job

    if flip_undone and asked != ABORT:
        raise click.UsageError("--flip-undone has a meaning with --abort only")
    return Job.from_file(job).on(target)


def carry_out(
    asked: str | None,
    flip_undone: bool,
    does: tuple[Callable[..., Any], ...],
    verify: bool,
    since_watch: bool,
    allow_parked: bool,
    wait: float,
    as_json: bool,
) -> None:
    """Do what is asked for, by the methods of a job: to switch, to plan it, to take it back, to say how far it is."""
    run, plan, abort, status = does
    verifies = verify or ("since-watch" if since_watch else False)  # whoever asks for both wants all rows
    if asked == PLAN:
        report = plan(allow_parked, verifies)
        write_json(report.to_json()) if as_json else report.write(sys.stdout)
        report.require()
    elif asked == STATUS:
        _show(status(), as_json)
    elif asked == ABORT:
        _show(abort(flip_undone, _told), as_json)
    else:
        _show(run(verifies, allow_parked, wait, _told), as_json)


def _show(report: CutoverReport, as_json: bool) -> None:
    write_json(report.to_json()) if as_json else click.echo(report.to_markdown(), nl=False)


def _told(line: str) -> None:
    click.echo(line, err=True)
