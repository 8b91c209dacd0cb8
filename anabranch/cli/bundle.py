"""`anabranch bundle`: one archive for whoever helps with a job.

What does not live here: what is in it, and what is hidden (`Job.bundle`).
"""

from __future__ import annotations

from pathlib import Path

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, write_json


@click.command(cls=Verb)
@job_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it to this file, not to one made up here.",
)
@click.option(
    "--hours",
    type=click.FloatRange(min=0),
    default=24.0,
    metavar="N",
    help="Take the trace of the last N hours  [default: 24]",
)
@click.option("--offline", is_flag=True, help="Ask neither end: without status, preflight, metrics, ddl.")
@json_option
@log_level("error")
def bundle(job: str, output: Path | None, hours: float, offline: bool, as_json: bool) -> None:
    """Write one archive for whoever helps with a job.

    It has no secrets and no values of rows. It works while the job runs or does not, and while an end is away.
    """
    from anabranch.job import Job

    made = Job.from_file(job).bundle(output, hours=hours, offline=offline)
    if as_json:
        write_json(made.to_json())
        return
    for name, why in made.left_out.items():
        click.echo(f"left out: {name}: {why}")
    click.echo(f"{made.file}: {made.file.stat().st_size:,} bytes, {len(made.files)} files")
