"""Name of what holds up a target's stream: one culprit, with a sentence for people.

Pure. What does not live here: the state of the job (`states.py`), the stages of the lag (`lag_stages.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch import waits
from anabranch.job.lag import Oldest
from anabranch.job.states import Condition
from anabranch.model.status import TableStatus

LARGE = 50_000  # row images of one transaction that are worth a name
KINDS = (
    "part",
    "end_away",
    "room",
    "lock",
    "cutover",
    "verification",
    "standby",
    "load",
    "change",
    "building",
    "large_transaction",
    "slow_epochs",
    "decision",
    "idle_source",
)


@dataclass(frozen=True, slots=True)
class Seen:
    """Facts of a target's stream. `lag`: in seconds. `inside`: row changes of a large transaction that capture
    has read without its end. `oldest`: the first transaction of the trail that is not applied. `begun`: since when apply
    carries it out (ISO 8601), None where it does not; `altered`: tables whose definition it changes. `building`: tables whose
    indexes and keys are being built (`names`, `since`). `last`: when the newest transaction was committed."""

    condition: Condition
    lag: float | None
    waits: Sequence[Mapping[str, Any]] = ()
    tables: Sequence[TableStatus] = ()
    progress: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inside: int = 0
    oldest: Oldest | None = None
    begun: str | None = None
    altered: Sequence[str] = ()
    building: Mapping[str, Any] | None = None
    slow: Mapping[str, Any] | None = None
    last: str | None = None


def culprit(seen: Seen) -> dict[str, Any] | None:
    """Return `{kind, text, since, …}`: what holds the stream up now, or why nothing is to be done; None where nothing is
    known. A parked table holds nobody up."""
    state, sub_state = seen.condition.state, seen.condition.sub_state
    if state in ("died", "failed", "stopped", "stopping", "starting") or sub_state == "part":
        return _part(seen.condition)
    if seen.waits:
        return _lock(seen)
    if state == "loading" or sub_state in ("load", "capture"):
        return _load(seen)
    if state == "waiting":
        return _wait(seen.condition)
    return _streaming(seen)


def _part(condition: Condition) -> dict[str, Any]:
    told = {
        "died": f"{condition.detail}: start it again with anabranch run JOB",
        "failed": f"{condition.detail}: anabranch status JOB shows the error; mend that, and start it again",
        "stopped": "no part of the job runs: anabranch run JOB starts it",
        "stopping": "the job was asked to stop",
        "starting": "its parts are starting",
    }
    text = told.get(condition.state) or f"the stream waits {condition.detail}: run starts it again, else start it"
    return _named("part", text, condition.since, state=condition.state, error=_code(condition))


def _code(condition: Condition) -> str | None:
    return str(condition.error["code"]) if condition.error else None


def _lock(seen: Seen) -> dict[str, Any]:
    """Name who has what a part waits for; of several waits, apply's first."""
    wait = min(seen.waits, key=lambda one: (one["part"] != "apply", str(one["since"])))
    what, held = waits.parted(wait["text"])
    names = (table.target for table in seen.tables if re.search(rf"(?<![\w.]){re.escape(table.target)}(?![\w.])", what))
    text = f"{wait['part']} waits {wait['text']}: end that transaction or session, or let it wait"
    facts = {"part": wait["part"], "waits_for": what, "table": next(names, None), "held_by": held or None}
    return _named("lock", text, wait["since"], **facts)


def _load(seen: Seen) -> dict[str, Any]:
    """Name the table that is loaded, of several the one that has come least far; its share where that is known."""
    shares = {
        table.source: _percent(seen.progress.get(table.source))
        for table in seen.tables
        if table.state in ("pending", "loading")
    }
    table = min(shares, key=lambda one: shares[one] or 0, default=None)
    percent = shares[table] if table else None
    share = f", {percent} % of its rows are copied" if percent is not None else ""
    others = f" (and {len(shares) - 1} more)" if len(shares) > 1 else ""
    detail = f": {seen.condition.detail}" if seen.condition.detail else ""
    what = f"{table}{others} is being loaded{share}" if table else "the initial load is not over"
    text = f"{what}{detail}; the stream begins behind it by itself"
    return _named("load", text, seen.condition.since, table=table, percent=percent, tables=len(shares))


