"""`anabranch verify`: are both ends equal?

What does not live here: comparing (`verify/`).
"""

from __future__ import annotations

import sys

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import Verb, each_target_option, job_argument, json_option, log_level


@click.command(cls=Verb)
@job_argument
@click.option(
    "--repair",
    is_flag=True,
    help="Have apply repair rows that differ, then compare again.",
)
@click.option(
    "--by-rows",
    is_flag=True,
    help="Read every row at both ends, and compare digests.",
)
@click.option(
    "--tables",
    multiple=True,
    metavar="PATTERN",
    help="Only source tables that fit, 'shop.*'; may be repeated.",
)
@each_target_option
@json_option
@log_level("warning")
def verify(job: str, target: str | None, repair: bool, by_rows: bool, tables: tuple[str, ...], as_json: bool) -> None:
    """Compare both ends: sums of every table, then rows that differ.

    Run it while the writer is quiet. Exit code 4 when they differ. Servers sum up their own rows where they can, with
    64 bits; --by-rows compares digests of 128 bits instead.
    """
    from anabranch.job import Job

    answers = of_each(Job.from_file(job), target, lambda one: one.verify(repair, by_rows, tables))
    answers.show(as_json, lambda result: result.to_json(), lambda result: result.write(sys.stdout))
    answers.exit([result.exit_code for result in answers.found.values()])
