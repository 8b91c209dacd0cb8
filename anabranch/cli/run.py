"""`anabranch run`: all of a job on one machine."""

from __future__ import annotations

import click

from anabranch.cli.options import job_argument, log_level


@click.command()
@job_argument
@click.option(
    "--until-caught-up",
    is_flag=True,
    help="End with 0 when everything committed at the source when streaming was reached is applied.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Stop after N seconds of streaming; with --until-caught-up the limit (exit 9 when it is not reached).",
)
@log_level("info")
def run(job: str, until_caught_up: bool, seconds: float | None) -> None:
    """Preflight, load if needed, then capture and apply together.

    SIGINT or SIGTERM finishes the running epoch and stops; a second one stops at once.
    """
    from anabranch.job import Job

    Job.from_file(job).run(until_caught_up=until_caught_up, seconds=seconds)
