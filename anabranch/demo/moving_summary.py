"""The summary of the demo of a DMZ. What does not live here: measuring (moving.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.demo.latency import Distribution
from anabranch.demo.writer import Totals
from anabranch.errors import DifferencesFound, TablesParked


@dataclass(frozen=True, slots=True)
class Cut:
    """A router that was gone for `seconds`; `waiting`: transactions that had not come through when it was back;
    `caught_up`: seconds from then on until the target was within a second of the source."""

    seconds: float
    waiting: int
    caught_up: float


@dataclass(frozen=True, slots=True)
class MovedSummary:
    """The results. `status`: of the job that applies; `verification`: of a job that reaches both ends, both as JSON of these
    commands; `legs`: hops with seconds there and back; `lost`: committed transactions that the target has not."""

    status: Mapping[str, Any]
    verification: Mapping[str, Any]
    writer: Totals
    latencies: Distribution
    legs: Sequence[tuple[str, float]]
    cut: Cut
    load_seconds: float
    lost: int

    @property
    def exit_code(self) -> int:
        """0 only if every table was compared and is equal, and no transaction is lost."""
        if not self.verification["identical"] or self.lost:
            return DifferencesFound.exit_code
        return TablesParked.exit_code if self.verification["parked"] or not self.verification["tables"] else 0

    def lines(self) -> list[str]:
        tables, parked = self.verification["tables"], self.verification["parked"]
        applied = [table for target in self.status["targets"] for table in target["tables"]]
        equal = [table for table in tables if table["identical"]]
        different = [f"DIFFERENT   {table['source']}" for table in tables if not table["identical"]]
        hops = ", ".join(f"{name} {1000 * leg:.1f} ms" for name, leg in self.legs)
        return [
            f"loaded      {sum(one['rows_loaded'] for one in applied):,} rows of {len(applied)} tables through the trail, "
            f"in {self.load_seconds:.0f} s",
            f"hops        {hops}, there and back",
            f"streamed    {self._latency()}",
            f"the cut     {self.cut.seconds:.1f} s without a router, {self.cut.waiting:,} transactions waited; "
            f"caught up {self.cut.caught_up:.1f} s after its start",
            f"the writer  {self.writer.committed:,} committed, {self.writer.rolled_back:,} rolled back, "
            f"{self.writer.refused:,} refused (deadlocks and the like)",
            f"lost        {self.lost}",
            *different,
            *(f"PARKED      {table['source']}: {table['reason']}" for table in parked),
            f"identical:  {len(equal)} of {len(tables) + len(parked)} tables "
            f"({sum(table['rows_source'] for table in equal):,} rows compared)",
        ]

    def _latency(self) -> str:
        found = self.latencies
        if not found.total:
            return "too short to measure a latency"
        return (
            f"latency p50 {found.percentile(0.5)} ms, p99 {found.percentile(0.99)} ms before the cut "
            f"({found.total:,} transactions, writer's clock to visible)"
        )
