"""Were tables left alone between two marks? The trail knows (K4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anabranch.contracts import SourceConnector
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk, Part
from anabranch.trail.reader import TrailReader


@dataclass(frozen=True)
class TrailQuiet:
    """Picklable; opens the trail in the task that asks."""

    trail: Path
    source: SourceConnector

    def __call__(self, tables: frozenset[TableId], low: LogMark, high: LogMark) -> bool | None:
        """Return whether no transaction touched the tables between the two marks; None: capture has not reached `high`
        yet.

        Looks at whole chunks: a neighbour's transaction may be taken for one of a table's own, which costs another try.
        """
        order = self.source.order
        with TrailReader(self.trail) as trail:
            end = trail.end()
            if not order.includes(LogMark(end.position.native, end.resume), high.native, None):
                return None
            return not any(
                order.includes(high, native, gtid) and not order.includes(low, native, gtid)
                for chunk in _chunks_with(trail, tables)
                for native, gtid in _transactions(chunk)
            )


def _chunks_with(trail: TrailReader, tables: frozenset[TableId]) -> Iterator[Chunk]:
    """Yield chunks whose transactions may touch one of the tables; of a large transaction its last."""
    names = {str(table) for table in tables}
    seen: set[str] = set()
    for ref in trail.descriptors(trail.first() - 1, trail.end().position.sequence):
        seen.update(name for name, _ in ref.tables)
        if ref.part is not Part.FRAGMENT:
            if not names.isdisjoint(seen) or ref.has_barriers:
                yield trail.load(ref)
            seen = set()


def _transactions(chunk: Chunk) -> Iterator[tuple[str, str | None]]:
    """Yield the transactions of the source's log. A chunk that only brings in a definition is ours and is in no log."""
    if chunk.is_ours:
        return iter(())
    natives, gtids = (chunk.transactions.column(name).to_pylist() for name in ("native", "gtid"))
    return zip(natives, gtids, strict=True)
