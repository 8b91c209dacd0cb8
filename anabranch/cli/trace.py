"""`anabranch trace`: what happened to a job, and what was asked of it.

What does not live here: the entries (`Job.trace`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.homes import require_home
from anabranch.cli.options import Verb, job_argument, json_option, log_level, target_option, write_json

if TYPE_CHECKING:
    from anabranch.job import Job

LEVELS = ("debug", "info", "warning", "error")
RECORDED = ("info", "debug")
USUAL = "usual"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
TAKEN_UP = {
    "info": "noted from now on: info and above. Parts that run take it up within seconds.",
    "debug": "noted from now on: debug and above, until --record info. Parts that run take it up within seconds.",
}
LOGGED = (
    "logged from now on: {} and above, until --log usual. Parts that run take it up within seconds.",
    "logged from now on: what each part was told. Parts that run take it up within seconds.",
)
STYLES = {"warning": "yellow", "error": "red"}
FOLLOW_S, AGAIN = 0.5, timedelta(seconds=5)


def _since(context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    if found := re.fullmatch(r"(\d{1,6})([smhd])", text):
        return datetime.now(UTC) - timedelta(seconds=int(found[1]) * UNITS[found[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("30m, 2h, 7d, or a time as 2026-03-01T10:20:30Z", context, parameter) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.command(cls=Verb)
@job_argument
@click.option("--since", metavar="T", callback=_since, help="From this time on: 30m, 2h, 7d, or a time (UTC).")
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    metavar="LEVEL",
    default="info",
    help="At least debug, info, warning, error  [default: info]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=200,
    help="The last N entries, 0 for all  [default: 200]",
    metavar="N",
)
@click.option("--follow", is_flag=True, help="Keep showing new entries, until Ctrl-C.")
@click.option(
    "--record",
    type=click.Choice(RECORDED),
    metavar="LEVEL",
    help="Note info, or debug as well, from now on; shows nothing.",
)
@click.option(
    "--log",
    "logged",
    type=click.Choice((*LEVELS, USUAL)),
    metavar="LEVEL",
    help="Log LEVEL and above from now on, or usual.",
)
@click.option("--position", metavar="P", help="Follow one transaction: 4711@PLACE, 4711, or PLACE.")
@click.option("--xid", metavar="X", help="The same by the source's own name: a GTID, an id.")
@click.option("--at-target", is_flag=True, help="Read the target's copy, not the job's home.")
@target_option
@json_option
@log_level("warning")
def trace(
    job: str,
    since: datetime | None,
    level: str,
    limit: int,
    follow: bool,
    record: str | None,
    logged: str | None,
    position: str | None,
    xid: str | None,
    at_target: bool,
    target: str | None,
    as_json: bool,
) -> None:
    """Show what happened to the job, the oldest first.

    Starts and ends of parts, states, errors, retries and commands, kept as long as [trace] says. With --follow and
    --json an object a line. --record debug adds statements, chunks and epochs, also of processes that run already;
    --log changes what these write to stderr.
    --position and --xid follow one transaction: when it was written, with which epoch of each target, or where it waits.
    """
    from anabranch.job import Job

    if follow and at_target:
        raise click.UsageError("--follow shows what comes into the job's home: leave --at-target out")
    opened = Job.from_file(job)
    if not at_target:
        require_home(opened)
    if position or xid:
        if (position and xid) or since or follow or record or logged or at_target:
            raise click.UsageError("--position or --xid stands alone, with --target or --json")
        _follow_one(opened if target is None else opened.on(target), position or "", xid or "", as_json)
        return
    if logged:
        opened.show_log("" if logged == USUAL else logged)
        click.echo(LOGGED[logged == USUAL].format(logged))
    if record:
        opened.record(record)
        click.echo(TAKEN_UP[record])
    if logged or record:
        return
    if at_target or target:
        opened = opened.on(target)
    everything = opened.trace(since, at_target=at_target)
    found = _chosen(everything, level)
    found = found[-limit:] if limit else found
    if as_json and not follow:
        write_json({"version": 1, "job": opened.config.name, "entries": found})
        return
    _show(found, as_json)
    if not as_json and opened.recorded() == "debug":
        click.echo(
            "details are being noted, until anabranch trace JOB --record info; --level debug shows them", err=True
        )
    if follow:
        _follow(opened, everything, since, level, as_json)


def _follow_one(job: Job, position: str, xid: str, as_json: bool) -> None:
    from anabranch.cli.transaction_text import lines

    found = job.trace_transaction(position, xid)
    if as_json:
        write_json(found.to_json())
    else:
        click.echo("\n".join(lines(found)))


def _follow(job: Job, known: list[dict[str, Any]], first: datetime | None, level: str, as_json: bool) -> None:
    """Show entries that are not `known`, and not before `first`.

    Several processes that write at once are a little out of order: the last seconds are read again.
    """
    seen = {entry["id"] for entry in known}
    since = max(datetime.fromisoformat(entry["at"]) for entry in known) if known else first
    while True:
        time.sleep(FOLLOW_S)
        begun = datetime.now(UTC)
        again = max(filter(None, (since and since - AGAIN, first)), default=None)
        recent = job.trace(again)
        _show(_chosen((entry for entry in recent if entry["id"] not in seen), level), as_json)
        seen, since = {entry["id"] for entry in recent}, begun


def _chosen(entries: Iterable[dict[str, Any]], level: str) -> list[dict[str, Any]]:
    least = LEVELS.index(level)
    return [entry for entry in entries if entry["level"] not in LEVELS or LEVELS.index(entry["level"]) >= least]


def _show(entries: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    for entry in entries:
        click.echo(json.dumps(entry, ensure_ascii=False) if as_json else line(entry))


def line(entry: Mapping[str, Any]) -> str:
    """Time, level, part, event, and what there is to say."""
    state = "/".join(filter(None, (entry.get("state"), entry.get("sub_state"))))
    code = f"[{entry['code']}]" if "code" in entry else ""
    facts = entry.get("facts") or {}
    times = f"(and {facts['repeated']:,} times before)" if facts.get("repeated") else ""
    rest = " ".join(
        f"{name}={value}" for name, value in facts.items() if name not in ("repeated", "part", "job", "class", "retry")
    )
    level = click.style(f"{entry['level']:<7}", fg=STYLES.get(entry["level"]))
    words = (state, code, str(entry.get("message", "")).replace("\n", " "), rest, times)
    return f"{entry['at']}  {level}  {entry['task']:<16}  {entry['event']}  {' '.join(filter(None, words))}".rstrip()
