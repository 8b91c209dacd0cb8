"""`anabranch capture`: the source's log into the trail."""

from __future__ import annotations

import click

from anabranch.cli.options import Verb, job_argument, log_level


@click.command(cls=Verb)
@job_argument
@log_level("info")
def capture(job: str) -> None:
    """Read the source's log into the trail, until stopped."""
    from anabranch.job import Job

    Job.from_file(job).capture()
