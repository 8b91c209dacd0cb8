"""`anabranch schema print`: the target's definitions as SQL.

What does not live here: which statements these are (the target's connector).
"""

from __future__ import annotations

import click

from anabranch.cli.options import (
    VerbGroup,
    job_argument,
    json_option,
    log_level,
    table_option,
    target_option,
    write_json,
)


@click.group(cls=VerbGroup)
def schema() -> None:
    """Print the definitions that a job makes at its target."""


@schema.command("print")
@job_argument
@table_option("Only this source table (schema.table).")
@target_option
@json_option
@log_level("warning")
def print_schema(job: str, table: str | None, target: str | None, as_json: bool) -> None:
    """Print the statements that a load into an empty database runs.

    In their order: schemas and tables, then what is built while the stream goes on; comments say what is not carried
    over. Asks the source only. Of several targets it is the first, unless --target names one. psql -f, or mysql, takes it.
    """
    from anabranch.job import Job

    whole = Job.from_file(job)
    script = (whole.on(target) if target else whole).schema_script(table)
    write_json(script.to_json()) if as_json else click.echo("\n".join(script.lines()))
