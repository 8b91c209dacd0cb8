"""Marks of the source's log as sequences of the trail, near its end: what a snapshot that was opened just now contains.

Everything up to a floor is known to be in every snapshot that is opened from now on, so only what lies behind it is
looked at. The log runs ahead of the engine (K2): that a transaction is in the trail, even at the target, does not say
that the source shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from anabranch.contracts import LogOrder, SourceCatalog
from anabranch.errors import TrailError
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Part
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.reader import TrailReader

POLL = 0.02  # seconds between two questions to the source


class Places:
    """Places in one trail. `floor`: everything up to this sequence is in whatever snapshot is opened next; None while nobody
    knows any."""

    def __init__(self, trail: TrailReader, order: LogOrder) -> None:
        self.trail, self.order = trail, order
        self.floor: int | None = None

    def find_floor(self, catalog: SourceCatalog, is_over: Callable[[], bool]) -> bool:
        """Wait until the source shows all that the trail has now. Returns False if `is_over` says so before."""
        floor, mark = self.trail.end().position.sequence, catalog.mark()
        left = catalog.transactions.unseen(mark)
        while left:
            if is_over():
                return False
            time.sleep(POLL)
            left &= catalog.transactions.unseen(mark)
        self.floor = max(floor, self.floor or 0)
        return True

    def is_reached(self, mark: LogMark) -> bool:
        """Return whether the trail has everything up to the mark."""
        end = self.trail.end()
        return bool(end.resume) and self.order.includes(LogMark(end.position.native, end.resume), mark.native, None)

    def low(self, mark: LogMark) -> int:
        """Return the last sequence up to which a snapshot has everything, as far as the trail goes now. The mark is its
        `low`."""
        last, behind = self._behind()
        outside = (seq for seq, native, gtid in behind if not self.order.includes(mark, native, gtid))
        return next(outside, last + 1) - 1

    def exact(self, mark: LogMark) -> int | None:
        """Return the sequence up to which a snapshot has everything, and nothing behind it; None where it has something behind
        what it lacks. The trail has reached the log's end as it was behind the snapshot. The mark is its `low`, and exact."""
        last, behind = self._behind()
        lacks = next((seq for seq, native, gtid in behind if not self.order.includes(mark, native, gtid)), None)
        has_more = any(self.order.includes(mark, native, gtid) for _, native, gtid in behind)
        return None if has_more else last if lacks is None else lacks - 1

    def high(self, mark: LogMark) -> int:
        """Return the last sequence that is before a mark, a place in the log that the trail has reached."""
        last, behind = self._behind()
        outside = (seq for seq, native, _ in behind if not self.order.includes(mark, native, None))
        return next(outside, last + 1) - 1

    def _behind(self) -> tuple[int, Iterator[tuple[int, str, str | None]]]:
        """Return the trail's last sequence, and the transactions of the source's log up to it, behind the floor."""
        if self.floor is None:
            raise TrailError("nobody knows yet what the source shows")
        end = self.trail.end().position.sequence
        refs = self.trail.descriptors(self.floor, end) if self.floor < end else []
        return end, (one for ref in refs if ref.part is not Part.FRAGMENT for one in self._transactions(ref))

    def _transactions(self, ref: ChunkRef) -> Iterator[tuple[int, str, str | None]]:
        """Yield a chunk's transactions behind the floor. One that only brings in a definition is ours and is in no log."""
        if ref.has_barriers and ref.rows == 0 and self.trail.load(ref).is_ours:
            return
        directory = self.trail.transactions(ref)
        natives, gtids = (directory.column(name).to_pylist() for name in ("native", "gtid"))
        for sequence, native, gtid in zip(
            range(ref.first_sequence, ref.last_sequence + 1), natives, gtids, strict=True
        ):
            if sequence > (self.floor or 0):
                yield sequence, native, gtid
