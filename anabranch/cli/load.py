"""`anabranch load`: the initial load, of all tables or of some."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from anabranch.cli.ddl_plan_text import backlog_lines
from anabranch.cli.options import Verb, job_argument, log_level, tables_option, target_option

if TYPE_CHECKING:
    from anabranch.job import Job
    from anabranch.lifecycle.keeping_rows import Kept

NOTHING_ALTERED = "no change of a definition is behind its place"
BOTH_PLACES = (
    "--keep-rows goes on from the place where the table stands, and {0} names one, from which the table has its definition of "
    "now: alter the target's table to that yourself, and say {0} alone"
)


@click.command(cls=Verb)
@job_argument
@target_option
@tables_option("Load only this table (schema.table); repeatable.")
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
@click.option(
    "--keep-rows",
    is_flag=True,
    help="With --recreate: alter the target table, load nothing.",
)
@click.option("--plan", is_flag=True, help="With --keep-rows: show it, do nothing.")
@log_level("info")
def load(
    job: str,
    target: str | None,
    tables: tuple[str, ...],
    recreate: bool,
    with_children: bool,
    keep: bool,
    from_now: bool,
    place: str | None,
    keep_rows: bool,
    plan: bool,
) -> None:
    """Copy the tables that are not loaded yet.

    Resumes where it was stopped. With --table the others stream on: a table that streams already is taken out,
    emptied at the target, and joins the others when the stream has caught up with it; several are loaded one after the
    other, those first whose changes foreign keys carry on. For --from-now nobody may
    write to the table meanwhile; POSITION is of the trail or of the source's log. --keep-rows is for a table that streams, or
    is parked at a place that the trail has. The last seven options need --table.
    """
    of_one = {"--recreate": recreate, "--with-children": with_children, "--keep": keep, "--keep-rows": keep_rows}
    vouched = {"--from-now": from_now, "--from": place is not None}
    for name, given in (of_one | vouched).items():
        if given and not tables:
            raise click.UsageError(f"{name} needs --table")
    if keep_rows and any(vouched.values()):
        raise click.UsageError(BOTH_PLACES.format(next(name for name, given in vouched.items() if given)))
    both = [name for name, given in (of_one | vouched).items() if given]
    if any(vouched.values()) and len(both) > 1:
        raise click.UsageError(f"{both[-1]} copies nothing: it goes without {' and '.join(both[:-1])}")
    if len(tables) > 1 and (keep_rows or any(vouched.values())):
        raise click.UsageError(f"{'--keep-rows' if keep_rows else both[-1]} is for one table: give --table once")
    if recreate and keep:
        raise click.UsageError("--recreate makes the table anew, --keep leaves it as it is")
    if with_children and keep:
        raise click.UsageError(
            "--keep cannot be combined with --with-children: the child tables also have rows of others"
        )
    if plan and not keep_rows:
        raise click.UsageError("--plan needs --keep-rows; anabranch plan JOB is about the whole job")
    if keep_rows and (with_children or not recreate):
        raise click.UsageError(
            "--keep-rows alters the table that is there: it needs --recreate, and goes with nothing else"
        )
    from anabranch.job import Job

    if tables and keep_rows:
        _keep_rows(Job.from_file(job).on(target), tables[0], plan)
        return
    if tables and (from_now or place is not None):
        _vouch_for(Job.from_file(job).on(target), tables[0], place)
        return
    Job.from_file(job).on(target).load(table=tables, recreate=recreate, with_children=with_children, keep=keep)


def _keep_rows(job: Job, table: str, plan: bool) -> None:
    """Show what becomes of the table, or do it."""
    if not plan:
        click.echo("\n".join(kept_lines(job.keep_rows(table), "goes on")))
        return
    found, changes = job.plan_keep_rows(table)
    click.echo("\n".join(kept_lines(found, "would go on")))
    if found.after is not None:
        click.echo("\n".join(backlog_lines(changes)) if changes else NOTHING_ALTERED)
    if code := max((one.exit_code for one in changes), default=0):
        raise SystemExit(code)


def kept_lines(found: Kept, goes_on: str) -> Iterator[str]:
    """Yield the lines that say which tables keep their rows, for people. `goes_on`: what they do."""
    for state in found.states:
        if found.after is None:
            yield f"{state.source} {goes_on}: {state.target} keeps its rows, and gets what it lacks of indexes, keys and checks"
        else:
            yield (
                f"{state.source} {goes_on} behind {found.after}: {state.target} keeps its rows,"
                " and is altered by each change behind that"
            )


def _vouch_for(job: Job, table: str, place: str | None) -> None:
    found = job.vouch_for(table, place)
    if found is not None:
        click.echo(
            f"{found.table} goes on from {found.place}: apply takes what the source changes behind it to {found.target}\n"
            f"nobody has looked at its rows: anabranch verify {quote(str(job.path))} --tables {found.table.typed} compares them"
        )
