"""Count what capture has read since it started, for `status`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.rows.chunk import BarrierKind, Chunk, Op, Part


@dataclass
class Counts:
    """Counts the transactions that the trail has as a whole, and their row changes (an update is one). `bytes`: written to the
    trail. `inside`: changes of a large transaction whose end has not come. `open`: transactions that wait for their end beside
    the trail, or in memory."""

    transactions: int = 0
    changes: int = 0
    bytes: int = 0
    inside: int = 0
    open: int = 0

    def appended(self, chunk: Chunk) -> None:
        self.inside += changes_of(chunk)
        if chunk.part is Part.FRAGMENT:
            return
        is_of_source = chunk.part is Part.LAST or chunk.tables or any(b.kind is _TRUNCATE for b in chunk.barriers)
        self.transactions += chunk.transactions.num_rows if is_of_source else 0
        self.changes, self.inside = self.changes + self.inside, 0

    def rewound(self) -> None:
        """Forget what is counted behind the last whole transaction: it is read again."""
        self.inside = 0

    def sums(self) -> dict[str, int]:
        return {
            "transactions_completed": self.transactions,
            "changes_read": self.changes,
            "bytes_written": self.bytes,
        }

    def gauges(self) -> dict[str, int]:
        return {"open_transactions": self.open, "open_changes": self.inside}


_TRUNCATE = BarrierKind.TRUNCATE


def changes_of(chunk: Chunk) -> int:
    """Count the row changes of a chunk. An update has two images and counts once, by the after image.

    Not by pyarrow.compute, of which capture needs nothing else: its import takes 10 MB and 50 ms."""
    return sum(int(np.count_nonzero(rows.batch.column(0).to_numpy() != int(Op.BEFORE))) for rows in chunk.tables)
