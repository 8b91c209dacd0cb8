"""`anabranch load`: the initial load, of all tables or of one."""

from __future__ import annotations

import click

from anabranch.cli.options import job_argument, log_level, table_option, target_option


@click.command()
@job_argument
@target_option
@table_option("Load this source table (schema.table) again, or a new one, while the others stream.")
@click.option(
    "--recreate", is_flag=True, help="With --table, where its definition changed: drop and create the target table."
)
@click.option(
    "--with-children",
    is_flag=True,
    help="With --table: then load again the tables whose rows foreign keys change with its own.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="With --table: what is in the target table stays; this job's rows have to be gone from it.",
)
@log_level("info")
def load(job: str, target: str | None, table: str | None, recreate: bool, with_children: bool, keep: bool) -> None:
    """Copy the tables that are not loaded yet; goes on where it was stopped. One that streams is taken out, emptied at the
    target, and joins the others when the stream has caught up with it."""
    for name, given in (("--recreate", recreate), ("--with-children", with_children), ("--keep", keep)):
        if given and not table:
            raise click.UsageError(f"{name} needs --table")
    if recreate and keep:
        raise click.UsageError("--recreate makes the table anew, --keep leaves it as it is")
    if with_children and keep:
        raise click.UsageError("--keep is for one table: its children have rows of others, too")
    from anabranch.job import Job

    Job.from_file(job).on(target).load(table=table, recreate=recreate, with_children=with_children, keep=keep)
