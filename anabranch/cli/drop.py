"""`anabranch drop`: what the job left behind, and its removal (K32)."""

from __future__ import annotations

import click

from anabranch.cli.options import Verb, each_target_option, job_argument, log_level


@click.command(cls=Verb)
@job_argument
@each_target_option
@click.option("--execute", is_flag=True, help="Remove it; without this, only show it.")
@click.option(
    "--lift-fence/--keep-fence",
    "lifts_fence",
    default=None,
    help="The fence of a cut-over goes, or stays.",
)
@log_level("warning")
def drop(job: str, target: str | None, execute: bool, lifts_fence: bool | None) -> None:
    """Show what the job left at both ends and at home, or remove it.

    Keeps replicated tables. With --target, only that target's leftovers and its holds on the trail: the others go on.
    """
    from anabranch.job import Job

    made = Job.from_file(job)
    found = (made if target is None else made.on(target)).drop(execute=execute, lifts_fence=lifts_fence)
    for line in found.lines:
        click.echo(f"{_does(execute, line)}: {line}")
    found.require()
    if not found.lines:
        click.echo("the job left nothing")
    elif not execute:
        click.echo("nothing was changed; add --execute to remove it")


def _does(execute: bool, line: str) -> str:
    from anabranch.cutover.leaving import REMAINS

    return "left" if line == REMAINS else "removed" if execute else "would remove"
