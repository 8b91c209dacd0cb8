"""`anabranch status`: where a job is, running or not.

What does not live here: gathering it (`Job.status`); this shows the same value that `--json` prints.
"""

from __future__ import annotations

import gc
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import click

from anabranch.cli.homes import require_home
from anabranch.cli.options import Verb, job_argument, json_option, log_level, write_json

SHOWN_SECONDS = 0.1  # of a stage, from which on it is shown
RECREATE = "anabranch load JOB --table {} --recreate"
STYLES = {
    "streaming": "green",
    "draining": "green",
    "loading": "cyan",
    "parked": "red",
    "dropped": "red",
    "stopped": "dim",
    "died": "red",
    "failed": "red",
}


@click.command(cls=Verb)
@job_argument
@json_option
@click.option("--reset-counters", is_flag=True, help="Reset what is counted since the last reset, then show.")
@log_level("warning")
def status(job: str, as_json: bool, reset_counters: bool) -> None:
    """Show state, parts, positions, lag, counters and every table."""
    if _is_pump(job):
        from anabranch.cli import hop_text
        from anabranch.job.hopping import pump_job

        hop = pump_job(job).status()
        if as_json:
            write_json(hop)
        else:
            click.echo("\n".join(hop_text.lines(hop)))
        return
    gc.disable()  # most of the time are imports, which make much and leave nothing to collect, at the end neither
    try:
        from anabranch.job import Job

        opened = Job.from_file(job)
        if reset_counters:
            opened.reset_counters()
        found = opened.status()
    finally:
        gc.freeze()
        gc.enable()
    if as_json:
        write_json(found)
    else:
        click.echo("\n".join(lines(found)))
    require_home(opened, found)


def _is_pump(job: str) -> bool:
    from anabranch.config.hop_files import is_pump_file

    return is_pump_file(job)


def lines(found: Mapping[str, Any]) -> Iterable[str]:
    """Return the status as text; works on what `--json` prints."""
    parts = ", ".join(map(_part, found["parts"]))
    yield f"job         {found['job']}"
    if "state" in found:
        yield from _state(found)
    yield f"phase       {_styled(found['phase'])}" + (f": {found['detail']}" if found.get("detail") else "")
    yield f"parts       {parts or 'none is running'}"
    for name in ("read", "written", "source_end"):
        yield f"{name.replace('_', ' '):<12}{_position(found['positions'].get(name))}"
    if held := found.get("log_held"):
        yield f"log held    {_held(held)}"
    if encryption := found.get("encryption"):
        yield f"encryption  {_encryption(encryption)}"
    if load_files := found.get("load_files"):
        yield f"load files  {_load_files(load_files)}"
    for one in found.get("prepared", ()):
        yield f"prepared    {one['xid']}  {one['rows']:,} rows, since {one['since']}"
    for target in found["targets"]:
        yield from _target(target)
    if counted := found.get("counters"):
        yield f"capture     {_counted(counted)}"
    for error in found.get("unreachable", ()):
        yield f"not asked   {error}"
    if found.get("last_error"):
        yield f"last error  {_error(found['last_error'])}"


def _state(found: Mapping[str, Any]) -> Iterable[str]:
    """Show the state, and the error behind it where that is not the last error of a part."""
    sub_state = f", {found['sub_state'].replace('_', ' ')}" if found["sub_state"] else ""
    since = f"  since {found['since']}" if found["since"] else ""
    yield f"state       {_styled(found['state'])}{sub_state}{since}"
    error = found["error"]
    if error:
        again = ", tried again" if error["retried"] else ""
        yield f"error       {error['code']} ({error['side']}{again}): {error['message']}"


def _encryption(found: Mapping[str, Any]) -> str:
    """Show the present key, and what it does not encrypt."""
    key, others = found["key"], {name: count for name, count in found["keys"].items() if name != found["key"]}
    former = "".join(f", {count} files by key {name}" for name, count in others.items())
    plain = f", {found['not_encrypted']} segments not encrypted" if found["not_encrypted"] else ""
    return f"{f'key {key}' if key else 'off'}{former}{plain}"


