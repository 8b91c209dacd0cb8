"""`anabranch conflicts ls|show|forget`: changes that did not match the target's row, and the policy's decision.

What does not live here: reading them (`Job.conflicts`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.each import of_each
from anabranch.cli.options import (
    VerbGroup,
    each_target_option,
    job_argument,
    json_option,
    log_level,
    table_option,
    target_option,
    write_json,
)

if TYPE_CHECKING:
    from anabranch.rows.conflict import NotedConflict

PAGE = 100


@click.group(cls=VerbGroup)
def conflicts() -> None:
    """List conflicts with the target that on_conflict has settled."""


@conflicts.command()
@job_argument
@each_target_option
@table_option("Only this source table (schema.table).")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="N", help="Only numbers greater than N.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=PAGE, show_default=True, metavar="N", help="At most N conflicts."
)
@json_option
@log_level("warning")
def ls(job: str, target: str | None, table: str | None, after: int, limit: int, as_json: bool) -> None:
    """List conflicts in their order, one a line."""
    from anabranch.job import Job

    answers = of_each(Job.from_file(job), target, lambda one: one.conflicts(table, after, limit + 1))
    answers.show(as_json, lambda found: _page(found, limit), lambda found: _show_page(found, limit))
    answers.exit([])


@conflicts.command()
@job_argument
@target_option
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@json_option
@log_level("warning")
def show(job: str, target: str | None, number: int, as_json: bool) -> None:
    """Show the conflict with number N: the change, what the target had, what was decided."""
    from anabranch.job import Job

    found = Job.from_file(job).on(target).conflicts(after=number - 1, limit=1)
    if not found or found[0].number != number:
        click.echo(f"error: there is no conflict {number} — anabranch conflicts ls lists them", err=True)
        sys.exit(2)
    write_json({"version": 1, **_facts(found[0])}) if as_json else click.echo("\n".join(_whole(found[0])))


@conflicts.command()
@job_argument
@target_option
@click.option("--upto", type=click.IntRange(min=1), required=True, metavar="N", help="The last number that is removed.")
@log_level("warning")
def forget(job: str, target: str | None, upto: int) -> None:
    """Remove the notes of conflicts up to number N.

    Rows of tables stay as they are.
    """
    from anabranch.job import Job

    click.echo(f"{Job.from_file(job).on(target).forget_conflicts(upto):,} removed")


def _page(found: list[NotedConflict], limit: int) -> dict[str, Any]:
    return {"version": 1, "conflicts": [_facts(one) for one in found[:limit]], "more": len(found) > limit}


def _show_page(found: list[NotedConflict], limit: int) -> None:
    click.echo("\n".join(_lines(found[:limit])) if found else "no conflicts were settled")
    if len(found) > limit:
        click.echo(f"there are more: --after {found[limit - 1].number}", err=True)


def _facts(one: NotedConflict) -> dict[str, Any]:
    from anabranch.state.store import time_text

    return {
        "number": one.number,
        "position": {"text": one.position, "commit_time": time_text(one.commit_time)},
        "source": str(one.source),
        "target": str(one.target),
        "key": one.key,
        "operation": one.operation,
        "kind": one.kind,
        "policy": one.policy,
        "decision": one.decision,
        "before": one.before,
        "after": one.after,
        "found": one.found,
        "noted_at": time_text(one.noted_at),
    }


def _lines(found: list[NotedConflict]) -> Iterator[str]:
    yield f"{'N':>6} {'TABLE':<30} {'CHANGE':<7} {'CONFLICT':<8} {'DECISION':<8} {'KEY':<24} POSITION"
    for one in found:
        place = f"{one.number:>6} {one.source!s:<30} {one.operation:<7} {one.kind:<8} {one.decision:<8}"
        yield f"{place} {_key(one):<24} {one.position}"


def _key(one: NotedConflict) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in one.key.items()) or "-"


def _value(value: str | None) -> str:
    return "NULL" if value is None else value


SAID = {
    ("missing", "ignored"): "the row is not at the target: nothing was done",
    ("missing", "source"): "the row is not at the target: the source's was written",
    ("exists", "source"): "a row is there already: the source's took its place",
    ("exists", "target"): "a row is there already: the target's was kept",
    ("newer", "target"): "the target's row is newer: it was kept",
}


def _whole(one: NotedConflict) -> Iterator[str]:
    from anabranch.state.store import time_text

    yield f"conflict    {one.number}, noted {time_text(one.noted_at)}"
    yield f"table       {one.source} -> {one.target}"
    yield f"change      {one.operation} at {one.position}, committed {time_text(one.commit_time)}"
    yield f"key         {_key(one)}"
    yield f"decision    {SAID.get((one.kind, one.decision), f'{one.kind}, {one.decision}')} (on_conflict = {one.policy})"
    images = {"BEFORE": one.before, "AFTER": one.after, "AT THE TARGET": one.found}
    shown = {title: image for title, image in images.items() if image is not None}
    names = list(dict.fromkeys(name for image in shown.values() for name in image))
    rows = [["COLUMN", *shown], *([name, *(_cell(image, name) for image in shown.values())] for name in names)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    yield ""
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(image: Any, name: str) -> str:
    return _value(image[name]) if name in image else "-"
