"""`anabranch preflight`: is the job possible?"""

from __future__ import annotations

import sys

import click

from anabranch.cli.options import job_argument, json_option, log_level, write_json


@click.command()
@job_argument
@json_option
@log_level("warning")
def preflight(job: str, as_json: bool) -> None:
    """Check both ends and the rules, all at once, with what mends each finding. Exit 3 if a check fails."""
    from anabranch.errors import PreflightFailed
    from anabranch.job import Job

    report = Job.from_file(job).preflight()
    write_json(report.to_json()) if as_json else report.write(sys.stdout)
    if report.failed:
        sys.exit(PreflightFailed.exit_code)