def _percent(progress: Mapping[str, Any] | None) -> int | None:
    if not progress or not progress.get("total"):
        return None
    return min(100, 100 * int(progress["done"]) // int(progress["total"]))


def _wait(condition: Condition) -> dict[str, Any]:
    kind, end = condition.sub_state, None
    if kind in ("source", "target"):
        kind, end = "end_away", condition.sub_state
    if kind == "others":  # an end said that it is busy, and nobody has seen who it is
        facts = dict.fromkeys(("part", "waits_for", "table", "held_by"))
        text = f"the stream waits {condition.detail}; it is tried again by itself"
        return _named("lock", text, condition.since, **facts)
    to_do = {
        "end_away": f"it is tried again by itself: see to the {end}",
        "room": "it goes on by itself once there is room",
        "cutover": "the cut-over ends it, or is taken back",
        "verification": "it goes on by itself within seconds",
        "standby": "this capture takes over when the other one is gone",
    }.get(kind, "")
    text = f"the stream waits {condition.detail}" + (f"; {to_do}" if to_do else "")
    facts = {"end": end} if end else {}
    return _named(kind, text, condition.since, **facts, error=_code(condition))


def _streaming(seen: Seen) -> dict[str, Any] | None:
    if seen.inside >= LARGE:
        text = (
            f"capture reads a transaction that has {seen.inside:,} row changes so far: what was committed behind it is "
            "written to the trail behind its end"
        )
        return _named("large_transaction", text, None, where="source", changes=seen.inside)
    if seen.lag == 0:
        return _decision(seen.tables) or _idle(seen)
    if seen.altered and seen.begun:
        return _change(seen)
    if seen.oldest is not None and seen.oldest.images >= LARGE:
        return _large(seen.oldest, seen.begun)
    if seen.slow and seen.begun and str(seen.slow["at"]) >= seen.begun:
        text = f"apply goes row by row, since {seen.slow['reason']}"
        return _named("slow_epochs", text, seen.begun, reason=seen.slow["reason"])
    return _building(seen.building, "the stream goes on beside it, slower") if seen.building else None


def _change(seen: Seen) -> dict[str, Any]:
    """Name the change of definitions that is carried out, or the indexes that have to be built before it."""
    assert seen.oldest is not None
    if seen.building and not set(seen.building["names"]).isdisjoint(seen.altered):
        return _building(seen.building, "a change of that definition waits for it")
    position = str(seen.oldest.position)
    tables = ", ".join(seen.altered)
    text = (
        f"apply changes the definition of {tables} at the target, as at {position}: its statement may take long there"
    )
    return _named("change", text, seen.begun, tables=list(seen.altered), position=position)


def _building(building: Mapping[str, Any], effect: str) -> dict[str, Any]:
    names = building["names"]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    text = f"indexes and keys of {shown} are being built at the target; {effect}"
    return _named("building", text, building["since"], tables=list(names))


def _large(oldest: Oldest, begun: str | None) -> dict[str, Any]:
    does = "apply carries out" if begun else "apply comes to"
    text = (
        f"{does} a transaction of {oldest.images:,} row images, which ends at {oldest.position} and is shown as a whole"
    )
    facts = {"where": "apply" if begun else "trail", "position": str(oldest.position)}
    return _named("large_transaction", text, begun, **facts, row_images=oldest.images, row_bytes=oldest.bytes)


def _decision(tables: Sequence[TableStatus]) -> dict[str, Any] | None:
    """Name the change that a person has to decide about. The others' stream goes on."""
    asked = min((one.undecided for one in tables if one.undecided), key=lambda one: one.number, default=None)
    if asked is None:
        return None
    text = f"{asked.table} waits in front of change {asked.number}: anabranch ddl approve, skip or replace JOB {asked.number}"
    return _named("decision", text, asked.since, table=asked.table, number=asked.number)


def _idle(seen: Seen) -> dict[str, Any]:
    last = f": the last transaction was committed at {seen.last}" if seen.last else ""
    return _named("idle_source", f"nothing is left to apply{last}", seen.last)


def _named(kind: str, text: str, since: str | None, **facts: Any) -> dict[str, Any]:
    assert kind in KINDS, kind
    return {"kind": kind, "text": text, "since": since, **facts}
