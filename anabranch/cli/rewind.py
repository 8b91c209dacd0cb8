"""`anabranch rewind`: the target goes back to an earlier place of the trail.

What does not live here: what that means, and doing it (`Job.rewind`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from anabranch.cli.options import Verb, job_argument, json_option, log_level, target_option, write_json

if TYPE_CHECKING:
    from anabranch.lifecycle.rewinding import Rewound


@click.command(cls=Verb)
@job_argument
@target_option
@click.option("--to", "position", required=True, metavar="POSITION", help="A position from a message, or its sequence.")
@click.option("--execute", is_flag=True, help="Go back; load and apply must be stopped.")
@json_option
@log_level("warning")
def rewind(job: str, target: str | None, position: str, execute: bool, as_json: bool) -> None:
    """Go back to POSITION, and carry out the trail from there again.

    Rows that changed between POSITION and the target's place get the source's values, whatever they are now. The next
    start of apply does it. Without --execute it is only shown.
    """
    from anabranch.job import Job

    found = Job.from_file(job).on(target).rewind(position, execute=execute)
    if as_json:
        write_json({"version": 1, "executed": execute, **_facts(found)})
    else:
        click.echo("\n".join(_lines(found, execute)))


def _facts(found: Rewound) -> dict[str, object]:
    return {
        "now": str(found.now),
        "to": str(found.to),
        "transactions": found.transactions,
        "tables": {str(table): rows for table, rows in found.tables.items()},
        "later": {str(table): str(place) for table, place in found.later.items()},
        "left": {str(table): why for table, why in found.left.items()},
    }


def _lines(found: Rewound, execute: bool) -> Iterator[str]:
    yield f"from {found.now} back to {found.to}: {found.transactions:,} transactions once more"
    for table, rows in found.tables.items():
        since = f", from {found.later[table]} on, where it joined" if table in found.later else ""
        yield f"    {table}: about {rows:,} row images{since}"
    for table, why in found.left.items():
        yield f"    {table} stays as it is: {why}"
    if execute:
        yield "the target is back there; start the job, or apply"
    else:
        yield "nothing was changed; add --execute to go back"
