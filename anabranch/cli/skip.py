"""`anabranch skip add|ls|remove`: source transactions that are left out on purpose.

What does not live here: what may be left out (`Job.skip`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import VerbGroup, each_target_option, job_argument, json_option, log_level, target_option

if TYPE_CHECKING:
    from anabranch.model.state import Skipped

position_argument = click.argument("position", metavar="POSITION")


@click.group(cls=VerbGroup)
def skip() -> None:
    """Skip a whole source transaction, and keep a record.

    The record is at the target. POSITION is that of the message about the refused row, or its sequence alone.
    """


@skip.command()
@job_argument
@target_option
@position_argument
@click.option("--execute", is_flag=True, help="Leave it out; without this, only show it.")
@log_level("warning")
def add(job: str, target: str | None, position: str, execute: bool) -> None:
    """Skip a transaction; apply must be stopped."""
    from anabranch.job import Job

    found = Job.from_file(job).on(target).skip(position, execute=execute)
    for line in _whole(found):
        click.echo(line)
    click.echo("is left out" if execute else "nothing was changed; add --execute to leave it out")


@skip.command()
@job_argument
@each_target_option
@json_option
@log_level("warning")
def ls(job: str, target: str | None, as_json: bool) -> None:
    """List skipped transactions, and those still to be skipped."""
    from anabranch.job import Job

    answers = of_each(Job.from_file(job), target, lambda one: one.skipped())
    answers.show(as_json, _facts, lambda found: click.echo("\n".join(_listed(found))))
    answers.exit([])


@skip.command()
@job_argument
@target_option
@position_argument
@log_level("warning")
def remove(job: str, target: str | None, position: str) -> None:
    """Cancel a skip that apply has not reached yet."""
    from anabranch.job import Job

    click.echo(f"{Job.from_file(job).on(target).unskip(position)} is applied after all")


def _facts(found: Sequence[Skipped]) -> dict[str, Any]:
    from anabranch.state.store import time_text

    skipped = [
        {
            "position": {"text": one.position, "commit_time": time_text(one.commit_time)},
            "changes": one.changes,
            "asked_at": time_text(one.asked_at),
        }
        for one in found
    ]
    return {"version": 1, "skipped": skipped}


def _listed(found: Sequence[Skipped]) -> Iterator[str]:
    from anabranch.state.store import time_text

    if not found:
        yield "no transaction is left out"
    for one in found:
        yield from (*_whole(one), f"    asked {time_text(one.asked_at)}")


def _whole(one: Skipped) -> list[str]:
    from anabranch.state.store import time_text

    at = f", committed {time_text(one.commit_time)}" if one.commit_time else ""
    return [
        f"transaction {one.position}{at}",
        *(f"    {number:,} changes of {table}" for table, number in sorted(one.changes.items())),
        *(["    no changes of replicated tables"] if not one.changes else []),
    ]
