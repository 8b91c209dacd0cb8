"""`anabranch types`: do values of each type of the job come back as they were?"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import Verb, json_option, log_level

if TYPE_CHECKING:
    from anabranch.job import Job


def _between(source: str, target: str) -> Job:
    """Return a job of everything that is between two ends."""
    from anabranch.job import Job

    text = "\n".join(
        (
            'name = "types"',
            f"[source]\nurl = {json.dumps(source)}",
            f"[target]\nurl = {json.dumps(target)}",
            '[[rules]]\ninclude = ["*.*"]\ntarget = "{schema}.{table}"',
        )
    )
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "types.toml"
        file.write_text(text, encoding="utf-8")
        return Job.from_file(file)


@click.command(cls=Verb)
@click.argument("job", metavar="[JOB]", type=click.Path(dir_okay=True), required=False)
@click.option("--source", metavar="URL", help="Without a job: every type of this source at --target URL.")
@click.option("--target", metavar="NAME", help="One target of several; without a job its URL.")
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
def types(
    job: str | None,
    source: str | None,
    target: str | None,
    values: int,
    seed: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Try each type of the job on both servers; a page (Markdown) says what came back.

    Values drawn at random, and the edges of each type, go into a temporary table at the source, through the load, into
    one at the target, and are read back. Nothing stays. Exit code 3 if a type fares worse than preflight declares it, 4 if one
    that the job may have was not tried.
    """
    if bool(job) == bool(source) or (source and not target):
        raise click.UsageError("a job is wanted, or --source URL and --target URL")
    from anabranch.errors import DifferencesFound, PreflightFailed
    from anabranch.job import Job

    if job is not None:
        answers = of_each(Job.from_file(job), target, lambda one: one.types_tried(values, seed))
    else:
        answers = of_each(
            _between(str(source), str(target)), None, lambda one: one.types_tried(values, seed, every=True)
        )
    if output is not None:
        output.write_text("\n".join(found.markdown() for found in answers.found.values()), encoding="utf-8")
    if output is None or as_json:
        answers.show(as_json, lambda found: found.to_json(), lambda found: sys.stdout.write(found.markdown()))
    answers.exit(
        [PreflightFailed.exit_code for found in answers.found.values() if found.is_worse]
        or [DifferencesFound.exit_code for found in answers.found.values() if found.untried]
    )
