"""`anabranch verify`: are both ends equal?

What does not live here: comparing (`verify/`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import Verb, each_target_option, job_argument, json_option, log_level

if TYPE_CHECKING:
    from anabranch.verify.report import Verification

UNITS = {"s": 1, "m": 60, "h": 3600}


def parsed_time(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a time, as seconds."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    if not (number.isascii() and number.isdigit() and int(number)):
        raise click.BadParameter("a time is wanted, as 90s, 10m or 2h", context, parameter)
    return float(int(number) * UNITS[unit])


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
@click.option(
    "--budget",
    metavar="TIME",
    callback=parsed_time,
    help="Stop after '90s', '10m', '2h': the rest is pending.",
)
@click.option(
    "--since",
    metavar="P",
    default="",
    help="Only rows that changed since a position of the trail.",
)
@each_target_option
@json_option
@log_level("warning")
def verify(
    job: str,
    target: str | None,
    repair: bool,
    by_rows: bool,
    tables: tuple[str, ...],
    budget: float | None,
    since: str,
    as_json: bool,
) -> None:
    """Compare both ends: sums of every table, then rows that differ.

    Beside a running job writers may go on: what differs is looked at again; what cannot be told in time is pending
    (exit code 9). Else run it while the writer is quiet. Exit code 4 when both ends differ. Servers sum up their own
    rows where they can, with 64 bits; --by-rows compares digests of 128 bits instead.
    """
    from anabranch.job import Job

    def ask(one: Job) -> Verification:
        return one.verify(repair, by_rows, tables, budget, since, sys.stderr)

    answers = of_each(Job.from_file(job), target, ask)
    answers.show(as_json, lambda result: result.to_json(), lambda result: result.write(sys.stdout))
    answers.exit([result.exit_code for result in answers.found.values()])
