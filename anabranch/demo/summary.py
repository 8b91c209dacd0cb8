"""The summary that the demo prints at its end. What does not live here: measuring and comparing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.demo.following import Streamed
from anabranch.errors import DifferencesFound, TablesParked

SHOWN = 5  # differences of a table


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of a demo. `status` and `verification` are the JSON of the commands of these names."""

    status: Mapping[str, Any]
    verification: Mapping[str, Any]
    streamed: Streamed

    @property
    def exit_code(self) -> int:
        """0 only if every table of the shop was compared and is equal."""
        if not self.verification["identical"]:
            return DifferencesFound.exit_code
        return TablesParked.exit_code if self.verification["parked"] or not self.verification["tables"] else 0

    def lines(self) -> list[str]:
        return [*self._figures(), *self._verdict()]

    def _figures(self) -> list[str]:
        streamed, writer, tables = self.streamed, self.streamed.writer, self._tables()
        loaded = sum(table["rows_loaded"] for table in tables)
        changes = sum(table["changes_applied"] for table in tables)
        return [
            f"loaded      {loaded:,} rows of {len(tables)} tables; streaming {streamed.load_seconds:.0f} s after the start",
            f"applied     {streamed.transactions:,} transactions, {changes:,} changes",
            f"caught up   {self._caught_up()}",
            f"streamed    {self._steady()}",
            f"the writer  {writer.committed:,} committed, {writer.rolled_back:,} rolled back, "
            f"{writer.refused:,} refused (deadlocks and the like)",
        ]

    def _caught_up(self) -> str:
        """Say when the stream had caught up. Transactions written while Spark started and the tables were loaded waited
        for that, not for the stream, so they are counted apart."""
        found, after = self.streamed.catching_up, self.streamed.caught_up_after
        if after is None:
            return "not within a second of the writer"
        oldest = (found.percentile(1.0) or 0) / 1000
        return (
            f"within a second of the writer after {after:.0f} s of streaming: {found.total:,} transactions, written since "
            f"the start, the oldest {oldest:.0f} s before it was visible"
        )

    def _steady(self) -> str:
        """Say how long transactions took, from the moment when the stream had caught up and the tables were complete."""
        found, begun = self.streamed.latencies, self.streamed.steady_after
        if begun is None or not found.total:
            return f"for {self.streamed.stream_seconds:.0f} s, never steadily: latency not measured"
        p50, p99 = found.percentile(0.5), found.percentile(0.99)
        return (
            f"for {self.streamed.stream_seconds - begun:.0f} s from then on, indexes and foreign keys in place: "
            f"latency p50 {p50} ms, p99 {p99} ms ({found.total:,} transactions, writer's clock to visible)"
        )

    def _verdict(self) -> list[str]:
        tables = self.verification["tables"]
        equal = [table for table in tables if table["identical"]]
        parked = self.verification["parked"]
        total = len(tables) + len(parked)
        rows = sum(table["rows_source"] for table in equal)
        return [
            *(line for table in tables if not table["identical"] for line in _different(table)),
            *(f"PARKED      {table['source']}: {table['reason']}" for table in parked),
            f"identical:  {len(equal)} of {total} tables ({rows:,} rows compared)",
        ]

    def _tables(self) -> list[Mapping[str, Any]]:
        return [table for target in self.status["targets"] for table in target["tables"]]


def _different(table: Mapping[str, Any]) -> list[str]:
    counts = ", ".join(f"{table[what]} {what}" for what in ("missing", "extra", "different") if table[what])
    shown = [f"            {one['kind']} {one['key'] or one['copies']}" for one in table["sample"][:SHOWN]]
    return [f"DIFFERENT   {table['source']}: {counts}", *shown]
