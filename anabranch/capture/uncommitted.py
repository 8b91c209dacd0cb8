"""Transactions that are open in a log of uncommitted work: their rows wait in memory, and on disk beside the trail where
they are large or old (K6), and enter the trail where they are committed.

The trail's position names two places: up to where the log is read, and where reading begins again, which is before the first
row that is in memory only. So a restart reads again what the limits let wait, not what the oldest transaction began with.
A log that gives what is open again by itself, from its beginning, needs none of that: its position is one place, and a start
forgets what is on disk. What does not live here: the files (`trail/open_staging.py`), how a log says it (each connector).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from anabranch import log
from anabranch.capture.definitions import DefinitionKeeper
from anabranch.capture.prepared import entering
from anabranch.contracts import LogReader, UncommittedReader
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk
from anabranch.rows.log_items import LogItem
from anabranch.rows.uncommitted import LogChanges, LogEnded, LogTakenBack
from anabranch.trail.regroup import before_ordinal, ordinals, shifted
from anabranch.trail.writer import TrailWriter


@dataclass(frozen=True)
class MemoryLimits:
    """`bytes` of all rows in memory, as Arrow; `seconds` that a transaction's rows are in memory only."""

    bytes: int = 50 << 20
    seconds: float = 120.0


LIMITS = MemoryLimits()


@dataclass
class _Held:
    """The part of a transaction that is in memory: rows of the log from `low` to `upto`."""

    since: float
    low: LogMark
    upto: LogMark
    chunks: list[Chunk] = field(default_factory=list)
    size: int = 0
    left_out: set[TableId] = field(default_factory=set)


