"""`anabranch schema print|ls|show|diff|export|import|rebuild`: the target's definitions as SQL, the source's as they were.

What does not live here: which statements these are (the target's connector), the history itself (`view/schema_history.py`),
putting it back (`lifecycle/restoring_history.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import (
    VerbGroup,
    job_argument,
    json_option,
    log_level,
    table_argument,
    table_option,
    target_option,
    write_json,
)

if TYPE_CHECKING:
    from anabranch.model.schema_changes import SchemaChange
    from anabranch.view.schema_history import TableVersion

VERSION = click.IntRange(min=1)


@click.group(cls=VerbGroup)
def schema() -> None:
    """Show or keep the history of definitions, or print the target's."""


@schema.command("print")
@job_argument
@table_option("Only this source table (schema.table).")
@target_option
@click.option(
    "--dialect",
    type=click.Choice(["target", "tsql"]),
    default="target",
    help="Or of a SQL Server (tsql).",
)
@click.option("--login", metavar="NAME", default="anabranch", help="With tsql: who logs in.")
@json_option
@log_level("warning")
def print_schema(job: str, table: str | None, target: str | None, dialect: str, login: str, as_json: bool) -> None:
    """Print the statements that a load into an empty database runs.

    In order: schemas and tables, then what is built during streaming; comments say what is not carried over. Asks the
    source only. Uses the first of several targets, unless --target names one. Run it with psql -f, or mysql.
    With --dialect tsql: what sets up a SQL Server for the job's change tables; --login is the service's there.
    """
    from anabranch.job import Job

    whole = Job.from_file(job)
    if dialect == "tsql":
        from anabranch.job.deploying import deployment
        from anabranch.model.ids import TableId

        lines = deployment(whole, TableId.parse(table) if table else None, login)
        write_json(
            {"version": 1, "job": whole.config.name, "dialect": dialect, "lines": lines}
        ) if as_json else click.echo("\n".join(lines))
        return
    script = (whole.on(target) if target else whole).schema_script(table)
    write_json(script.to_json()) if as_json else click.echo("\n".join(script.lines()))


@schema.command()
@job_argument
@table_option("Only this source table (schema.table).")
@json_option
@log_level("warning")
def ls(job: str, table: str | None, as_json: bool) -> None:
    """List every version of every table's definition that the trail has.

    With the first transaction that uses it, and the statement that made it. Asks neither source nor target.
    """
    found = _versions(job, table)
    if as_json:
        write_json({"version": 1, "definitions": [_facts(one) for one in found]})
        return
    click.echo(f"{'TABLE':<32} {'VERSION':>7} {'FROM':>12} {'COLUMNS':>7}  CAME")
    for one in found:
        place = f"{one.table!s:<32} {one.schema.version:>7} {one.sequence:>12} {len(one.schema.columns):>7}"
        click.echo(f"{place}  {_came(one)}")
        if one.ended:
            click.echo(f"{'':<32} parked behind it: {one.ended}")


@schema.command()
@job_argument
@table_argument(required=True)
@click.option("--version", type=VERSION, metavar="N", help="This version; the newest one by default.")
@json_option
@log_level("warning")
def show(job: str, table: str, version: int | None, as_json: bool) -> None:
    """Show a version of a source table's definition: columns, keys, indexes."""
    one = _of(_versions(job, table), version, table)
    if as_json:
        write_json({"version": 1, **_facts(one), "definition": one.schema.to_json()})
        return
    click.echo("\n".join(_lines(one)))


@schema.command()
@job_argument
@table_argument(required=True)
@click.argument("then", type=VERSION, required=False, metavar="[FROM]")
@click.argument("now", type=VERSION, required=False, metavar="[TO]")
@json_option
@log_level("warning")
def diff(job: str, table: str, then: int | None, now: int | None, as_json: bool) -> None:
    """Show what differs between two versions of a source table's definition.

    Without FROM and TO each version is compared with the one before it; with FROM alone it is compared with the newest.
    """
    found = _versions(job, table)
    pairs = [(_of(found, then, table), _of(found, now, table))] if then else list(pairwise(found))
    if as_json:
        told = [
            {
                "from": a.schema.version,
                "to": b.schema.version,
                "statement": b.statement,
                "changes": _facts_of(found, a, b),
            }
            for a, b in pairs
        ]
        write_json({"version": 1, "table": table, "differences": told})
        return
    if not pairs:
        click.echo(f"{table} has one version")
    for a, b in pairs:
        click.echo(f"{table} {a.schema.version} -> {b.schema.version}, from {b.sequence} on: {_came(b)}")
        lines = [f"  {change}" for change in _changes(found, a, b)]
        click.echo("\n".join(lines or ["  no difference"]))


