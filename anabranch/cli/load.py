"""`anabranch load`: the initial load, of all tables or of one."""

from __future__ import annotations

import click

from anabranch.cli.options import job_argument, log_level, table_option


@click.command()
@job_argument
@table_option("Load this source table (schema.table) again, or a new one, while the others stream.")
@click.option(
    "--recreate", is_flag=True, help="With --table, where its definition changed: drop and create the target table."
)
@click.option(
    "--with-children",
    is_flag=True,
    help="With --table: then load again the tables whose rows foreign keys change with its own.",
)
@log_level("info")
def load(job: str, table: str | None, recreate: bool, with_children: bool) -> None:
    """Copy the tables that are not loaded yet; goes on where it was stopped. One that streams is taken out, emptied at the
    target, and joins the others when the stream has caught up with it."""
    for name, given in (("--recreate", recreate), ("--with-children", with_children)):
        if given and not table:
            raise click.UsageError(f"{name} needs --table")
    from anabranch.job import Job

    Job.from_file(job).load(table=table, recreate=recreate, with_children=with_children)