class OpenTransactions:
    """Takes what the reader says about them; gives chunks for the trail, and the place where reading would begin again.

    Delivery: a transaction enters the trail once, whole, where it was committed, whatever dies in between."""

    def __init__(
        self,
        trail: TrailWriter,
        keeper: DefinitionKeeper,
        reader: LogReader,
        limits: MemoryLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trail, self._keeper, self._limits, self._clock = trail, keeper, limits, clock
        self._staging, self._order = trail.open_staging, keeper.source.order
        self._reader = reader if isinstance(reader, UncommittedReader) else None
        self._held: dict[str, _Held] = {}  # in the order of their first rows
        self._size = 0
        self._last: LogMark | None = None  # behind what was read last, past the trail's place
        self._behind: LogMark | None = None  # the trail's place at the start, until something behind it has come

    def __len__(self) -> int:
        """Count the transactions whose end has not come."""
        return len(self._held.keys() | {one.xid for one in self._staging.all()})

    def rewind(self, end: LogMark) -> None:
        """Prepare for reading the log again from `end`, up to which the trail has everything durably.

        What is on disk is not read again, unless the log sends all of it again.
        """
        self._held, self._size, self._last = {}, 0, None
        if self._reader is None:
            self._forget_all()
            return
        self._behind = end
        for xid, ended in list(self._staging.ended.items()):
            if xid in self._staging and self._includes(end, self._order.mark(ended)):
                self._staging.remove(xid)
        self._reader.keep({one.xid: self._order.mark(one.upto) for one in self._staging.all()})

    def was_before(self, item: LogItem) -> bool:
        """Return whether the trail has the item already: what is read again for the rows of others comes a second time."""
        if self._reader is None or isinstance(item, Chunk):
            return False
        if self._behind is None or not self._includes(self._behind, item.mark):
            self._behind, self._last = None, item.mark
            return False
        if isinstance(item, LogEnded):
            self._forget(item.xid)
            if item.xid in self._staging and self._includes(item.mark, self._order.mark(self._staging[item.xid].upto)):
                self._staging.remove(item.xid)  # else the id was used again, and what is kept is of the later one
        return not isinstance(item, LogChanges)  # those are for what is open

    def take(self, item: LogChanges) -> None:
        """Keep a part of one. Raises StorageFull."""
        left_out = {t for t in item.left_out if self._keeper.wanted(t)}
        if not (item.chunk.tables or item.chunk.barriers or left_out):
            return
        held = self._held.setdefault(item.xid, _Held(self._clock(), item.low, item.mark))
        held.chunks.append(item.chunk)
        held.upto, held.size = item.mark, held.size + _size(item.chunk)
        held.left_out |= left_out
        self._size += _size(item.chunk)
        if left_out - self._known_left_out(item.xid):
            self._keep(item.xid)  # where a table that joins looks for it

    def take_back(self, item: LogTakenBack) -> None:
        """Remove the rows behind a savepoint that the transaction rolled back to."""
        held = self._forget(item.xid)
        if held is not None:
            held.chunks = [cut for chunk in held.chunks if ordinals(cut := before_ordinal(chunk, item.first))]
            held.size = sum(map(_size, held.chunks))
        if held is not None and held.chunks:
            self._held[item.xid] = held
            self._size += held.size
        elif item.xid in self._staging:
            self._staging.take_back(item.xid, item.first)

    def keep_large(self) -> LogMark | None:
        """Write the largest transactions to disk until memory is below its limit. Returns as `keep_all`. Raises StorageFull."""
        is_kept = False
        while self._size > self._limits.bytes:
            self._keep(max(self._held, key=lambda xid: self._held[xid].size))
            is_kept = True
        return self._last if is_kept else None

    def keep_old(self) -> LogMark | None:
        """Move to disk what has been in memory only for too long. A transaction that somebody forgot to end holds no memory
        then, and a log that does not give it again is not read from its beginning. Returns as `keep_all`. Raises
        StorageFull."""
        oldest = self._clock() - self._limits.seconds
        old = [xid for xid, held in self._held.items() if held.since <= oldest]
        for xid in old:
            self._keep(xid)
        return self._last if old else None

    def keep_all(self) -> LogMark | None:
        """Write all open transactions to disk, so that the next start reads none of them again.

        Returns how far the log is read, if that moves the place where reading begins again. Raises StorageFull.
        """
        if self._reader is None:
            self._forget_all()
            return None
        every = list(self._held)
        for xid in every:
            self._keep(xid)
        return self._last if every else None

    def resumed(self, chunk: Chunk) -> Chunk:
        """Return the chunk with that place just after it."""
        if not (self._held and chunk.resume):
            return chunk
        return replace(chunk, resume=self.placed(self._order.mark(chunk.resume)).resume)

    def placed(self, mark: LogMark) -> LogMark:
        """Return `mark` as the trail's place, with where reading begins again for what is in memory only."""
        if self._reader is None or not self._held:
            return mark
        return self._reader.order.since(mark, next(iter(self._held.values())).low)

    def end(self, item: LogEnded) -> Iterator[Chunk]:
        """Yield the chunks that enter the trail where a transaction was committed. Call `done` when they are durable."""
        held = self._forget(item.xid)
        is_staged = item.xid in self._staging
        if is_staged and self._reader is not None:
            self._staging.end(item.xid, item.mark)
        if not item.is_committed:
            return
        staged = self._staging.chunks(item.xid) if is_staged else iter(())
        left_out = {str(table) for table in held.left_out} if held else set()
        left_out |= set(self._staging[item.xid].left_out) if is_staged else set()
        what = f"rows of the transaction {item.xid} were left out while it was open"
        chunks = _numbered([staged, held.chunks if held else ()])
        yield from entering(
            self._trail, self._keeper, chunks, left_out, what, replace(item, mark=self.placed(item.mark))
        )

    def done(self, item: LogEnded) -> None:
        """Remove a transaction that was rolled back, or that is durable in the trail."""
        if item.xid in self._staging:
            self._staging.remove(item.xid)

    def _keep(self, xid: str) -> None:
        held = self._held[xid]
        now = time.time_ns() // 1000
        self._staging.keep(xid, held.chunks, held.low, held.upto, now, held.left_out)
        log.get().info("transaction_staged", xid=xid, bytes=held.size, upto=held.upto.native)
        self._forget(xid)
        reach("capture.kept")

    def _forget(self, xid: str) -> _Held | None:
        held = self._held.pop(xid, None)
        self._size -= held.size if held else 0
        return held

    def _forget_all(self) -> None:
        for one in self._staging.all():
            self._staging.remove(one.xid)

    def _known_left_out(self, xid: str) -> set[TableId]:
        return set(map(TableId.parse, self._staging[xid].left_out)) if xid in self._staging else set()

    def _includes(self, state: LogMark, mark: LogMark) -> bool:
        return self._order.includes(state, mark.native, None)


def _size(chunk: Chunk) -> int:
    return sum(rows.batch.nbytes for rows in chunk.tables)


def _numbered(parts: Iterable[Iterable[Chunk]]) -> Iterator[Chunk]:
    """Yield the chunks with ordinals that rise over all of them: a reader that began again counted from 0."""
    following = 0
    for chunks in parts:
        for chunk in chunks:
            if (found := ordinals(chunk)) is not None:
                shift = following - found[0]
                following = found[1] + shift + 1
                yield shifted(chunk, shift)
