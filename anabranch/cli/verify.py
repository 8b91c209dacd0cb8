"""`anabranch verify`: are both ends equal?

What does not live here: comparing (`verify/`).
"""

from __future__ import annotations

import sys

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import each_target_option, job_argument, json_option, log_level


@click.command()
@job_argument
@click.option(
    "--repair",
    is_flag=True,
    help="Put rows that differ to what they are at the source, then compare again. Apply does it.",
)
@click.option(
    "--by-rows",
    is_flag=True,
    help="Read every row at both ends, also where a server can sum up its own: digests of 128 bits in place of sums of 64.",
)
@each_target_option
@json_option
@log_level("warning")
def verify(job: str, target: str | None, repair: bool, by_rows: bool, as_json: bool) -> None:
    """Compare every table: by sums, then the rows that differ. Run it while the writer is quiet. Exit 4 when they differ."""
    from anabranch.job import Job

    answers = of_each(Job.from_file(job), target, lambda one: one.verify(repair=repair, by_rows=by_rows))
    answers.show(as_json, lambda result: result.to_json(), lambda result: result.write(sys.stdout))
    answers.exit([result.exit_code for result in answers.found.values()])
