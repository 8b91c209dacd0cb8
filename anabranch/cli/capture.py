"""`anabranch capture`: the source's log into the trail."""

from __future__ import annotations

import click

from anabranch.cli.options import Verb, job_argument, log_level, standby


@click.command(cls=Verb)
@job_argument
@standby
@log_level("info")
def capture(job: str, stands_by: bool) -> None:
    """Read the source's log into the trail, until stopped."""
    from anabranch.job import Job
    from anabranch.job.standing_by import stand_by

    found = Job.from_file(job)
    if stands_by:
        stand_by(found)
    found.capture()
