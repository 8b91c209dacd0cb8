"""`anabranch drill`: would the way back work?

What does not live here: the drill (`job/drilling.py`).
"""

from __future__ import annotations

import sys

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, write_json
from anabranch.cli.verify import parsed_time


@click.command(cls=Verb)
@job_argument
@click.option(
    "--tables",
    multiple=True,
    metavar="PATTERN",
    help="Only source tables that fit, 'shop.*'; may be repeated.",
)
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    default="60s",
    callback=parsed_time,
    help="Stream at most so long, until tables changed.",
)
@click.option("--clean", is_flag=True, help="Only remove what a drill left that was killed.")
@json_option
@log_level("warning")
def drill(job: str, tables: tuple[str, ...], seconds: float, clean: bool, as_json: bool) -> None:
    """Show that the way back would work, beside the running job and its users.

    A shadow of the source's tables is loaded from the target, takes what the target's log tells, and is compared with
    the tables themselves; then all of it is removed. Nobody else's tables are written to. Exit code 3 if something was
    found, with what helps, 4 if rows came back otherwise, 9 if some were on their way at every look.
    """
    from anabranch.job import Job

    made = Job.from_file(job)
    if clean:
        lines = made.clean_drill()
        if as_json:
            write_json({"version": 1, "removed": lines})
            return
        for line in lines:
            click.echo(f"removed: {line}")
        if not lines:
            click.echo("no drill left anything")
        return
    report = made.drill(tables, seconds, _Lines())
    write_json(report.to_json()) if as_json else report.write(sys.stdout)
    if report.exit_code:
        sys.exit(report.exit_code)


class _Lines:
    """Show each line once, as it comes, on stderr."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, line: str) -> None:
        if line != self._last:
            click.echo(line, err=True)
        self._last = line
