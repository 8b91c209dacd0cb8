"""`anabranch trail ls|show|check|prune|rekey`: what is in a job's trail, what may go, and by which key it is encrypted.

What does not live here: reading it and its readable form (`trail/`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.options import VerbGroup, job_argument, json_option, log_level, table_option, write_json
from anabranch.cli.parcels import export_, import_, trail_of

if TYPE_CHECKING:
    from anabranch.job import Job
    from anabranch.trail.check import CheckReport
    from anabranch.trail.reader import TrailReader


@click.group(cls=VerbGroup)
def trail() -> None:
    """Show, check, prune, rekey, export or import a job's trail."""


@trail.command()
@job_argument
@json_option
@log_level("warning")
def ls(job: str, as_json: bool) -> None:
    """List the segments: sequences, size, rows."""
    with _reader(job) as reader:
        segments = reader.segments()
    if as_json:
        write_json({"version": 1, "segments": [_facts(facts) for facts in segments]})
        return
    has_keys = any(s.key for s in segments)
    key = f"  {'KEY':<16}" * has_keys
    click.echo(f"{'SEGMENT':<34} {'STATE':<7} {'FIRST':>12} {'LAST':>12} {'ROWS':>12} {'BYTES':>14}{key}")
    for s in segments:
        key = f"  {s.key or 'not encrypted'}" * has_keys
        click.echo(f"{s.name:<34} {s.state:<7} {s.first:>12} {s.last:>12} {s.rows:>12,} {s.bytes:>14,}{key}")


@trail.command()
@job_argument
@click.option("--from", "start", metavar="POSITION", help="First transaction: a position, or its sequence.")
@click.option("--to", "end", metavar="POSITION", help="Last transaction.")
@table_option("Only this source table (schema.table).")
@click.option("--key", metavar="COLUMN=VALUE", multiple=True, help="Only rows with this value; several must all hold.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N rows.")
@json_option
@log_level("warning")
def show(
    job: str,
    start: str | None,
    end: str | None,
    table: str | None,
    key: tuple[str, ...],
    limit: int | None,
    as_json: bool,
) -> None:
    """Show transactions and rows, one a line, also with --json."""
    after = max(_sequence(start, "--from") - 1, 0) if start else None
    upto = _sequence(end, "--to") if end else None
    keys = dict(_pair(text) for text in key)
    from itertools import islice

    from anabranch.model.ids import TableId
    from anabranch.trail.show import show as rows

    with _reader(job) as reader:
        first = reader.first() - 1 if after is None else after
        for row in islice(
            rows(reader, after=first, upto=upto, table=TableId.parse(table) if table else None, key=keys), limit
        ):
            sys.stdout.write(_json_line(row) if as_json else f"{row}\n")


@trail.command()
@job_argument
@json_option
@log_level("warning")
def check(job: str, as_json: bool) -> None:
    """Read everything and compare every checksum.

    Exit code 7 if something is wrong.
    """
    from anabranch.errors import TrailCorrupt

    with _reader(job) as reader:
        report = reader.check()
    if as_json:
        write_json({"version": 1, **_facts(report)})
    else:
        click.echo("\n".join([*report.problems, _summary(report)]))
    if report.problems:
        sys.exit(TrailCorrupt.exit_code)


@trail.command()
@job_argument
@click.option("--older-than", type=click.FloatRange(min=0), metavar="HOURS", help="Use this instead of retain_hours.")
@click.option("--keep-mb", type=click.IntRange(min=0), metavar="N", help="Use this instead of retain_mb.")
@click.option("--keep-segments", type=click.IntRange(min=0), metavar="N", help="Use this instead of retain_segments.")
@click.option("--upto", metavar="POSITION", help="With --force: drop up to here, whoever needs it.")
@click.option("--force", is_flag=True, help="Drop also what readers need.")
@click.option("--execute", is_flag=True, help="Drop them; without it they are only shown.")
@log_level("warning")
def prune(
    job: str,
    older_than: float | None,
    keep_mb: int | None,
    keep_segments: int | None,
    upto: str | None,
    force: bool,
    execute: bool,
) -> None:
    """Drop segments that every reader is past.

    Capture does so by itself whenever a segment is full; this does it now. With --force a target that is behind has to
    load again; that is recorded.
    """
    from anabranch.job import Job

    if force != bool(upto):
        raise click.UsageError("--force and --upto go together")
    made = Job.from_file(job)
    if upto:
        _prune_by_force(made, _sequence(upto, "--upto"), execute)
        return
    found = made.prune(older_than, keep_mb, keep_segments, execute=execute)
    for name, size in found.segments.items():
        click.echo(f"{'dropped' if execute else 'would drop'}: {name}  {size:,} bytes")
    if not found.segments:
        click.echo("nothing is to be dropped")
    for reader in found.readers:
        click.echo(f"held behind {reader.sequence:,} for {reader.name}")
    if found.segments and not execute:
        click.echo("nothing was changed; add --execute to drop them")


@trail.command()
@job_argument
@json_option
@log_level("warning")
def rekey(job: str, as_json: bool) -> None:
    """Encrypt by the key that the job file names by now, also while the job runs.

    New segments are encrypted by it at once, and the data keys of all files are wrapped by it, so that former keys can be
    destroyed once nothing is left under them. Exit code 7 while something is.
    """
    from anabranch.errors import TrailKeyMissing
    from anabranch.job import Job
    from anabranch.lifecycle.encrypting import rekey as rekeyed

    found = rekeyed(Job.from_file(job))
    if as_json:
        write_json({"version": 1, **_facts(found)})
    else:
        for key, count in found.keys.items():
            click.echo(f"{count} files by key {key}{' (the present one)' if key == found.key else ''}")
        click.echo(f"{found.plain} segments are not encrypted" if found.plain else "every segment is encrypted")
    if found.others:
        sys.exit(TrailKeyMissing.exit_code)


def _prune_by_force(job: Job, upto: int, execute: bool) -> None:
    if not execute:
        raise click.UsageError(f"--force takes what readers need up to {upto}: add --execute if that is meant")
    names, behind = job.prune_by_force(upto)
    for name in names:
        click.echo(f"dropped: {name}")
    for reader in behind:
        click.echo(f"left behind: {reader}")


def _reader(job: str) -> TrailReader:
    from anabranch.trail.reader import TrailReader

    return TrailReader(trail_of(job), name="trail")


def _sequence(text: str, option: str) -> int:
    """Parse `4711@mysql-bin.000003:15499` or `4711`."""
    number = text.partition("@")[0]
    if not (number.isascii() and number.isdigit()):
        raise click.BadParameter(f"{text!r} is no position", param_hint=option)
    return int(number)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not COLUMN=VALUE", param_hint="--key")
    return name, value


def _facts(value: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)


def _json_line(row: Any) -> str:
    import json

    facts = {**_facts(row), "position": str(row.position), "table": str(row.table)}
    return json.dumps(facts, ensure_ascii=False) + "\n"


def _summary(report: CheckReport) -> str:
    verdict = f"{len(report.problems)} problems" if report.problems else "every checksum is right"
    names = ("segments", "frames", "transactions", "rows")
    counts = [f"{getattr(report, name):,} {name}" for name in names]
    return f"sequences {report.first} to {report.last}: {', '.join([*counts, verdict])}"


trail.add_command(export_)
trail.add_command(import_)
