"""`anabranch load`: the initial load, of all tables or of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from anabranch.cli.options import Verb, job_argument, log_level, table_option, target_option

if TYPE_CHECKING:
    from anabranch.job import Job


@click.command(cls=Verb)
@job_argument
@target_option
@table_option("Load only this table (schema.table), first time or again.")
@click.option("--recreate", is_flag=True, help="Drop and create the target table (changed definition).")
@click.option(
    "--with-children",
    is_flag=True,
    help="Also reload the tables that its foreign keys change.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Keep existing rows; remove this job's own rows first.",
)
@click.option(
    "--from-now",
    is_flag=True,
    help="Copy nothing: it has the source's rows now.",
)
@click.option(
    "--from",
    "place",
    metavar="POSITION",
    help="Copy nothing: it has the rows of this place.",
)
@log_level("info")
def load(
    job: str,
    target: str | None,
    table: str | None,
    recreate: bool,
    with_children: bool,
    keep: bool,
    from_now: bool,
    place: str | None,
) -> None:
    """Copy the tables that are not loaded yet.

    Resumes where it was stopped. With --table the others stream on: a table that streams already is taken out,
    emptied at the target, and joins the others when the stream has caught up with it. For --from-now nobody may
    write to the table meanwhile; POSITION is of the trail or of the source's log. The last five options need --table.
    """
    of_one = {"--recreate": recreate, "--with-children": with_children, "--keep": keep}
    vouched = {"--from-now": from_now, "--from": place is not None}
    for name, given in (of_one | vouched).items():
        if given and not table:
            raise click.UsageError(f"{name} needs --table")
    both = [name for name, given in (of_one | vouched).items() if given]
    if any(vouched.values()) and len(both) > 1:
        raise click.UsageError(f"{both[-1]} copies nothing: it goes without {' and '.join(both[:-1])}")
    if recreate and keep:
        raise click.UsageError("--recreate makes the table anew, --keep leaves it as it is")
    if with_children and keep:
        raise click.UsageError(
            "--keep cannot be combined with --with-children: the child tables also have rows of others"
        )
    from anabranch.job import Job

    if table and (from_now or place is not None):
        _vouch_for(Job.from_file(job).on(target), table, place)
        return
    Job.from_file(job).on(target).load(table=table, recreate=recreate, with_children=with_children, keep=keep)


def _vouch_for(job: Job, table: str, place: str | None) -> None:
    found = job.vouch_for(table, place)
    if found is not None:
        click.echo(
            f"{found.table} goes on from {found.place}: apply takes what the source changes behind it to {found.target}\n"
            f"nobody has looked at its rows: anabranch verify {job.path} --tables {found.table} compares them"
        )
