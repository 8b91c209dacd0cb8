"""`anabranch rules preview|explain|export|import`: which tables a job replicates, which line of the job file decides that, and
how rules get from one job to another.

What does not live here: the decision (`rules/decided.py`), the catalogue that is asked (`view/chosen_tables.py`), the files
(`lifecycle/moving_rules.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import VerbGroup, job_argument, json_option, log_level, table_argument, write_json
from anabranch.cli.plan import plan_facts, plan_lines

if TYPE_CHECKING:
    from anabranch.lifecycle.moving_rules import ImportedRules
    from anabranch.rules.decided import Decided
    from anabranch.view.chosen_tables import Choice
    from anabranch.view.job_view import JobView


SECTIONS = ("rules", "tables", "types", "ddl")  # as in config/rule_text.py, which --help does not load
DIFFERS = 4  # the exit code of differences


@click.group(cls=VerbGroup)
def rules() -> None:
    """Show which tables the rules choose and why, or move the rules."""


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


@rules.command("export")
@job_argument
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write it to FILE.")
@click.option("--force", is_flag=True, help="Overwrite an existing FILE.")
@log_level("warning")
def export_rules(job: str, output: str | None, force: bool) -> None:
    """Write the job's rules as a file of their own.

    All that decides which tables are taken, and what becomes of them: [[rules]], [[tables]], [types] and [ddl], as they
    are written, without ends and secrets. Asks neither end.
    """
    if force and not output:
        raise click.UsageError("--force needs -o FILE")
    from anabranch.lifecycle.moving_rules import exported_rules
    from anabranch.lifecycle.reversing import write

    text = exported_rules(Path(job))
    if output:
        write(text, Path(output), Path(job), force)
    else:
        click.echo(text, nl=False)


@rules.command("import")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=True))
@job_argument
@click.option("--check", is_flag=True, help="Write nothing; exit code 4 if they differ.")
@click.option(
    "--section",
    "sections",
    multiple=True,
    type=click.Choice(SECTIONS),
    metavar="S",
    help="Only this section; repeatable.",
)
@click.option("--offline", is_flag=True, help="Ask neither source nor target.")
@json_option
@log_level("warning")
def import_rules(file: str, job: str, check: bool, sections: tuple[str, ...], offline: bool, as_json: bool) -> None:
    """Put rules of FILE in place of those of a job file.

    Shows what differs, and what it means for tables, as anabranch plan does. All else in the job file stays as it is
    written. Nothing is taken over before anabranch plan JOB --execute.
    """
    from anabranch.job import Job

    found = Job.import_rules(file, job, check, offline, sections)
    if as_json:
        write_json(_imported(found))
    else:
        click.echo("\n".join(_import_lines(found, job, check)))
        for warning in found.warnings:
            click.echo(f"warning: {warning}", err=True)
    if check and found.lines:
        sys.exit(DIFFERS)


def _import_lines(found: ImportedRules, job: str, check: bool) -> Iterator[str]:
    if not found.lines:
        yield "the job file says the same already"
        return
    yield from found.lines
    for name, one in (found.plans or {}).items():
        if len(found.plans or {}) > 1:
            yield f"target {name}"
        yield from plan_lines(one)
    if check:
        yield "nothing was written; without --check the job file is"
        return
    has_run = any(one is not None for one in (found.plans or {}).values())
    after = f"anabranch plan {quote(job)}" + (" --execute" if has_run else "")
    yield f"{job} is written; next: {after}"


def _imported(found: ImportedRules) -> dict[str, Any]:
    plans = {name: plan_facts(one) for name, one in (found.plans or {}).items()}
    return {
        "version": 1,
        "written": found.written,
        "differences": list(found.lines),
        "warnings": list(found.warnings),
        "plans": plans,
    }


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
