"""`anabranch load`: the initial load, of all tables or of one."""

from __future__ import annotations

import click

from anabranch.cli.options import Verb, job_argument, log_level, table_option, target_option


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
@log_level("info")
def load(job: str, target: str | None, table: str | None, recreate: bool, with_children: bool, keep: bool) -> None:
    """Copy the tables that are not loaded yet.

    Resumes where it was stopped. With --table the others stream on: a table that streams already is taken out,
    emptied at the target, and joins the others when the stream has caught up with it. The last three options need
    --table.
    """
    for name, given in (("--recreate", recreate), ("--with-children", with_children), ("--keep", keep)):
        if given and not table:
            raise click.UsageError(f"{name} needs --table")
    if recreate and keep:
        raise click.UsageError("--recreate makes the table anew, --keep leaves it as it is")
    if with_children and keep:
        raise click.UsageError(
            "--keep cannot be combined with --with-children: the child tables also have rows of others"
        )
    from anabranch.job import Job

    Job.from_file(job).on(target).load(table=table, recreate=recreate, with_children=with_children, keep=keep)
