"""Transactions that are open in a log of uncommitted work: their rows wait in memory, and on disk beside the trail where
they are large or old (AT-53, AT-56, GG-14, GG-15, DM-69), and enter the trail where they are committed.

The trail's position names two places: up to where the log is read, and where reading begins again, which is before the first
row that is in memory only. So a restart reads again what the limits let wait, not what the oldest transaction began with.
What does not live here: the files (`trail/open_staging.py`), how a log says it (each connector).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from anabranch import log
from anabranch.abc import LogItem, LogReader
from anabranch.capture.definitions import DefinitionKeeper, alone
from anabranch.capture.prepared import entering
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import META_FIELDS, Chunk
from anabranch.rows.uncommitted import LogChanges, LogEnded, UncommittedReader
from anabranch.trail.writer import TrailWriter

_ORDINAL = [f.name for f in META_FIELDS].index("_ordinal")


@dataclass(frozen=True)
class Limits:
    """`bytes` of all rows in memory, as Arrow; `seconds` that a transaction's rows are in memory only."""

    bytes: int = 50 << 20
    seconds: float = 120.0


LIMITS = Limits()


@dataclass
class _Held:
    """What is in memory of one transaction: rows of the log from `low` to `upto`."""

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
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trail, self._keeper, self._limits, self._clock = trail, keeper, limits, clock
        self._staging, self._order = trail.open_staging, keeper.source.order
        self._reader = reader if isinstance(reader, UncommittedReader) else None
        self._held: dict[str, _Held] = {}  # in the order of their first rows
        self._size = 0
        self._last: LogMark | None = None  # behind what was read last, past the trail's place
        self._behind: LogMark | None = None  # the trail's place at the start, until something behind it has come

    def rewind(self, end: LogMark) -> None:
        """The log is read again: what the trail has up to `end`, durably, is over; what is on disk need not come again."""
        self._held, self._size, self._last = {}, 0, None
        if self._reader is None:
            return
        self._behind = end
        for xid, ended in list(self._staging.ended.items()):
            if xid in self._staging and self._includes(end, self._order.mark(ended)):
                self._staging.remove(xid)
        self._reader.keep({one.xid: self._order.mark(one.upto) for one in self._staging.all()})

    def was_before(self, item: LogItem) -> bool:
        """Does the trail have it already? What is read again for the rows of others comes a second time."""
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

    def take(self, item: LogChanges) -> Chunk | None:
        """Keep a part of one. Returns what happens to tables at that place, as for prepared ones."""
        size = sum(rows.batch.nbytes for rows in item.chunk.tables)
        barriers = () if self._behind is not None else item.chunk.barriers  # the trail is past this place already
        left_out = {t for t in item.left_out if self._keeper.wanted(t)} | {b.table for b in barriers}
        if not (size or left_out):
            return None
        held = self._held.setdefault(item.xid, _Held(self._clock(), item.low, item.mark))
        if size:
            held.chunks.append(replace(item.chunk, barriers=()))
        held.upto, held.size = item.mark, held.size + size
        held.left_out |= left_out
        self._size += size
        if left_out - self._known_left_out(item.xid):
            self._keep(item.xid)  # where a table that joins looks for it
        return self._keeper.on_chunk(alone([replace(b, tx=0) for b in barriers], item.mark, None)) if barriers else None

    def keep_large(self) -> LogMark | None:
        """Beyond the limit of memory the largest go to disk. Returns as `keep_all`. Raises StorageFull."""
        is_kept = False
        while self._size > self._limits.bytes:
            self._keep(max(self._held, key=lambda xid: self._held[xid].size))
            is_kept = True
        return self._last if is_kept else None

    def keep_old(self) -> LogMark | None:
        """Those whose rows have been in memory only for too long. Returns as `keep_all`. Raises StorageFull."""
        oldest = self._clock() - self._limits.seconds
        old = [xid for xid, held in self._held.items() if held.since <= oldest]
        for xid in old:
            self._keep(xid)
        return self._last if old else None

    def keep_all(self) -> LogMark | None:
        """A stop that is in order: nothing of them is read again. Returns up to where the log is read, if that moves the place
        where reading begins again. Raises StorageFull."""
        every = list(self._held)
        for xid in every:
            self._keep(xid)
        return self._last if every else None

    def resumed(self, chunk: Chunk) -> Chunk:
        """The chunk with that place just after it."""
        if not (self._held and chunk.resume):
            return chunk
        return replace(chunk, resume=self.placed(self._order.mark(chunk.resume)).resume)

    def placed(self, mark: LogMark) -> LogMark:
        """`mark` as the trail's place: with where reading begins again for what is in memory only."""
        if self._reader is None or not self._held:
            return mark
        return self._reader.order.since(mark, next(iter(self._held.values())).low)

    def end(self, item: LogEnded) -> Iterator[Chunk]:
        """What enters the trail where one was committed. Call `done` when it is durable."""
        held = self._forget(item.xid)
        is_staged = item.xid in self._staging
        if is_staged:
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
        """It was rolled back, or what `end` gave is durable."""
        if item.xid in self._staging:
            self._staging.remove(item.xid)

    def _keep(self, xid: str) -> None:
        held = self._held[xid]
        now = time.time_ns() // 1000
        self._staging.keep(xid, held.chunks, held.low, held.upto, now, held.left_out)
        log.get().info("transaction_staged", xid=xid, bytes=held.size, upto=held.upto.native)
        self._forget(xid)

    def _forget(self, xid: str) -> _Held | None:
        held = self._held.pop(xid, None)
        self._size -= held.size if held else 0
        return held

    def _known_left_out(self, xid: str) -> set[TableId]:
        return set(map(TableId.parse, self._staging[xid].left_out)) if xid in self._staging else set()

    def _includes(self, state: LogMark, mark: LogMark) -> bool:
        return self._order.includes(state, mark.native, None)


def _numbered(parts: Iterable[Iterable[Chunk]]) -> Iterator[Chunk]:
    """With ordinals that rise over all of them: a reader that began again counted anew."""
    following = 0
    for chunks in parts:
        for chunk in chunks:
            columns = [rows.batch.column(_ORDINAL).to_numpy() for rows in chunk.tables if rows.batch.num_rows]
            if not columns:
                continue
            shift = following - min(int(column[0]) for column in columns)
            following = max(int(column[-1]) for column in columns) + shift + 1
            tables = (replace(rows, batch=_shifted(rows.batch, shift)) for rows in chunk.tables)
            yield replace(chunk, tables=tuple(tables))


def _shifted(batch: pa.RecordBatch, by: int) -> pa.RecordBatch:
    if not by:
        return batch
    columns = batch.columns
    columns[_ORDINAL] = pa.array(batch.column(_ORDINAL).to_numpy() + np.int64(by))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
