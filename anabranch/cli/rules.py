"""`anabranch rules preview|explain`: which tables a job replicates, and which line of the job file decides that.

What does not live here: the decision (`rules/decided.py`), the catalogue that is asked (`view/chosen_tables.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import VerbGroup, job_argument, json_option, log_level, table_argument, write_json

if TYPE_CHECKING:
    from anabranch.rules.decided import Decided
    from anabranch.view.chosen_tables import Choice
    from anabranch.view.job_view import JobView


@click.group(cls=VerbGroup)
def rules() -> None:
    """Show which tables the rules choose, and which rule decides."""


@rules.command()
@job_argument
@click.option("--all", "shows_all", is_flag=True, help="List the tables that are left out, too.")
@json_option
@log_level("warning")
def preview(job: str, shows_all: bool, as_json: bool) -> None:
    """List the source's tables that the job replicates, with their targets.

    And the rule that includes each. Asks the source only; warns of rules that contradict each other or choose nothing.
    """
    from anabranch.job import Job

    choice = Job.from_file(job).chosen_tables()
    if as_json:
        tables = [_facts(one) for one in choice.tables]
        write_json({"version": 1, "tables": tables, "warnings": list(choice.warnings)})
        return
    click.echo("\n".join(_listed(choice, shows_all)))
    for warning in choice.warnings:
        click.echo(f"warning: {warning}", err=True)


@rules.command()
@job_argument
@table_argument(required=True)
@json_option
@log_level("warning")
def explain(job: str, table: str, as_json: bool) -> None:
    """Say which rule takes a table (schema.table) or leaves it out, and why.

    And what the job file says of its columns and rows. Asks neither source nor target: the table may not be there yet.
    """
    from anabranch.job import Job

    whole = Job.from_file(job)
    found = whole.explain_table(table)
    if as_json:
        write_json({"version": 1, **_facts(found), "settings": _settings(whole, found)})
        return
    click.echo("\n".join(_explained(whole, found)))


def _listed(choice: Choice, shows_all: bool) -> Iterator[str]:
    yield f"{'TABLE':<32} {'TARGET':<32} RULE"
    for one in choice.tables:
        if one.target or shows_all:
            yield f"{one.table!s:<32} {one.target or '-'!s:<32} {one.why}"
    taken = sum(one.target is not None for one in choice.tables)
    excluded = sum(one.target is None and one.by is not None for one in choice.tables)
    yield ""
    yield f"{taken} replicated, {excluded} excluded, {len(choice.tables) - taken - excluded} in no rule"


def _explained(job: JobView, found: Decided) -> Iterator[str]:
    yield f"{found.table} goes to {found.target}" if found.target else f"{found.table} is not replicated"
    yield f"  {found.why}"
    for one in found.others:
        yield f"  without effect: {one}"
    for name, value in _settings(job, found).items():
        yield f"  {name} = {value}"


def _settings(job: JobView, found: Decided) -> dict[str, Any]:
    """Return what `[[tables]]` says of the table, without what it leaves as it is."""
    entry = next((entry for entry in job.config.tables if entry.id == found.table), None)
    said = entry.model_dump(exclude_defaults=True, exclude={"name"}) if entry else {}
    columns: dict[str, Any] = said.pop("columns", {})
    return {**{f"columns.{name}": value for name, value in columns.items() if value}, **said}


def _facts(found: Decided) -> dict[str, Any]:
    def match(one: Any) -> dict[str, Any]:
        return {"rule": one.rule, "key": one.key, "pattern": one.pattern, "line": one.line}

    return {
        "table": str(found.table),
        "target": str(found.target) if found.target else None,
        "by": match(found.by) if found.by else None,
        "others": [match(one) for one in found.others],
    }
