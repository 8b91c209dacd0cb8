"""`anabranch parked ls|show|resume|reload|drop`: tables that are taken out of replication, and their way back.

What does not live here: doing it (`Job`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import job_argument, json_option, log_level, table_argument, target_option, write_json

if TYPE_CHECKING:
    from anabranch.job.parking import ParkedTable


@click.group()
def parked() -> None:
    """Tables that are parked: why, and how they come back. TABLE is a source table, as schema.table."""


@parked.command()
@job_argument
@target_option
@json_option
@log_level("warning")
def ls(job: str, target: str | None, as_json: bool) -> None:
    """List them, with what brings each back."""
    from anabranch.job import Job

    found = Job.from_file(job).on(target).parked()
    if as_json:
        write_json({"version": 1, "parked": [_facts(one) for one in found]})
    else:
        click.echo("\n".join(_lines(found)) if found else "no table is parked")


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@json_option
@log_level("warning")
def show(job: str, target: str | None, table: str, as_json: bool) -> None:
    """Show one: the reason in full, where it stands, what waits for it."""
    from anabranch.job import Job

    (one,) = Job.from_file(job).on(target).parked(table)
    write_json({"version": 1, **_facts(one)}) if as_json else click.echo("\n".join(_whole(one)))


@parked.command()
@job_argument
@target_option
@table_argument(required=False)
@log_level("info")
def resume(job: str, target: str | None, table: str | None) -> None:
    """Go on where it was parked, once the target takes the row: all that can, or one with those that were parked with it.
    Apply does it while it runs, or when it starts."""
    from anabranch.job import Job

    for name in Job.from_file(job).on(target).resume(table):
        click.echo(f"{name} goes on where it stood")


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@click.option(
    "--recreate", is_flag=True, help="Where its definition changed: drop the target table and create it anew."
)
@log_level("info")
def reload(job: str, target: str | None, table: str, recreate: bool) -> None:
    """Load it again, as load --table does; it joins when the stream has caught up with it."""
    from anabranch.job import Job

    Job.from_file(job).on(target).load(table=table, recreate=recreate)


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@log_level("warning")
def drop(job: str, target: str | None, table: str) -> None:
    """Give up the part of the trail that is held for it and those that were parked with it. They stay parked, and only a load
    brings them back."""
    from anabranch.job import Job

    click.echo(f"{Job.from_file(job).on(target).give_up(table):,} bytes of the trail are held for {table} no more")


def _facts(one: ParkedTable) -> dict[str, Any]:
    return {**asdict(one), "source": str(one.source), "target": str(one.target)}


def _lines(found: list[ParkedTable]) -> Iterator[str]:
    yield f"{'TABLE':<30} {'WAITING':>12} {'HELD BYTES':>14}  BACK BY"
    for one in found:
        waiting, size = (f"{one.waiting:,}", f"{one.held_bytes:,}") if one.held_bytes else ("-", "-")
        yield f"{one.source!s:<30} {waiting:>12} {size:>14}  {_back(one)}"
        yield f"    {one.reason}"


def _back(one: ParkedTable) -> str:
    verb = "resume" if one.resumes_after is not None else "reload"
    return f"anabranch parked {verb} JOB {one.source}"


def _whole(one: ParkedTable) -> Iterator[str]:
    yield f"table       {one.source} -> {one.target}"
    yield f"reason      {one.reason}"
    if one.held_bytes:
        yield f"waiting     {one.waiting:,} row images, in {one.held_bytes:,} bytes of the trail"
    if one.resumes_after is not None:
        yield f"stands at   {one.position}"
        yield f"look        anabranch trail show JOB --from {one.resumes_after + 1} --table {one.source} --limit 5"
    yield f"back by     {_back(one)}"
