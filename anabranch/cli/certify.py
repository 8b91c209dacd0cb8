"""`anabranch types`: do values of each type of the job come back as they were?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import Verb, each_target_option, job_argument, json_option, log_level


@click.command(cls=Verb)
@job_argument
@each_target_option
@click.option(
    "--values",
    type=click.IntRange(1, 10_000),
    default=100,
    metavar="N",
    help="Values drawn of each type.  [default: 100]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Draw the values that another run has drawn.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the page there."
)
@json_option
@log_level("warning")
def types(job: str, target: str | None, values: int, seed: int | None, output: Path | None, as_json: bool) -> None:
    """Try each type of the job on both servers; a page (Markdown) says what came back.

    Values drawn at random, and the edges of each type, go into a temporary table at the source, through the load, into
    one at the target, and are read back. Nothing stays. Exit code 3 if a type fares worse than preflight declares it.
    """
    from anabranch.errors import PreflightFailed
    from anabranch.job import Job

    answers = of_each(Job.from_file(job), target, lambda one: one.types_tried(values, seed))
    if output is not None:
        output.write_text("\n".join(found.markdown() for found in answers.found.values()), encoding="utf-8")
    if output is None or as_json:
        answers.show(as_json, lambda found: found.to_json(), lambda found: sys.stdout.write(found.markdown()))
    answers.exit([PreflightFailed.exit_code for found in answers.found.values() if found.is_worse])
