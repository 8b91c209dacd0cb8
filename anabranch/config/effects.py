"""Tell what each change of a job file takes before it holds: nothing, another start of some parts, a decision, or another job.

The texts are compared key by key, so that what stands there is told, not what it comes to; values are never told. What does
not live here: which changes of what was run need a decision (`changes.py`), the difference of two texts (console).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from anabranch.config.changes import FORM, WHERE, describe_change
from anabranch.config.job import JobConfig
from anabranch.databases import SOURCE, TARGET

CAPTURE, LOAD, APPLY = "capture", "load", "apply"
EVERY = (CAPTURE, LOAD, APPLY)
# The parts that read a section, when they start. A section without parts is read by each command that needs it.
READ_BY: Mapping[str, tuple[str, ...]] = {
    "source": EVERY,
    "target": EVERY,
    "targets": EVERY,
    "tables": (LOAD, APPLY),
    "load": (LOAD,),
    "capture": (CAPTURE,),
    "ddl": (CAPTURE, APPLY),
    "apply": (LOAD, APPLY),
    "types": (LOAD, APPLY),
    "spark": (LOAD, APPLY),
    "retry": EVERY,
    "trace": EVERY,
    "trail": EVERY,
    "metrics": EVERY,
    "observe": (LOAD, APPLY),
    "compat": EVERY,
    "cutover": (),
    "reverse": (),
    "pair": EVERY,
}
# What `describe_change` tells by names of its own, where it differs at all.
_DECIDED = {("rules",), ("types", "map"), ("ddl", "ghost_tables"), (TARGET, "form")}
_DECIDED_OF_TABLES = ("where", "drop", "rename", "type")

KeyPath = tuple[str, ...]


class When(StrEnum):
    """Name what a change takes before it holds."""

    NEXT_COMMAND = "next_command"
    NEXT_START = "next_start"
    DECISION = "decision"
    ANOTHER_JOB = "another_job"


@dataclass(frozen=True)
class Effect:
    """One changed key of a job file, as `[apply] on_conflict`, and what it takes. `parts`: those that have to start again; a
    decision (`anabranch plan JOB --execute`) is taken while none of them runs."""

    key: str
    when: When
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.key}: {_SAID[self.when].format(parts=_listed(self.parts))}"


_SAID = {
    When.NEXT_COMMAND: "holds for the next command",
    When.NEXT_START: "holds when {parts} again",
    When.DECISION: "holds once `anabranch plan JOB --execute` has taken it over; tables that it names are loaded again",
    When.ANOTHER_JOB: "makes it another job, which loads anew",
}


def effects(before: tuple[str, JobConfig], after: tuple[str, JobConfig]) -> list[Effect]:
    """Return what the changes between two files of one job take, in the order of the file. Each is a text and what it says."""
    decided = [
        change
        for target in after[1].ends
        if target in before[1].ends
        for change in describe_change(before[1].fingerprint(target), after[1].fingerprint(target))
    ]
    found = [Effect(key, _when(key)) for key in dict.fromkeys(change.what for change in decided)]
    told = {change.what for change in decided}
    for path in _changed(tomllib.loads(before[0]), tomllib.loads(after[0])):
        if not _is_decided(path, told):
            found.append(_effect(path))
    return list(dict.fromkeys(found))


def _listed(parts: tuple[str, ...]) -> str:
    *others, last = parts or ("",)
    return f"{', '.join(others)} and {last} start" if others else f"{last} starts"


def _when(key: str) -> When:
    return When.ANOTHER_JOB if key in (WHERE, FORM) else When.DECISION


def _is_decided(path: KeyPath, told: set[str]) -> bool:
    """Return whether a key is one that `describe_change` tells, by a name of its own, or has found to be the same."""
    if path[:1] in _DECIDED or path[:2] in _DECIDED:
        return True
    if path[0] == "tables":
        return any(name in _DECIDED_OF_TABLES for name in path[2:])
    if path == (SOURCE, "url"):
        return WHERE in told
    return _shown(path) in told


def _effect(path: KeyPath) -> Effect:
    if path == ("name",):
        return Effect("name", When.ANOTHER_JOB)
    parts = READ_BY.get(path[0], EVERY)
    return Effect(_shown(path), When.NEXT_START if parts else When.NEXT_COMMAND, parts)


def _shown(path: KeyPath) -> str:
    """Return a key as messages name it: `[apply] on_conflict`, `table shop.orders on_conflict`."""
    if path[0] == "tables":
        return " ".join(("table", *path[1:]))
    return f"[{'.'.join(path[:-1])}] {path[-1]}" if len(path) > 1 else path[0]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any], above: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the keys whose values differ, each with the sections that it stands in. Entries of a list of sections stand under
    their names, so that one that has moved has not changed."""
    for name in dict.fromkeys([*before, *after]):
        old, new = (_by_name(some.get(name)) for some in (before, after))
        if old == new:
            continue
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            yield from _changed(old or {}, new or {}, (*above, name))
        else:
            yield (*above, name)


def _by_name(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(one, Mapping) and "name" in one for one in value):
        return {str(one["name"]): one for one in value}
    return value
