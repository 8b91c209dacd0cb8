"""Was a table left alone between two marks? The trail knows (K4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anabranch.abc import SourceConnector
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk, Part
from anabranch.trail.reader import TrailReader


@dataclass(frozen=True)
class TrailQuiet:
    """Picklable; opens the trail in the task that asks."""

    trail: Path
    source: SourceConnector

    def __call__(self, table: TableId, low: LogMark, high: LogMark) -> bool | None:
        """None: capture has not come to `high` yet. Looks at whole chunks: a neighbour's transaction may be taken for the
        table's own, which costs another try."""
        order = self.source.order
        with TrailReader(self.trail) as trail:
            end = trail.end()
            if not order.includes(LogMark(end.position.native, end.resume), high.native, None):
                return None
            return not any(
                order.includes(high, native, gtid) and not order.includes(low, native, gtid)
                for chunk in _chunks_with(trail, table)
                for native, gtid in _transactions(chunk)
            )


def _chunks_with(trail: TrailReader, table: TableId) -> Iterator[Chunk]:
    """Chunks whose transactions may touch the table; of a large transaction its last."""
    seen: set[str] = set()
    for ref in trail.descriptors(trail.first() - 1, trail.end().position.sequence):
        seen.update(name for name, _ in ref.tables)
        if ref.part is not Part.FRAGMENT:
            if str(table) in seen or ref.has_barriers:
                yield trail.load(ref)
            seen = set()


def _transactions(chunk: Chunk) -> Iterator[tuple[str, str | None]]:
    """Those that change rows, and statements: a barrier of our own stands in no log."""
    columns = (chunk.transactions.column(name).to_pylist() for name in ("native", "gtid", "rows"))
    return ((native, gtid) for native, gtid, rows in zip(*columns, strict=True) if rows or gtid)
