"""`anabranch verify`: are both ends equal?

What does not live here: comparing (`verify/`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import (
    Verb,
    each_target_option,
    job_argument,
    json_option,
    log_level,
    parsed_part,
    write_json,
)

if TYPE_CHECKING:
    from anabranch.job import Job
    from anabranch.verify.report import Verification

SHARE = 0.1  # of the time that --watch reads
LONGEST_PAUSE = 60  # seconds; trail/holding.py
UNITS = {"s": 1, "m": 60, "h": 3600}


def parsed_time(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a time, as seconds."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    if not (number.isascii() and number.isdigit() and int(number)):
        raise click.BadParameter("a time is wanted, as 90s, 10m or 2h", context, parameter)
    return float(int(number) * UNITS[unit])


def _parsed_share(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a share as '10%', as a fraction."""
    if text is None:
        return None
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= 100):
        raise click.BadParameter("a share of the time is wanted, from 1% to 100%", context, parameter)
    return int(number) / 100


def _parsed_pause(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a time for which apply may be held."""
    seconds = parsed_time(context, parameter, text)
    if seconds is not None and seconds > LONGEST_PAUSE:
        raise click.BadParameter(f"apply is held for {LONGEST_PAUSE} s at most", context, parameter)
    return seconds


def _watch(
    job: Job, target: str | None, share: float | None, tables: tuple[str, ...], by_rows: bool, sample: float | None
) -> None:
    if target is None and len(job.targets()) > 1:
        raise click.UsageError("--watch is for one target of several: name it with --target")
    one = job.on(target) if target is not None else job.targets()[0]
    one.keep_verifying(tables, by_rows, share or SHARE, lambda line: click.echo(line), sample)


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
    "--resume",
    is_flag=True,
    help="Go on with the last one: not with tables it found equal.",
)
@click.option(
    "--since",
    metavar="P",
    default="",
    help="Only rows that changed since a position of the trail.",
)
@click.option(
    "--sample",
    metavar="PART",
    callback=parsed_part,
    help="Only '5%' of the rows of each table, by ranges of its key.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", help="With --sample: draw the ranges that N drew before."
)
@click.option(
    "--max-pause",
    metavar="TIME",
    callback=_parsed_pause,
    help="Read both ends at one position: hold apply for '5s' at most.",
)
@click.option("--watch", is_flag=True, help="Repeat forever, table by table; status shows the results.")
@click.option(
    "--share",
    metavar="SHARE",
    callback=_parsed_share,
    help="With --watch: read at most '10%' of the time.",
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
    resume: bool,
    since: str,
    sample: float | None,
    seed: int | None,
    max_pause: float | None,
    watch: bool,
    share: float | None,
    as_json: bool,
) -> None:
    """Compare both ends: sums of every table, then rows that differ.

    While the job runs, writers may continue: differences are checked again; rows undecided in time are pending
    (exit code 9). Otherwise run it while nobody writes. Exit code 4 when both ends differ. Servers sum up their own
    rows where they can, with 64 bits; --by-rows compares digests of 128 bits instead.

    With --budget or --resume the result of each table is kept at the target. What ended early, by the budget or in any
    other way, goes on with --resume: tables that were found equal are not compared again, and their lines say as of when.

    Of a job that applies a trail, the job that captures is asked for sums and digests of its rows; of a job that captures
    into a trail: answer such questions until none comes any more, as its run does by itself.
    """
    from anabranch.job import Job

    if watch and (repair or budget is not None or resume or since or max_pause or as_json):
        raise click.UsageError("--watch goes with --tables, --by-rows, --sample, --share and --target only")
    if share is not None and not watch:
        raise click.UsageError("--share is for --watch")
    if sample is not None and (since or repair):
        raise click.UsageError("--sample compares ranges of keys, without --since and without --repair")
    if max_pause and since:
        raise click.UsageError("--since judges each row at its own position, without --max-pause")
    if resume and (repair or since or sample is not None):
        raise click.UsageError("--resume goes on comparing whole tables, without --repair, --since and --sample")
    if seed is not None and (sample is None or watch):
        raise click.UsageError("--seed is for --sample; --watch draws other ranges at each turn")
    asked = Job.from_file(job)
    if asked.captures and not asked.applies:
        if (
            repair
            or by_rows
            or tables
            or budget is not None
            or resume
            or since
            or sample is not None
            or max_pause
            or watch
        ):
            raise click.UsageError("a job that captures into a trail answers who compares its rows, without options")
        answered = asked.answer_questions()
        write_json({"version": 1, "answered": answered}) if as_json else click.echo(f"questions answered: {answered}")
        return
    if watch:
        _watch(Job.from_file(job), target, share, tables, by_rows, sample)
        return

    def ask(one: Job) -> Verification:
        return one.verify(repair, by_rows, tables, budget, since, sys.stderr, sample, seed, max_pause or 0.0, resume)

    answers = of_each(Job.from_file(job), target, ask)
    answers.show(as_json, lambda result: result.to_json(), lambda result: result.write(sys.stdout))
    answers.exit([result.exit_code for result in answers.found.values()])
