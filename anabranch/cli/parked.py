"""`anabranch parked ls|show|resume|reload|drop|release|discard`: tables that are taken out of replication and rows that are set
aside, and their way back.

What does not live here: doing it (`Job`), how it looks (`parked_text.py`).
"""

from __future__ import annotations

from typing import Any

import click

from anabranch.cli.each import of_each
from anabranch.cli.homes import require_home
from anabranch.cli.options import (
    Command,
    VerbGroup,
    each_target_option,
    job_argument,
    json_option,
    key_option,
    log_level,
    table_argument,
    target_option,
    write_json,
)


@click.group(cls=VerbGroup)
def parked() -> None:
    """List and bring back parked tables and rows that are set aside.

    TABLE is a source table, as schema.table.
    """


@parked.command()
@job_argument
@each_target_option
@json_option
@log_level("warning")
def ls(job: str, target: str | None, as_json: bool) -> None:
    """List tables and rows, with what brings each back."""
    from anabranch.cli import parked_text as text
    from anabranch.job import Job

    opened = Job.from_file(job)
    require_home(opened)
    answers = of_each(opened, target, lambda one: (one.parked(), one.set_aside()))
    answers.show(
        as_json, lambda found: text.listed_facts(*found), lambda found: click.echo("\n".join(text.listed(*found)))
    )
    answers.exit([])


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@json_option
@log_level("warning")
def show(job: str, target: str | None, table: str, as_json: bool) -> None:
    """Show one table, and its rows that are set aside.

    Why it is parked, where it stands, what waits for it; also the rows that were discarded since its load.
    """
    from anabranch.cli import parked_text as text
    from anabranch.job import Job

    opened = Job.from_file(job).on(target)
    require_home(opened)
    rows = [*opened.set_aside(table), *opened.set_aside(table, discarded=True)]
    found = [one for one in opened.parked() if str(one.source) == table] if rows else opened.parked(table)
    if as_json:
        facts = text.facts(found[0]) if found else {"source": table}
        write_json({"version": 1, **facts, "set_aside": [text.row_facts(one) for one in rows]})
    else:
        click.echo("\n".join(text.shown(found, rows)))


@parked.command()
@job_argument
@target_option
@table_argument(required=False)
@log_level("info")
def resume(job: str, target: str | None, table: str | None) -> None:
    """Resume tables from where they were parked.

    Possible once the target accepts the refused row: for all such tables, or for one and those
    parked with it. Apply does it while it runs, or when it starts.
    """
    from anabranch.job import Job

    for name in Job.from_file(job).on(target).resume(table):
        click.echo(f"{name} goes on where it stood")


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@click.option("--recreate", is_flag=True, help="Drop and create the target table (changed definition).")
@log_level("info")
def reload(job: str, target: str | None, table: str, recreate: bool) -> None:
    """Load the table again, as load --table does.

    It joins when the stream has caught up with it. What was set aside of it is forgotten.
    """
    from anabranch.job import Job

    Job.from_file(job).on(target).load(table=table, recreate=recreate)


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@log_level("warning")
def drop(job: str, target: str | None, table: str) -> None:
    """Give up the part of the trail that is held for the table.

    Also for those that were parked with it. They stay parked, and only a load brings them back.
    """
    from anabranch.job import Job

    click.echo(f"{Job.from_file(job).on(target).give_up(table):,} bytes of the trail are held for {table} no more")


def which_rows(command: Command) -> Command:
    """Add `--key`, `--number` and `--all`."""
    parts = (
        click.option("--all", "is_all", is_flag=True, help="All rows of the table."),
        click.option(
            "--number", type=click.IntRange(min=1), metavar="N", help="The row of the change with this number."
        ),
        key_option("The row with this key: id=17, once for each column."),
    )
    for part in parts:
        command = part(command)
    return command


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@which_rows
@log_level("warning")
def release(job: str, target: str | None, table: str, is_all: bool, number: int | None, key: dict[str, str]) -> None:
    """Apply rows that are set aside, once the target takes them.

    Each with all later changes of the row, in order. Apply does it while it runs, or when it starts; what is
    still refused stays set aside.
    """
    _settle(job, target, table, "release", is_all, number, key)


@parked.command()
@job_argument
@target_option
@table_argument(required=True)
@which_rows
@log_level("warning")
def discard(job: str, target: str | None, table: str, is_all: bool, number: int | None, key: dict[str, str]) -> None:
    """Discard rows that are set aside, with all later changes.

    The target keeps its version of them, and future changes are applied to it. What is discarded stays on record
    (show).
    """
    _settle(job, target, table, "discard", is_all, number, key)


def _settle(
    job: str, target: str | None, table: str, wish: str, is_all: bool, number: int | None, key: dict[str, Any]
) -> None:
    from anabranch.job import Job

    if sum((is_all, number is not None, bool(key))) != 1:
        raise click.UsageError("one of --key, --number and --all says which rows are meant")
    found = Job.from_file(job).on(target).settle_aside(table, wish, key, number)
    rows = len({tuple(change.key.items()) for change in found})
    click.echo(f"{len(found):,} changes of {rows:,} rows of {table}: apply will {wish} them, now or when it starts")
