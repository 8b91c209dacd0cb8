"""`anabranch plan`: what an edited job file means for its tables.

What does not live here: what that is, and taking it over (`Job.plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import Verb, each_target_option, job_argument, json_option, log_level

if TYPE_CHECKING:
    from anabranch.lifecycle.planning import Plan

DONE = {
    "new": "waits for its load",
    "left out": "is forgotten; its rows at the target stay",
    "changed": "is parked until it is loaded again",
    "connected": "is parked until it is loaded again",
}


@click.command(cls=Verb)
@job_argument
@each_target_option
@click.option("--execute", is_flag=True, help="Accept the changes; the job must be stopped.")
@json_option
@log_level("warning")
def plan(job: str, target: str | None, execute: bool, as_json: bool) -> None:
    """Show what an edited job file changes, table by table.

    The file is compared with the one of the last run; some changes need tables to be loaded. Without --execute nothing
    is changed.
    """
    from anabranch.job import Job

    made = Job.from_file(job)
    gone = made.targets_left_out(execute=execute) if target is None else []
    answers = of_each(made, target, lambda one: one.plan(execute=execute))
    if not as_json:
        for name in gone:
            click.echo(
                f"target {name}  left out\n    what is held of the trail for it is let go; its rows and state stay"
            )
        if gone and not execute:
            click.echo("nothing was changed; add --execute to take it over")
    left_out = {"targets_left_out": gone} if gone else {}
    answers.show(as_json, lambda found: left_out | plan_facts(found), lambda found: _show(found, execute))
    answers.exit([])


def plan_facts(found: Plan | None) -> dict[str, Any]:
    """Return what an edited job file means for tables of a target, for programs."""
    changes = [{**asdict(one), "table": str(one.table)} for one in found.changes] if found else []
    return {
        "version": 1,
        "has_run": found is not None,
        "differences": list(found.lines) if found else [],
        "changes": changes,
        "notes": list(found.notes) if found else [],
    }


def _show(found: Plan | None, execute: bool) -> None:
    click.echo("\n".join(_lines(found, execute)))


def plan_lines(found: Plan | None) -> Iterator[str]:
    """Yield what an edited job file means for tables of a target, for people."""
    if found is None:
        yield "the job has not run yet: its first start loads every table"
        return
    if not found.lines:
        yield "the job file has not changed since the job last ran"
        return
    yield from (f"the file: {line}" for line in found.lines)
    for change in found.changes:
        why = f": {change.why}" if change.why else ""
        yield f"{change.table}  {change.kind}{why}"
        yield f"    {DONE[change.kind]}"
    yield from found.notes
    if not found.changes:
        yield "no table is affected"


def _lines(found: Plan | None, execute: bool) -> Iterator[str]:
    yield from plan_lines(found)
    if found is None or not found.lines:
        return
    if not execute:
        yield "nothing was changed; add --execute to take it over"
        return
    if found.loads:
        yield "start the job (anabranch run JOB, or capture and apply), then:"
    yield from (f"  {command}" for command in found.commands.values())