def _load_files(found: Mapping[str, Any]) -> str:
    """Show what there is of loads in the trail, and for whom."""
    who = [f"{tables} tables for {reader}" for reader, tables in found["awaited"].items()]
    if found["kept"]:
        until = f" until {found['kept_until']}" if found["kept_until"] else ""
        who.append(
            f"{found['kept']} tables ({_size(found['kept_bytes'])}) for who joins later{until} (load_retain_hours)"
        )
    return f"{_size(found['bytes'])}" + (f": {', '.join(who)}" if who else "")


def _counted(counted: Mapping[str, Any]) -> str:
    """Show on one line what there is, then what came since start and reset."""
    started, reset = counted["since_start"], dict(counted["since_reset"])
    at = reset.pop("reset_at")
    names = {name: name.replace("_", " ") for name in started}
    parts = [f"{started[name]:,} {named}" for name, named in names.items()]
    totals = [f"{number:,}" for number in reset.values()]
    open_now = f"; {counted['open_transactions']:,} open" if counted.get("open_transactions") else ""
    return f"{', '.join(parts)} since its start{open_now}; {', '.join(totals)} since {at}"


def _held(held: Mapping[str, Any]) -> str:
    limit = f" of {_size(held['limit'])} at most" if held["limit"] is not None else ""
    warning = click.style(f"  {held['warning']}", fg="yellow") if held["warning"] else ""
    return f"{_size(held['bytes'])}{limit}, at the source, until it is read{warning}"


def _styled(state: str) -> str:
    style = STYLES.get(state)
    if style == "dim":
        return click.style(state, dim=True)
    return click.style(state, fg=style) if style else state


def _position(position: Mapping[str, Any] | None) -> str:
    if not position or not position.get("text"):
        return "-"
    return str(position["text"]) + (f"  committed {position['commit_time']}" if position.get("commit_time") else "")


def _error(error: Any) -> str:
    if not isinstance(error, Mapping):
        return str(error)
    where = " ".join(str(error[key]) for key in ("at", "part") if error.get(key))
    return f"{where}: {error.get('message', '')}" if where else str(error.get("message", ""))


def _part(part: Mapping[str, Any]) -> str:
    name = f"{part['name']} of {part['target']}" if "target" in part else str(part["name"])
    how = f", {part['how']}" if "how" in part else ""
    return f"{name} (pid {part['pid']} on {part['host']}{how})"


def _target(target: Mapping[str, Any]) -> Iterable[str]:
    """Show one target; of several each has a state and a phase of its own."""
    yield f"target      {target['name']}" + (f"  {target['url']}" if "url" in target else "")
    if "state" in target:
        yield from _state(target)
    if "phase" in target:
        yield f"phase       {_styled(target['phase'])}" + (f": {target['detail']}" if target["detail"] else "")
    if target.get("last_error"):
        yield f"last error  {_error(target['last_error'])}"
    yield f"applied     {_position(target['applied'])}"
    if counted := target.get("counters"):
        yield f"counted     {_counted(counted)}"
    if target.get("consistency"):
        yield "consistency between barriers only: commits keep no order (commit_order), 'applied' is the last barrier"
    yield f"lag         {_lag(target.get('lag') or {})}"
    yield from _behind(target.get("lag") or {})
    if slow := target.get("slow_epochs"):
        yield f"slow epochs {slow['count']:,} of {slow['epochs']:,}, the last at {slow['at']}: {slow['reason']}"
    tables = sorted(target["tables"], key=lambda table: str(table["source"]))
    yield from _undecided(tables, f" --target {target['name']}" if "url" in target else "")
    if not tables:
        return
    yield ""
    rows: list[tuple[str, ...]] = [("TABLE", "TARGET", "STATE", "ROWS LOADED", "CHANGES APPLIED")]
    rows += [
        (t["source"], t["target"], t["state"], _count(t["rows_loaded"]), _count(t["changes_applied"])) for t in tables
    ]
    yield from _columns(rows, [_remarks(t) for t in tables])
    yield ""


