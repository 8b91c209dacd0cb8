"""`anabranch arm`: start a job whose tables already exist, without a load.

What does not live here: what that means (`Job.arm`).
"""

from __future__ import annotations

from shlex import quote

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, write_json


@click.command(cls=Verb)
@job_argument
@json_option
@log_level("warning")
def arm(job: str, as_json: bool) -> None:
    """Let a way back begin at its source's present position.

    For a job whose tables and rows already exist at its target ([load] existing = "take_over"), as anabranch reverse
    writes it. Nothing is loaded: changes committed at its source from now on are applied once the job runs. May
    be repeated, also after a kill.
    """
    from anabranch.job import Job

    found = Job.from_file(job).arm()
    if as_json:
        write_json(
            {
                "version": 1,
                "position": str(found.position),
                "tables": [str(table) for table in found.tables],
                "was_armed": found.was_armed,
            }
        )
        return
    was = "was armed already" if found.was_armed else "is armed"
    click.echo(
        f"the job {was}: changes behind {found.position} go to {len(found.tables)} tables; next: anabranch run {quote(job)}"
    )
