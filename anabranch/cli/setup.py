"""`anabranch setup`: what capture needs at the source."""

from __future__ import annotations

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, write_json


@click.command(cls=Verb)
@job_argument
@click.option("--execute", is_flag=True, help="Run the statements; without it they are only shown.")
@click.option("--remove", is_flag=True, help="Remove what setup made; the trail cannot continue then.")
@json_option
@log_level("warning")
def setup(job: str, execute: bool, remove: bool, as_json: bool) -> None:
    """Show the statements that prepare the source for capture.

    Somebody with the rights runs them, or --execute. May be repeated: completed steps are left out. `run` does the
    same by itself if its user may.
    """
    from anabranch.job import Job

    statements = Job.from_file(job).setup(execute=execute, remove=remove)
    if as_json:
        write_json({"executed": execute, "remove": remove, "statements": statements})
        return
    for statement in statements:
        click.echo(f"{statement};")
    if not statements:
        click.echo("-- there is nothing to take away" if remove else "-- the source has all that capture needs")
