"""`anabranch metrics`: the job's metrics as text.

What does not live here: gathering them (`Job.metrics`), answering requests (`run`, with `[metrics] listen`).
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from anabranch.cli.options import Verb, job_argument, log_level
from anabranch.errors import ConfigError


@click.command(cls=Verb)
@job_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write them to this file, which others always find whole.",
)
@log_level("warning")
def metrics(job: str, output: Path | None) -> None:
    """Print the job's metrics in Prometheus' text form, running or not.

    With -o a collector of text files reads them, such as the one of Prometheus' node exporter: run it by a timer.
    """
    from anabranch.job import Job

    text = Job.from_file(job).metrics()
    if output is None:
        click.echo(text, nl=False)
    else:
        _put(output, text)


def _put(path: Path, text: str) -> None:
    """Write the file beside its place and move it there: a collector may read at any moment."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
