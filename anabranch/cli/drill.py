"""`anabranch drill`: would the way back work?

What does not live here: the drill (`job/drilling.py`).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

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
@click.option("--plan", is_flag=True, help="Only show what it would make, and problems found.")
@click.option("--logged", is_flag=True, help="Allow the shadow's writes in a MySQL's log.")
@click.option("--clean", is_flag=True, help="Only remove what a killed drill left behind.")
@json_option
@log_level("warning")
def drill(
    job: str, tables: tuple[str, ...], seconds: float, plan: bool, logged: bool, clean: bool, as_json: bool
) -> None:
    """Show that the way back would work, beside the running job and its users.

    Loads a shadow of the source's tables from the target, applies the target's log to it, compares it with the tables
    themselves, and removes all of it. Writes to no other tables. Exit code 3 if a problem was found (with its remedy),
    4 if rows came back different, 9 if some were in flight at every check.
    """
    from anabranch.job import Job

    if plan and clean:
        raise click.UsageError("--plan and --clean exclude each other")
    made = Job.from_file(job)
    if clean:
        with _ending_once():
            lines = made.clean_drill()
        if as_json:
            write_json({"version": 1, "removed": lines})
            return
        for line in lines:
            click.echo(f"removed: {line}")
        if not lines:
            click.echo("no drill left anything")
        return
    if plan:
        planned = made.plan_drill(tables, logged)
        write_json(planned.to_json()) if as_json else planned.write(sys.stdout)
        sys.exit(planned.exit_code)
    with _ending_once():
        report = made.drill(tables, seconds, _Lines(), logged)
    write_json(report.to_json()) if as_json else report.write(sys.stdout)
    if report.exit_code:
        sys.exit(report.exit_code)


@contextmanager
def _ending_once() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM, and a terminal that goes away end the drill with all that it has made removed. The first signal
    asks for that; no other but one more Ctrl-C keeps it from being done."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def end(number: int, _: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Lines:
    """Show each line once on stderr, while it is open: the drill continues without it."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, line: str) -> None:
        if line != self._last:
            with suppress(OSError):
                click.echo(line, err=True)
        self._last = line
