"""Flows of a job: what passes each arrow of its pipeline in a second, and how long its loads still take.

A flow is that of the seconds in which somebody looked. What does not live here: what is kept for months (`statistics.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.manager.rates import NOT_KNOWN, Rate, Remaining, remaining

LOAD_S = 60.0  # rows of a load are counted piece by piece: a rate of less would jump


@dataclass(frozen=True)
class TargetFlow:
    """The flow into a target: changes a second; rows of its whole load, and of each table. None where nobody knows yet."""

    changes: float | None = None
    load: Remaining = NOT_KNOWN
    tables: Mapping[str, Remaining] = field(default_factory=dict)


@dataclass(frozen=True)
class Flow:
    """The flow of a second: changes that capture reads, bytes that it writes to the trail, and what each target gets."""

    changes: float | None = None
    written: float | None = None
    targets: tuple[TargetFlow, ...] = ()


class _TargetRates:
    """The rates of one target."""

    def __init__(self) -> None:
        self._changes, self._load = Rate(), _of_load()
        self._tables: dict[str, Rate] = {}

    def after(self, now: float, snapshot: Mapping[str, Any]) -> TargetFlow:
        """Return the flow. Nothing is told of loads while there is none."""
        changes = self._changes.after(now, counted(snapshot, "apply", "changes_applied"))
        loading = snapshot["progress"] if snapshot["phase"] == "loading" else {}
        if not loading:
            self._load, self._tables = _of_load(), {}
            return TargetFlow(changes)
        tables = {
            table: remaining(self._rate(table).after(now, one["done"]), one["done"], one["total"])
            for table, one in loading.items()
        }
        done = sum(one["done"] for one in loading.values())
        left = sum(
            max(0, (one["total"] or 0) - one["done"]) for one in loading.values()
        )  # of each: an estimate may be too low
        return TargetFlow(changes, remaining(self._load.after(now, done), done, done + left), tables)

    def _rate(self, table: str) -> Rate:
        return self._tables.setdefault(table, _of_load())


def _of_load() -> Rate:
    return Rate(LOAD_S, is_of_work=False)


class Flows:
    """The flows of one job, asked for again and again by one thread."""

    def __init__(self) -> None:
        self._changes, self._written = Rate(), Rate()
        self._targets: list[_TargetRates] = []

    def after(self, now: float, snapshots: Sequence[Mapping[str, Any]]) -> Flow:
        """Return the flow. `now`: monotonic seconds; `snapshots`: of state.db, one for each target, capture's in the first."""
        if len(self._targets) != len(snapshots):
            self._targets = [_TargetRates() for _ in snapshots]
        return Flow(
            self._changes.after(now, counted(snapshots[0], "capture", "changes_read")),
            self._written.after(now, counted(snapshots[0], "capture", "bytes_written")),
            tuple(rates.after(now, one) for rates, one in zip(self._targets, snapshots, strict=True)),
        )


def counted(snapshot: Mapping[str, Any], part: str, name: str) -> int | None:
    """Return what a part has counted since it started; None before it has."""
    found = snapshot["counters"].get(part, {}).get(name)
    return int(found["value"]) if found else None
