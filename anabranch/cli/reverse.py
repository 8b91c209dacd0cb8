"""`anabranch reverse`: the job file of the way back.

What does not live here: what it says (`Job.reverse`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, write_json

if TYPE_CHECKING:
    from anabranch.lifecycle.reversing import Reversed


@click.command(cls=Verb)
@job_argument
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to FILE, not to stdout."
)
@click.option("--force", is_flag=True, help="Overwrite an existing FILE.")
@json_option
@log_level("warning")
def reverse(job: str, output: str | None, force: bool, as_json: bool) -> None:
    """Write the job file of the way back: from the target to the source.

    Swaps ends, rules and names, and takes types from the tables that the job made. Reads both ends, changes nothing.
    Exit code 3 if something cannot go back; losses on the way are listed on stderr.
    """
    if force and not output:
        raise click.UsageError("--force needs -o FILE")
    from anabranch.job import Job
    from anabranch.lifecycle.reversing import write

    made = Job.from_file(job)
    found = made.reverse()
    for one in found.back.findings:
        click.echo(f"{one.verdict}  {one.check}: {f'{one.table}: ' if one.table else ''}{one.message}", err=True)
    if found.advice:
        click.echo(f"note  {found.advice}", err=True)
    if output:
        write(found.text, Path(output), Path(job), force)
    if as_json:
        write_json(_facts(found, output))
    elif output:
        click.echo(
            f"{output}: job {found.name}, {len(found.back.tables)} tables; next: anabranch preflight {quote(output)}"
        )
    else:
        sys.stdout.write(found.text)


def _facts(found: Reversed, output: str | None) -> dict[str, Any]:
    return {
        "version": 1,
        "name": found.name,
        "file": output,
        "tables": [{"source": str(table.read), "target": str(table.written)} for table in found.back.tables],
        "left_out": {str(table): why for table, why in found.back.left_out.items()},
        "warnings": [{"check": one.check, "table": one.table, "message": one.message} for one in found.back.findings],
        "advice": found.advice,
        **({} if output else {"text": found.text}),
    }
