"""`anabranch verify`: are both ends equal?

What does not live here: comparing (`verify/`).
"""

from __future__ import annotations

import sys

import click

from anabranch.cli.options import job_argument, json_option, log_level, write_json


@click.command()
@job_argument
@click.option(
    "--repair",
    is_flag=True,
    help="Put rows that differ to what they are at the source, then compare again. Apply does it.",
)
@json_option
@log_level("warning")
def verify(job: str, repair: bool, as_json: bool) -> None:
    """Compare every table, row by row. Run it while the writer is quiet. Exit 4 when they differ."""
    from anabranch.job import Job

    result = Job.from_file(job).verify(repair=repair)
    write_json(result.to_json()) if as_json else result.write(sys.stdout)
    if result.exit_code:
        sys.exit(result.exit_code)
