"""`anabranch ddl ls|show|plan|approve|skip|replace`: the outcome of the source's ALTER TABLE statements at every target, a
forecast, and decisions about those in front of which a table waits.

What does not live here: the definitions themselves (`schema ls`), reading the notes (`Job.ddl_changes`), making a plan
(`Job.plan_ddl`), carrying a decision out (`Job.decide_ddl`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.ddl_plan_text import backlog_lines, plan_lines, planned, planned_backlog
from anabranch.cli.each import of_each
from anabranch.cli.options import (
    VerbGroup,
    each_target_option,
    job_argument,
    json_option,
    log_level,
    table_option,
    target_option,
)
from anabranch.errors import ConfigError

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange


@click.group(cls=VerbGroup)
def ddl() -> None:
    """Show the outcome of ALTER TABLE statements, predict it, or decide."""


@ddl.command()
@job_argument
@each_target_option
@table_option("Only this source table (schema.table).")
@json_option
@log_level("warning")
def ls(job: str, target: str | None, table: str | None, as_json: bool) -> None:
    """List the source's schema changes and their outcome, in order.

    For every target, from its notes in anabranch.ddl. Reads only.
    """
    from anabranch.job import Job

    answers = of_each(Job.from_file(job), target, lambda one: one.ddl_changes(table))
    answers.show(as_json, _listed, lambda found: click.echo("\n".join(_lines(found))))
    answers.exit([])


@ddl.command()
@job_argument
@each_target_option
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@json_option
@log_level("warning")
def show(job: str, target: str | None, number: int, as_json: bool) -> None:
    """Show the change with number N: statement, place, what decided, what became of it.

    Each target has its own numbers: all targets that have number N are shown.
    """
    from anabranch.job import Job

    answers = of_each(
        Job.from_file(job), target, lambda one: [each for each in one.ddl_changes() if each.number == number]
    )
    if not any(answers.found.values()):
        answers.exit([])  # the error of a target that is away
        raise ConfigError(f"there is no change {number}", hint="anabranch ddl ls JOB lists them")
    for name in [name for name, found in answers.found.items() if not found]:
        del answers.found[name]
    answers.show(as_json, lambda found: {"version": 1, **_facts(found[0])}, lambda found: _show(found[0]))
    answers.exit([])


@ddl.command()
@job_argument
@click.argument("statement", metavar='["ALTER TABLE …"]', required=False)
@click.option("--from-log", is_flag=True, help="Plan the statements of the log that a target has not come to.")
@each_target_option
@json_option
@log_level("warning")
def plan(job: str, statement: str | None, from_log: bool, target: str | None, as_json: bool) -> None:
    """Show what would become of a statement at every target.

    Nothing is run. With --from-log in place of a statement: of those that the trail has behind a target's checkpoint, or in
    front of which a table waits. Shows the target's statements, how each column's type is stored, the lock that others wait
    for, and the undo, as far as the statement tells; of DROP TABLE and RENAME TABLE what the job file says. Exit code: 0 as
    at the source, 4 some values would differ, 3 a target parks a table."""
    from anabranch.job import Job

    if (statement is None) is not from_log:
        raise ConfigError("there is nothing to plan", hint="give one of a statement and --from-log")
    if statement is None:
        every = of_each(Job.from_file(job), target, lambda one: one.plan_ddl_backlog())
        every.show(as_json, planned_backlog, lambda found: click.echo("\n".join(backlog_lines(found))))
        every.exit([one.exit_code for found in every.found.values() for one in found])
        return
    answers = of_each(Job.from_file(job), target, lambda one: one.plan_ddl(statement))
    answers.show(as_json, planned, lambda found: click.echo("\n".join(plan_lines(found))))
    answers.exit([one.exit_code for one in answers.found.values()])


@ddl.command()
@job_argument
@target_option
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@log_level("warning")
def approve(job: str, target: str | None, number: int) -> None:
    """Carry out the change with number N at the target.

    Its table waits in front of it ([ddl] ask). It goes on from there, by what the trail has kept, and then joins the others.
    Apply does it while it runs, or when it starts.
    """
    _decide(job, target, number, "apply")


@ddl.command()
@job_argument
@target_option
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@log_level("warning")
def skip(job: str, target: str | None, number: int) -> None:
    """Go on without the change with number N at the target.

    For a dropped column, which the target then keeps with NULL in rows that come, for an added one, which it stays without,
    and for another default. Anything else is refused: rows would not fit.
    """
    _decide(job, target, number, "skip")


@ddl.command()
@job_argument
@target_option
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@click.option(
    "--sql", metavar="STATEMENT", multiple=True, help="Run this at the target first; several go in this order."
)
@log_level("warning")
def replace(job: str, target: str | None, number: int, sql: tuple[str, ...]) -> None:
    """Go on behind the change with number N, with a table that you have altered.

    In place of what the job would do at the target: by the statements given here, or by your own hand before. The table is
    looked at then, and refused with what differs where it does not take the rows behind the change. What its rows have in
    columns that came or changed is your word.
    """
    _decide(job, target, number, "replace", sql)


def _decide(job: str, target: str | None, number: int, decision: str, statements: tuple[str, ...] = ()) -> None:
    from anabranch.job import Job

    for name in Job.from_file(job).on(target).decide_ddl(number, decision, statements):
        click.echo(f"{name} goes on from change {number}")


def _listed(found: list[DdlChange]) -> dict[str, Any]:
    return {"version": 1, "changes": [_facts(one) for one in found]}


def _facts(one: DdlChange) -> dict[str, Any]:
    from anabranch.state.store import time_text

    return {
        "number": one.number,
        "source": str(one.source),
        "target": str(one.target),
        "statement": one.statement,
        "sequence": one.sequence,
        "position": {"text": one.position, "commit_time": time_text(one.commit_time)},
        "source_user": one.source_user,
        "setting": one.rule.setting,
        "action": one.rule.action,
        "outcome": str(one.outcome),
        "why": one.why,
        "table_version": one.version,
        "digest": one.digest,
        "by": one.by,
        "noted_at": time_text(one.noted_at),
    }


def _lines(found: list[DdlChange]) -> Iterator[str]:
    if not found:
        yield "no table was altered"
        return
    yield f"{'N':>6} {'TABLE':<32} {'OUTCOME':<9} {'VERSION':>7} {'FROM':>12}  STATEMENT"
    for one in found:
        version = one.version or "-"
        yield f"{one.number:>6} {one.source!s:<32} {one.outcome:<9} {version:>7} {one.sequence:>12}  {one.statement or '-'}"
        if one.why:
            yield f"{'':>6} {one.why}"


def _show(one: DdlChange) -> None:
    from anabranch.state.store import time_text

    unknown = "not known"
    decided = (
        f"{one.rule.setting} = {one.rule.action}" if one.rule.setting else f"{one.rule.action}: it is not followed"
    )
    holds = f"version {one.version}, digest {one.digest}" if one.version else "none"
    told = {
        "change": f"{one.number}, noted {time_text(one.noted_at)} by {one.by}",
        "table": f"{one.source} -> {one.target}",
        "statement": one.statement or "the log has none",
        "place": f"{one.position or one.sequence}, committed {time_text(one.commit_time) or unknown}",
        "altered by": one.source_user or "not known: the log does not say it",
        "decided": decided,
        "outcome": f"{one.outcome}: {one.why}" if one.why else str(one.outcome),
        "definition": f"{holds}, of the source, behind it",
    }
    click.echo("\n".join(f"{name:<11} {text}" for name, text in told.items()))
