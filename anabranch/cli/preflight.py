"""`anabranch preflight`: is the job possible?"""

from __future__ import annotations

import sys

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import Verb, each_target_option, job_argument, json_option, log_level


@click.command(cls=Verb)
@job_argument
@each_target_option
@click.option("--reverse", is_flag=True, help="Check the way back, too: what could not go back, and why.")
@json_option
@log_level("warning")
def preflight(job: str, target: str | None, reverse: bool, as_json: bool) -> None:
    """Check both ends and the rules; each finding has its remedy.

    All checks run, whatever the others say. Exit code 3 if a check fails.
    """
    from anabranch.errors import PreflightFailed
    from anabranch.job import Job

    answers = of_each(Job.from_file(job), target, lambda one: one.preflight(reverse))
    answers.show(as_json, lambda report: report.to_json(), lambda report: report.write(sys.stdout))
    answers.exit([PreflightFailed.exit_code for report in answers.found.values() if report.failed])
