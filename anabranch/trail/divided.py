"""Notes changes of a table's partitions, whose definition stays, each by itself: a table may have many, and get another one
every hour, or lose one with its rows, which is a next version of the same definition.

What does not live here: lines of the history (history.py), who finds out (capture).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from anabranch.model.schema import Partition, TableSchema
from anabranch.trail.format import to_json


def change(then: TableSchema, latest: tuple[Partition, ...]) -> str:
    """Return what makes these partitions of those that the definition has; "" where they are the same."""
    gone, came = _without(then.partitions, latest), _without(latest, then.partitions)
    return _text(then, gone, came, latest) if gone or came else ""


def change_of_version(then: TableSchema, now: TableSchema) -> str:
    """Return what makes the next version of a definition that stays as it is but for its partitions; "" where more changes."""
    if now.version != then.version + 1:
        return ""
    gone, came = _without(then.partitions, now.partitions), _without(now.partitions, then.partitions)
    text = _text(then, gone, came, now.partitions)
    return text if next_of(then, text).to_json() == now.to_json() else ""  # also what comparing leaves out


def next_of(then: TableSchema, text: str) -> TableSchema:
    """Return the version that such a change makes of the one before. Raises KeyError, TypeError, ValueError."""
    if json.loads(text)["version"] != then.version:
        raise ValueError(f"it is not version {then.version} that it changes")
    return changed(then, text).with_version(then.version + 1)


def _text(then: TableSchema, gone: list[Partition], came: list[Partition], latest: tuple[Partition, ...]) -> str:
    if not _are_parents_first(_changed(then.partitions, gone, came)):
        gone, came = list(then.partitions), list(latest)
    found = {
        "version": then.version,
        "gone": [[part.oid, part.name] for part in gone],
        "came": [part.to_json() for part in came],
    }
    return to_json(found).decode()


def changed(then: TableSchema, text: str) -> TableSchema:
    """Return the definition with the partitions that a change makes of those that it has, if that is of its version. Raises
    KeyError, TypeError, ValueError."""
    found = json.loads(text)
    if found["version"] != then.version:
        return then
    gone = {(oid, name) for oid, name in found["gone"]}
    lost = [part for part in then.partitions if (part.oid, part.name) in gone]
    return replace(then, partitions=_changed(then.partitions, lost, list(map(Partition.from_json, found["came"]))))


def _changed(then: Sequence[Partition], gone: Sequence[Partition], came: Sequence[Partition]) -> tuple[Partition, ...]:
    return *_without(then, gone), *came


def _without(parts: Sequence[Partition], others: Sequence[Partition]) -> list[Partition]:
    """Return those that are not among the others. A table may have thousands: only such as have the same name are compared."""
    by_name: dict[tuple[int, str], list[Partition]] = {}
    for one in others:
        by_name.setdefault((one.oid, one.name), []).append(one)
    return [part for part in parts if part not in by_name.get((part.oid, part.name), ())]


def _are_parents_first(parts: Sequence[Partition]) -> bool:
    names, seen = {part.name for part in parts}, set[str]()
    for part in parts:
        if part.parent in names - seen:
            return False
        seen.add(part.name)
    return True
