"""`anabranch run`: all of a job on one machine."""

from __future__ import annotations

import sys

import click

from anabranch.cli.options import Verb, job_argument, log_level, standby
from anabranch.errors import ConfigError


@click.command(cls=Verb)
@job_argument
@click.option(
    "--until-caught-up",
    is_flag=True,
    help="Stop with exit code 0 once caught up with the source.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Stop after N seconds of streaming.",
)
@standby
@log_level("info")
def run(job: str, until_caught_up: bool, seconds: float | None, stands_by: bool) -> None:
    """Check, load what is not loaded yet, then capture and apply.

    Caught up means: all changes committed at the source when streaming began are applied; in a pair of two active
    sites also: the other site's deletes noted by then are cleared, and winning rows noted by then are
    written again. With --until-caught-up, --seconds is a limit: exit code 9 when it is not caught up by then.

    With --standby it waits as long as another machine's capture writes the trail, which the file has as its target, and goes on
    where that one has ended.

    With a trail at both ends it sends the one into the other; caught up means then: all that is published is durable at
    the next store.

    SIGINT or SIGTERM finishes the running epoch and stops; a second one stops at once.
    """
    from anabranch.config.hop_files import is_pump_file

    if is_pump_file(job) and stands_by:
        raise ConfigError(
            f"{job} sends a trail and captures none", hint="--standby is for a job that captures into a trail"
        )
    if is_pump_file(job):
        from anabranch.job.hop_process import noted
        from anabranch.job.hopping import pump_job

        with noted():
            pump_job(job).run(until_caught_up=until_caught_up, seconds=seconds)
        return
    from anabranch.job import Job
    from anabranch.job.standing_by import stand_by

    found = Job.from_file(job)
    if stands_by:
        stand_by(found)
    found.run(until_caught_up=until_caught_up, seconds=seconds, show=sys.stderr)