@schema.command()
@job_argument
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to FILE.")
@click.option("--force", is_flag=True, help="Overwrite an existing FILE.")
@log_level("warning")
def export(job: str, output: str | None, force: bool) -> None:
    """Write the trail's history of definitions to keep elsewhere.

    As one JSON text a line. It is for anabranch schema import, where the trail's own is lost or damaged. Asks neither
    source nor target; the job may run.
    """
    if force and not output:
        raise click.UsageError("--force needs -o FILE")
    from anabranch.job import Job
    from anabranch.lifecycle.reversing import write

    text = Job.from_file(job).export_schema_history()
    if output:
        write(text, Path(output), Path(job), force)
    else:
        click.echo(text, nl=False)


@schema.command("import")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=True))
@job_argument
@json_option
@log_level("warning")
def import_history(file: str, job: str, as_json: bool) -> None:
    """Put an exported history back into the trail it is from.

    Where the trail's own is lost or damaged; a whole one is left as it is. Refuses a file of which it is not certain
    that it has all that the trail and every target have been told of. The job must be stopped.
    """
    from anabranch.job import Job

    is_restored = Job.from_file(job).import_schema_history(file)
    if as_json:
        write_json({"version": 1, "restored": is_restored})
    elif is_restored:
        click.echo(f"the history is back; next: anabranch trail check {quote(job)}, then start the job")
    else:
        click.echo("the trail has its history, whole: nothing was changed")


@schema.command()
@job_argument
@json_option
@log_level("warning")
def rebuild(job: str, as_json: bool) -> None:
    """Make a lost history anew, without an exported one.

    Of the definitions that the targets know, which all have to be at the end of the trail: else it is refused. A table
    that a target has parked needs a load. The job must be stopped.
    """
    from anabranch.job import Job

    is_made = Job.from_file(job).import_schema_history(None)
    if as_json:
        write_json({"version": 1, "rebuilt": is_made})
    elif is_made:
        click.echo("the history is made anew, from the end of the trail on; next: start the job, then export it")
    else:
        click.echo("the trail has its history, whole: nothing was changed")


def _versions(job: str, table: str | None) -> list[TableVersion]:
    from anabranch.job import Job

    return Job.from_file(job).schema_versions(table)


def _of(found: Sequence[TableVersion], version: int | None, table: str) -> TableVersion:
    if version is None:
        return found[-1]
    one = next((one for one in found if one.schema.version == version), None)
    if one is None:
        known = ", ".join(str(one.schema.version) for one in found)
        raise click.UsageError(f"{table} has no version {version}; it has {known}")
    return one


def _came(one: TableVersion) -> str:
    return f"{one.came}: {one.statement}" if one.statement else one.came


def _facts(one: TableVersion) -> dict[str, Any]:
    from anabranch.model.ddl_changes import digest_of

    return {
        "table": str(one.table),
        "table_version": one.schema.version,
        "from_sequence": one.sequence,
        "position": one.position,
        "came": one.came,
        "statement": one.statement,
        "parked_behind_it": one.ended,
        "digest": digest_of(one.schema),
        "columns": [column.name for column in one.schema.columns],
    }


def _changes(found: Sequence[TableVersion], then: TableVersion, now: TableVersion) -> list[SchemaChange]:
    from anabranch.model.schema_changes import changes
    from anabranch.view.schema_history import renamed_between

    return changes(then.schema, now.schema, renamed_between(found, then, now))


def _facts_of(found: Sequence[TableVersion], then: TableVersion, now: TableVersion) -> list[dict[str, str]]:
    return [
        {"what": one.what, "name": one.name, "before": one.before, "after": one.after}
        for one in _changes(found, then, now)
    ]


def _lines(one: TableVersion) -> Iterator[str]:
    from anabranch.model.schema_changes import column_text, index_text, key_text

    schema = one.schema
    place = f" ({one.position})" if one.position else ""
    yield f"{schema.id} version {schema.version}, from {one.sequence} on{place}: {_came(one)}"
    width = max((len(column.name) for column in schema.columns), default=0)
    yield from (f"  {column.name:<{width}}  {column_text(column)}" for column in schema.columns)
    if schema.primary_key:
        yield f"  primary key ({', '.join(schema.primary_key)})"
    yield from (f"  index {index.name}: {index_text(index)}" for index in schema.indexes)
    yield from (f"  foreign key {key.name}: {key_text(key)}" for key in schema.foreign_keys)
    yield from (f"  check {check.name}: {check.text}" for check in schema.checks)
    if one.ended:
        yield f"  parked behind it: {one.ended}"
