"""`anabranch apply`: the trail to the target."""

from __future__ import annotations

import click

from anabranch.cli.options import Verb, job_argument, log_level, target_option


@click.command(cls=Verb)
@job_argument
@target_option
@log_level("info")
def apply(job: str, target: str | None) -> None:
    """Apply the trail to the target, until stopped; waits for the load."""
    from anabranch.job import Job

    Job.from_file(job).on(target).apply()
