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
@log_level("info")
def load(job: str, table: str | None, recreate: bool) -> None:
    """Copy the tables that are not loaded yet; goes on where it was stopped."""
    if recreate and not table:
        raise click.UsageError("--recreate needs --table")
    from anabranch.job import Job

    Job.from_file(job).load(table=table, recreate=recreate)