def _undecided(tables: Iterable[Mapping[str, Any]], option: str) -> Iterable[str]:
    """Show each change that a person has to decide about, with the tables that wait in front of it."""
    changes: dict[int, Mapping[str, Any]] = {}
    held: dict[int, list[str]] = {}
    for table in tables:
        if change := table.get("undecided"):
            changes[change["number"]] = change
            held.setdefault(change["number"], []).append(str(table["source"]))
    for number, change in sorted(changes.items()):
        others = [name for name in held[number] if name != change["table"]]
        beside = f", with {', '.join(others)}" if others else ""
        statement = f": {' '.join(change['statement'].split())}" if change["statement"] else ""
        command = f"anabranch ddl approve JOB {number}{option}"
        yield f"to decide   {command}  {change['table']}{beside}, since {change['since']}{statement}"


def _remarks(table: Mapping[str, Any]) -> list[str]:
    number = table.get("conflicts", 0)
    settled = f"{number:,} conflicts settled: anabranch conflicts ls JOB" if number else ""
    waiting = table.get("set_aside", 0)
    aside = (
        f"{waiting:,} row changes set aside: anabranch parked show JOB {shlex.quote(table['source'])}"
        if waiting
        else ""
    )
    verified = _verified(table["verified"]) if table.get("verified") else ""
    begun = table.get("vouched")
    vouched = f"not loaded: from {begun['place']} on, by the word of {begun['by']} at {begun['at']}" if begun else ""
    ignored = ", ".join(table.get("left_out", ()))
    left_out = f"without {ignored}: {RECREATE.format(shlex.quote(table['source']))} takes them in" if ignored else ""
    told = filter(None, [table.get("reason"), vouched, left_out, aside, settled, verified])
    return [*told, *table.get("not_built", ())]


def _verified(found: Mapping[str, Any]) -> str:
    """Show the last result of `verify --watch`."""
    least = "" if found["is_complete"] else "at least "
    counts = [f"{least}{found[name]:,} {name}" for name in ("differing", "pending") if found[name]]
    part = f" in a sample of {found['sample']}" if found.get("sample") else ""
    told = ", ".join([f"{found['rows']:,} rows{part}", *counts])
    why = f"; {found['why']}" if found["why"] else ""
    result = click.style("DIFFERENT", fg="red") if found["result"] == "different" else found["result"]
    place = f", up to {found['positions'][1]}" if found["positions"][1] else ""
    return f"verified {found['at']} in {_duration(found['seconds'])}{place}: {result}, {told}{why}"


def _columns(rows: list[tuple[str, ...]], remarks_of: list[list[str]]) -> Iterable[str]:
    """Pad cells before they are coloured; remarks on a table stand under it."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row, remarks in zip(rows, [[], *remarks_of], strict=True):
        cells = [
            cell.rjust(width) if i > 2 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        cells[2] = cells[2].replace(row[2], _styled(row[2]), 1)
        yield "  ".join(cells).rstrip()
        yield from (f"    {remark}" for remark in remarks)


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _lag(lag: Mapping[str, Any]) -> str:
    seconds, size = lag.get("seconds"), lag.get("bytes")
    shown = [_duration(seconds)] if seconds is not None else []
    shown += [_size(size)] if size is not None else []
    return ", ".join(shown) or "unknown"


def _behind(lag: Mapping[str, Any]) -> Iterable[str]:
    """Show the stages that have something, and what holds the stream up."""
    shown = [
        f"{stage['stage'].replace('_', ' ')} {_lag(stage)}"
        for stage in lag.get("stages", ())
        if (stage["seconds"] or 0) >= SHOWN_SECONDS or stage["bytes"]
    ]
    if shown:
        yield f"behind      {'; '.join(shown)}"
    if (eta := lag.get("eta")) and eta["seconds"]:
        error = f", ± {100 * eta['error']:.0f} % so far" if eta["error"] is not None else ""
        yield f"caught up   in about {_duration(eta['seconds'])}, at {eta['at']}{error}"
    if culprit := lag.get("culprit"):
        since = f" (since {culprit['since']})" if culprit["since"] and culprit["since"] not in culprit["text"] else ""
        yield f"because     {culprit['text']}{since}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
