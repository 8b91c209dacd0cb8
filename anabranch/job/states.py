"""Choice of the state that `status` shows (model/condition.py), from the parts that are alive, those that are gone and
those that have ended, and from what they said last.

What does not live here: the phases themselves (`status.py`), whether a process lives (`state/living.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anabranch.model.condition import ACTIVE, STATES
from anabranch.model.status import StateStatus

FOLLOWING = ("streaming", "draining")
WORK = ("capture", "load", "apply")
# Of several targets, the state that comes first here is the job's.
WORST = ("died", "failed", "waiting", "starting", "loading", "stopping", "streaming", "stopped")


class Condition(NamedTuple):
    """A state with its details. `since`: ISO 8601. `error`: the error that holds the job up, or that ended it."""

    state: str
    sub_state: str = ""
    detail: str = ""
    since: str | None = None
    error: dict[str, Any] | None = None

    def shown(self) -> StateStatus:
        return StateStatus(self.state, self.sub_state, self.detail, self.since, self.state in ACTIVE, self.error)


def condition_of(snapshot: Mapping[str, Any], is_idle: bool, needs: Sequence[str] = ("capture", "apply")) -> Condition:
    """Return the state that holds. `snapshot`: what state.db says, as `as_seen` shows it. `is_idle`: all changes that
    were read are applied. `needs`: the parts without which nothing streams."""
    alive = {part["name"]: part for part in snapshot["parts"]}
    return (
        _died(snapshot, alive)
        or _failed(snapshot, alive)
        or (_ended(snapshot) if not alive else None)
        or _stopping(alive)
        or _running(snapshot, alive, is_idle, needs)
    )


def _died(snapshot: Mapping[str, Any], alive: Mapping[str, Any]) -> Condition | None:
    """Return the state `died` if a part is gone, has not said that it ended, and nobody starts it again."""
    gone = [part for part in snapshot["gone"] if _is_missed(part["name"], snapshot, alive)]
    if not gone:
        return None
    told = "; ".join(map(_gone, gone))
    since = max(part["seen"] for part in gone)
    error = {
        "code": "part_died",
        "class": "",
        "side": "job",
        "exit_code": None,
        "task": None,
        "table": None,
        "position": None,
        "message": told,
        "retried": False,
        "at": since,
    }
    return Condition("died", "gone" if any(p["is_here"] for p in gone) else "silent", told, since, error)


def _gone(part: Mapping[str, Any]) -> str:
    of = f" of {part['target']}" if "target" in part else ""
    end = "ended without giving a reason" if part["is_here"] else "has not reported for a long time"
    stopping = ", while it was stopping" if "stopping" in part else ""
    return f"{part['name']}{of} (process {part['pid']} on {part['host']}) {end}{stopping}, last seen at {part['seen']}"


def _is_missed(name: str, snapshot: Mapping[str, Any], alive: Mapping[str, Any]) -> bool:
    """Return whether the job needs the part and nobody starts it again. Parts that run by themselves have taken over
    from a `run` that is gone. While the job streams, a load is a command beside it and is not missed."""
    if "run" in alive:
        return False
    if name == "run":
        return not any(work in alive for work in WORK)
    return name != "load" or snapshot["phase"] not in FOLLOWING


def _failed(snapshot: Mapping[str, Any], alive: Mapping[str, Any]) -> Condition | None:
    """Return the state `failed` if a part has ended with an error and nobody starts it again."""
    ends = snapshot["ends"]
    last = max(ends, key=lambda name: str(ends[name]["at"]), default="")
    failed = [name for name, end in ends.items() if end["has_failed"] and name not in alive]
    if not alive and last == "run":  # `run` knows how its parts ended
        failed = [name for name in failed if name == "run"]
    elif not alive:  # a load that failed beside the others is over when they end
        failed = [name for name in failed if name != "load" or last == "load"]
    failed = [name for name in failed if _is_missed(name, snapshot, alive)]
    if not failed:
        return None
    name = max(failed, key=lambda one: str(ends[one]["at"]))
    error = error_of(snapshot, name, retried=False)
    side = error["side"] if error else "job"
    return Condition("failed", side, error["message"] if error else f"{name} failed", ends[name]["at"], error)


def error_of(snapshot: Mapping[str, Any], part: str, retried: bool) -> dict[str, Any] | None:
    """Return the last error of a part. Where it has none of its own, because it only names the part that failed, return
    the newest error of another part."""
    errors = snapshot["errors"]
    found = errors.get(part) or next(reversed(errors.values()), None)
    return None if found is None else {**_whole(found), "retried": retried}


def _whole(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found["facts"], "message": found["message"], "at": found["at"]}


def _ended(snapshot: Mapping[str, Any]) -> Condition:
    ends = [end["at"] for end in snapshot["ends"].values()]
    has_run = ends or snapshot["errors"] or snapshot["positions"]
    return Condition("stopped", "in_order" if has_run else "never_started", "", max(ends, default=None))


def _stopping(alive: Mapping[str, Any]) -> Condition | None:
    asked = [alive["run"]] if "run" in alive else list(alive.values())
    if not all("stopping" in part for part in asked):
        return None
    return Condition("stopping", "in_order", "", min(part["stopping"] for part in asked))


def _running(snapshot: Mapping[str, Any], alive: Mapping[str, Any], is_idle: bool, needs: Sequence[str]) -> Condition:
    phase, detail, about = snapshot["phase"], snapshot["detail"], snapshot["about"]
    since, error = snapshot["phase_since"] or _first(alive), snapshot["phase_error"]
    state, sub_state = named(phase, about)
    if state == "waiting":
        return Condition(state, sub_state, detail, since, error or _tried_again(snapshot, alive))
    if state == "streaming":
        return Condition(state, "idle" if is_idle else "working", detail, since)
    if state != "stopped":
        return Condition(state, sub_state, detail, since)
    missing = next((name for name in needs if name not in alive), "")
    if "run" not in alive and missing and "how" in alive.get("capture", {"how": ""}):
        return Condition("waiting", "part", f"for {missing}, which is not running", since)
    return Condition("starting", "parts", "", since)


def named(phase: str, about: str) -> tuple[str, str]:
    """Return the state and sub-state that a part's phase stands for."""
    if phase == "preflight":
        return "starting", "preflight"
    if about == "begin":
        return "starting", "parts"
    if phase == "loading":
        return "loading", "window" if about == "window" else "rows"
    if phase in FOLLOWING:
        return "streaming", "working"
    if phase == "waiting":
        return "waiting", about if about in STATES["waiting"] else "part"
    return "stopped", "in_order"


def _tried_again(snapshot: Mapping[str, Any], alive: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error of a part that `run` starts again; None if there is none."""
    ends: Mapping[str, Any] = snapshot["ends"]
    failed = [name for name, end in ends.items() if end["has_failed"] and name not in alive]
    return error_of(snapshot, failed[0], retried=True) if failed and "run" in alive else None


def _first(alive: Mapping[str, Any]) -> str:
    return min(str(part["since"]) for part in alive.values())


def worst(conditions: Sequence[tuple[str, Condition]]) -> Condition:
    """Return the job's state: that of the target that needs a person most. A stopped target counts only if all are
    stopped. `conditions`: the states of the targets, by name."""
    name, found = min(conditions, key=lambda one: WORST.index(one[1].state))
    if len(conditions) == 1:
        return found
    is_idle = found.state == "streaming" and all(c.sub_state == "idle" for _, c in conditions if c.state == "streaming")
    sub_state = found.sub_state if found.state != "streaming" else "idle" if is_idle else "working"
    return found._replace(sub_state=sub_state, detail=f"{name}: {found.detail}" if found.detail else "")
