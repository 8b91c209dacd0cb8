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

from anabranch.config.changes import FORM, WHERE, Change, describe_change
from anabranch.config.job import ONLY, JobConfig
from anabranch.config.options import FORMER
from anabranch.databases import OPTIONS, SOURCE, TARGET

TARGETS = "targets"
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
    "types": EVERY,  # capture marks, or stops at, what will not be carried
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
# Keys that others read than the rest of their section.
READ_APART: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("apply", "on_error"): EVERY,
    ("load", "lock"): (LOAD, APPLY),
}
# What `describe_change` tells by names of its own, where it differs at all.
_DECIDED = {("rules",), ("types", "map"), ("ddl", "ghost_tables"), (TARGET, "form")}
_DECIDED_OF_TABLES = {("where",), ("columns", "drop"), ("columns", "rename"), ("columns", "type")}

KeyPath = tuple[str, ...]


class When(StrEnum):
    """Name what a change takes before it holds."""

    NEXT_COMMAND = "next_command"
    NEXT_START = "next_start"
    DECISION = "decision"
    ANOTHER_TARGET = "another_target"
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
    When.DECISION: "holds once `anabranch plan JOB --execute` has taken it over, which tells what becomes of the tables",
    When.ANOTHER_TARGET: "leads elsewhere: unless the job's state is there, it begins there anew",
    When.ANOTHER_JOB: "is refused for this job: put it back, or drop the job's state and load again",
}


def effects(before: tuple[str, JobConfig], after: tuple[str, JobConfig]) -> list[Effect]:
    """Return what the changes between two files of one job take, in the order of the file. Each is a text and what it says."""
    (old, was), (new, now) = before, after
    decided = [
        change
        for target in now.ends
        if target in was.ends
        for change in describe_change(was.fingerprint(target), now.fingerprint(target))
    ]
    found = [Effect(change.what, _when(change, now)) for change in decided]
    told = {change.what for change in decided}
    for path in _changed(_settled(old), _settled(new)):
        if not _is_decided(path, told):
            found.append(_effect(path, was, now))
    return list(dict.fromkeys(found))


def _when(change: Change, now: JobConfig) -> When:
    """Return what `anabranch plan` would say of it: objects at the source, and the form of messages, are made once."""
    is_made = change.role == SOURCE or (change.role == TARGET and now.has_messages)
    return When.ANOTHER_JOB if is_made or change.what in (WHERE, FORM) else When.DECISION


def _is_decided(path: KeyPath, told: set[str]) -> bool:
    """Return whether a key is one that `describe_change` tells, by a name of its own, or has found to be the same."""
    if path[:1] in _DECIDED or path[:2] in _DECIDED:
        return True
    if path[0] == "tables":
        return path[2:3] in _DECIDED_OF_TABLES or path[2:4] in _DECIDED_OF_TABLES
    if path == (SOURCE, "url"):
        return WHERE in told
    if path[0] == TARGETS and path[2:3] == (OPTIONS,):
        return _shown((TARGET, *path[2:])) in told
    return _shown(path) in told


def _effect(path: KeyPath, was: JobConfig, now: JobConfig) -> Effect:
    if path == ("name",):
        return Effect("name", When.ANOTHER_JOB)
    if path[0] == TARGETS and path[1] not in now.ends:
        return Effect(f"[[targets]] {path[1]}", When.DECISION)
    if path[0] in (TARGET, TARGETS) and path[-1] == "url" and _leads_elsewhere(path, was, now):
        return Effect(_shown(path), When.ANOTHER_TARGET)
    parts = EVERY if "zero_date" in path[3:4] else READ_APART.get(path, READ_BY.get(path[0], EVERY))
    return Effect(_shown(path), When.NEXT_START if parts else When.NEXT_COMMAND, parts)


def _leads_elsewhere(path: KeyPath, was: JobConfig, now: JobConfig) -> bool:
    name = path[1] if path[0] == TARGETS else ONLY
    old, new = was.ends.get(name), now.ends.get(name)
    if old is None or new is None:
        return False
    return (old.scheme, old.place, old.database) != (new.scheme, new.place, new.database)


def _settled(text: str) -> dict[str, Any]:
    """Return what a file says, with the options that stand at a former place where they stand today."""
    found = tomllib.loads(text)
    for (section, key), role in FORMER.items():
        if isinstance(found.get(section), dict) and key in found[section]:
            value = found[section].pop(key)
            if isinstance(found.get(role), dict):
                found[role].setdefault(OPTIONS, {}).setdefault(key, value)
    return found


def _listed(parts: tuple[str, ...]) -> str:
    *others, last = parts or ("",)
    return f"{', '.join(others)} and {last} start" if others else f"{last} starts"


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
