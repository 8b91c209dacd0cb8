"""The capture loop: what the log gives goes into the trail, durable before anything else is read.

Delivery: everything committed after the trail's first position is in the trail once and in log order; the source is
never told of a position that the trail does not hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeGuard

from anabranch import log, pace
from anabranch.capture.begin import Wanted, begin
from anabranch.capture.counts import Counts
from anabranch.capture.definitions import DefinitionKeeper, alone
from anabranch.capture.newcomers import Newcomers
from anabranch.capture.older import PATIENCE, OlderPatience
from anabranch.capture.prepared import PreparedTransactions
from anabranch.capture.replaced import ReplacedColumns
from anabranch.capture.uncommitted import LIMITS, MemoryLimits, OpenTransactions
from anabranch.capture.unlogged import altered_unlogged
from anabranch.capture.went import WentRows, note_divided, note_part
from anabranch.contracts import (
    Divided,
    Drift,
    LogReader,
    PartedReader,
    RedefinedReader,
    Rekeyed,
    RowsWent,
    SourceConnector,
    ValueGuard,
)
from anabranch.errors import AnabranchError, SourceUnavailable, StorageFull
from anabranch.failpoints import reach
from anabranch.model.column_changes import FOLLOWS_NOTHING, TOLD_BY_ROWS, ColumnChange, Follows
from anabranch.model.condition import Waiting
from anabranch.model.endpoint import EndLimits
from anabranch.model.ghost_names import GhostNames
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark, Position
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import BarrierKind, Chunk, Part
from anabranch.rows.log_items import (
    LogAbandoned,
    LogDecided,
    LogIdle,
    LogItem,
    LogPrepared,
    LogRedefined,
    LogStatement,
)
from anabranch.rows.uncommitted import LogChanges, LogEnded, LogTakenBack
from anabranch.trail.codec import last_place
from anabranch.trail.writer import TrailEnd, TrailWriter

FEW, FEW_SECONDS = 20, 0.002  # transactions in a flush, after which more are waited for: each costs the disk's time
SOON_SECONDS = 1.0  # before a look at what became of the tables, once a statement has dropped or renamed one


RETRY = EndLimits(interval=1.0)


class CaptureWatcher(Protocol):
    """A receiver of capture's progress."""

    def follows(self, decoder: str) -> None:
        """Note that the log is open, and which decoder reads it."""

    def read(self, position: Position, commit_time: int) -> None:
        """Note that the log is read up to `position`; that much is not durable yet."""

    def log_end(self, mark: LogMark) -> None:
        """Note where the source's log ends at this moment."""

    def at_end(self, trail: TrailWriter) -> None:
        """Note that the source has nothing at this moment that the trail lacks."""

    def written(self, trail: TrailWriter) -> None: ...

    def waiting(self, why: str, on: Waiting | AnabranchError) -> None:
        """Note that capture waits. `on`: what for, in one word, or the error behind it."""


@dataclass
class Capture:
    """A run of capture over an open trail. `stop` is asked between reads."""

    source: SourceConnector
    reader: LogReader
    trail: TrailWriter
    wanted: Wanted
    stop: Callable[[], bool]
    watcher: CaptureWatcher
    followed: str  # identity of the server that the trail was read from
    refuse_switch: Callable[[str, str], None]  # (followed, now): raises while the trail must not be read from another
    staging_timeout: float = (
        PATIENCE  # seconds that prepared transactions may hold up a beginning trail, a joining table
    )
    limits: MemoryLimits = LIMITS  # of rows of open transactions in memory
    prepare: Callable[[Mapping[TableId, TableSchema]], object] = lambda tables: None  # at the source, for these tables
    drift: Callable[[Mapping[TableId, TableSchema]], Mapping[TableId, Drift]] = lambda tables: {}
    guard: ValueGuard | None = None  # looks at rows before they enter the trail
    follows: Follows = FOLLOWS_NOTHING  # the kinds of changes behind which a table goes on
    ghosts: GhostNames = GhostNames()  # noqa: RUF009 - a value: how copies are called that tools swap tables with
    tools: GhostNames = GhostNames()  # noqa: RUF009 - as above: also where swaps are not followed
    shares: Callable[[TableId, Iterable[TableId]], bool] = lambda table, others: False  # a target table
    keeps_changes: bool = False  # the target: no load brings a parked table in
    takes_over: bool = False  # the job takes its tables as they stand: no load, either
    retry: EndLimits = RETRY  # how long the source is waited for
    waits_at_start: bool = False  # also for a source that was never reached: who started this has reached it
    counts: Counts = field(default_factory=Counts)
    counted: Callable[[Counts], None] = lambda counts: None  # told of it now and then

    def run(self) -> None:
        """Run until `stop` says so. Raises what a person has to look at.

        A lost connection is retried as `retry` says; one that never existed only if `waits_at_start`.
        """
        patience = OlderPatience(
            self.staging_timeout, self.stop, lambda why: self._tell_waiting(f"for {why}", Waiting.OTHERS)
        )
        begin(self.source, self.reader, self.trail, self.wanted, patience)
        self.keeper = DefinitionKeeper(
            self.source,
            self.trail,
            self.wanted,
            self.reader.reselect,
            self.staging_timeout,
            self.prepare,
            self.follows,
            self.ghosts,
            self.shares,
            self.tools,
            self.keeps_changes,
            self.takes_over,
        )
        self.newcomers = Newcomers(self.source, self.trail, self.wanted)
        self.replaced, self.went = ReplacedColumns(self.source), WentRows(self.source)
        self.prepared = PreparedTransactions(self.trail, self.keeper)
        self.open = OpenTransactions(self.trail, self.keeper, self.reader, self.limits)
        with closing(self.keeper.kept):
            self._run()

    def _run(self) -> None:
        lost_since: float | None = None
        tries = 0  # since it was lost
        was_there = self.waits_at_start
        while not self.stop():
            try:
                self.keeper.kept.close()  # the next one may be another server's
                self._rewind()
                self.trail.flush()  # what was appended, and could not be flushed, is in the trail: it is not read again
                in_force = self.trail.history.in_force()
                unlogged = altered_unlogged(self.source, self.reader, self._place(), in_force, self.stop, self._told)
                self.open.rewind(self._place())
                if isinstance(self.reader, RedefinedReader):
                    self.reader.expect_former(*self.keeper.just_altered(self._place()))
                self.reader.start(self._place(), self.keeper.select)
                end = self.trail.appended
                lost_since, was_there, tries = None, True, 0
                log.get().info("capture_follows", after=str(end.position), decoder=self.reader.decoder)
                self.watcher.follows(self.reader.decoder)
                reach("capture.following")
                is_same = self._take_over(self.reader.identity())
                self._note_cascades()
                self._park_at_start(unlogged.tables)
                self.keeper.look_ahead(unlogged.found if is_same else None)
                self._look_for_newcomers()
                self._follow()
            except SourceUnavailable as lost:
                lost_since, tries = lost_since or time.monotonic(), tries + 1
                is_over = time.monotonic() - lost_since > self.retry.away or tries > self.retry.tries
                if not was_there or is_over:
                    raise
                self._pause(f"source lost: {lost.message}", lost)
            except StorageFull as full:
                self._pause(f"disk full: {full.message}", full)

    def _park_unlogged(self, tables: list[TableId]) -> None:
        chunk = self.keeper.park_unlogged(tables, self._place())
        if chunk is not None:
            self._write(chunk)

    def _park_drifted(self) -> None:
        """Park tables whose definition at the source no longer fits, at the place that is read: rows before it are as
        they were.

        The source is asked over another connection than the log's; where that one is away, nothing is parked.
        """
        with suppress(SourceUnavailable):
            drifted = self.drift(self.trail.history.in_force())
            self._leave_lost_keys(drifted)
            self._leave_drifted(drifted)

    def _park_at_start(self, tables: list[TableId]) -> None:
        """Park tables that were altered while nobody read the log. Keys that went with them go first, since they connect the
        tables with no other one any more."""
        drifted: Mapping[TableId, Drift] = {}
        with suppress(SourceUnavailable):  # it is away: a later look tells
            drifted = self.drift(self.trail.history.in_force()) if tables else {}
            self._leave_lost_keys(drifted)
        self._park_unlogged(tables)
        with suppress(SourceUnavailable):  # as above
            self._leave_drifted(drifted)  # a finding of a look may be in no later one

    def _leave_lost_keys(self, drifted: Mapping[TableId, Drift]) -> None:
        for found in drifted.values():
            if isinstance(found, Rekeyed) and not found.has_come:  # rows behind this place may ask for it
                self._write(alone(self.keeper.rekeyed(found.schema), self._place(), None))

    def _leave_drifted(self, drifted: Mapping[TableId, Drift]) -> None:
        for table, found in drifted.items():  # behind lost keys: these connect it with no other table any more
            if isinstance(found, str) and table in self.trail.history.in_force():  # not parked with another one
                self._write(alone(self.keeper.park([table], found), self._place(), None))
        for found in drifted.values():
            if isinstance(found, Divided):
                note_divided(self.trail, found.schema)
        self.trail.flush()
        self.went.found({table: found for table, found in drifted.items() if _is_of_a_place(found)})

    def _note_parts(self) -> None:
        """Note partitions that what is read has rows of, before these rows are in the trail: they may be gone by now."""
        for table, part in self.reader.parts() if isinstance(self.reader, PartedReader) else ():
            note_part(self.trail, table, part)

    def _park_untold(self) -> None:
        """Park tables with keys or defaults that the log has not told of, at the place that is read."""
        with suppress(SourceUnavailable):
            chunk = self.keeper.park_untold(self._place())
            if chunk is not None:
                self._write(chunk)

    def _look_for_newcomers(self) -> None:
        with suppress(SourceUnavailable):
            self.newcomers.look()

    def _look_for_replaced(self) -> None:
        with suppress(SourceUnavailable):
            self.replaced.look(self.trail.history.in_force())

    def _park_replaced(self) -> None:
        for table, reason in self.replaced.due(self._place(), self.trail.history).items():
            if table in self.trail.history.in_force():  # not parked with another one
                self._write(alone(self.keeper.park([table], reason), self._place(), None))

    def _leave_went(self) -> None:
        for found in self.went.due(self._place(), self.trail.history):
            go_on = self.keeper.rows_went if isinstance(found, RowsWent) else self.keeper.rekeyed
            self._write(alone(go_on(found.schema), self._place(), None))

    def _park_newcomers(self) -> None:
        new, gone = self.newcomers.due(self._place())
        for table, reason in new.items():
            self._write(alone(self.keeper.park([table], reason), self._place(), None))
        for table, what in gone.items():
            self._write(alone(self.keeper.drop(table, what), self._place(), None))

    def _note_cascades(self) -> None:
        """Note again whether the log has what foreign keys do: the server may be another one, or a newer release."""
        with closing(self.source.catalog()) as catalog:
            self.trail.note_cascades(catalog.log.logs_cascades())

    def _take_over(self, identity: str) -> bool:
        """Adopt another server as the source: its log was opened, so it contains ours (K18). Return whether it is the same.

        Happens at a start, and where the name leads to another server after the connection was lost.
        """
        if identity == self.followed:
            return True
        self.refuse_switch(self.followed, identity)
        log.get().warning("source_switched", before=self.followed, now=identity)
        self.trail.adopt_identity(identity)
        self.newcomers.forget()
        self.replaced.forget()
        self.went.forget()
        self.followed = identity
        return False

    def _place(self) -> LogMark:
        """Return the place behind all that was appended. What no flush has published yet, the next one publishes; it is
        not read again.
        """
        end = self.trail.appended
        return LogMark(end.position.native, end.resume, end.commit_time)

    def _rewind(self) -> TrailEnd:
        end = self.trail.rewind()
        self.counts.rewound()
        self.prepared.rewind(self._place())
        reach("capture.rewound")
        return end

    def _tell_waiting(self, why: str, on: Waiting | AnabranchError) -> None:
        log.get().warning("capture_waiting", why=why, **({} if isinstance(on, Waiting) else on.named()))
        self.watcher.waiting(why, on)

    def _pause(self, why: str, error: AnabranchError) -> None:
        self._tell_waiting(why, error)
        for _ in range(round(self.retry.interval * 10)):
            if not self.stop():
                time.sleep(0.1)

    def _told(self, table: TableId) -> frozenset[ColumnChange]:
        """Return the kinds of changes that rows of a table tell of, and that are followed."""
        is_told = isinstance(self.reader, RedefinedReader) and self.reader.tells_columns
        return self.follows(table) & TOLD_BY_ROWS if is_told else frozenset()

    def _follow(self) -> None:
        next_requests = next_heartbeat = next_look = next_drop = next_tables = 0.0
        is_inside = False  # fragments of a transaction were given, its end was not: nothing may come between them
        idle: LogMark | None = None  # read up to there, and not noted yet
        while not self.stop():
            item = self.reader.read(pace.current.capture_read)
            now = time.monotonic()
            self._note_parts()
            if item is not None:
                reach("capture.read")
                if self.open.was_before(item):
                    continue
                self._tell_read(item)
            elif now >= next_look and not is_inside:
                self._look_at_end()
                next_look = now + pace.current.capture_end
            if isinstance(item, Chunk):
                self._write(self.keeper.on_chunk(item))
                is_inside = item.part is Part.FRAGMENT
            elif isinstance(item, LogPrepared):
                self._prepare(item)
                is_inside = item.chunk.part is Part.FRAGMENT
            elif isinstance(item, LogDecided):
                self._decide(item)
            elif isinstance(item, LogChanges):
                self.open.take(item)
                self._moved(self.open.keep_large())
            elif isinstance(item, LogTakenBack):
                self.open.take_back(item)
            elif isinstance(item, LogEnded):
                self._ended(item)
            elif isinstance(item, LogStatement | LogRedefined):
                self._statement(item)
            elif isinstance(item, LogAbandoned):
                self._abandon(item)
                is_inside = False
            if item is not None:
                idle = item.mark if isinstance(item, LogIdle) else None
            if idle is not None and (now >= next_heartbeat or self.keeper.requested.joining):
                self._heartbeat(idle)
                idle, next_heartbeat = None, now + pace.current.capture_heartbeat
            if now >= next_requests and not is_inside:
                self._requests()
                self.keeper.kept.close_idle()
                self._moved(self.open.keep_old())
                self._tell_counts()
                next_requests = now + pace.current.capture_requests
            if now >= next_tables and not is_inside:
                self._look_at_tables()
                next_tables = now + pace.current.capture_tables
            if self.newcomers.is_waiting and not is_inside:
                self._park_newcomers()
            if self.replaced.is_waiting and not is_inside:
                self._park_replaced()
            if self.went.is_waiting and not is_inside:
                self._leave_went()
            if self.keeper.may_be_gone and not self.newcomers.is_waiting:
                self.keeper.may_be_gone, next_tables = False, min(next_tables, now + SOON_SECONDS)
            if now >= next_drop:
                self._drop_old()
                next_drop = now + pace.current.capture_drop
        self._leave()

    def _look_at_tables(self) -> None:
        """Look for what no item of the log has told of: tables that are other ones by now, and new ones."""
        self._park_drifted()
        self._park_untold()
        self._look_for_newcomers()
        self._look_for_replaced()
        self._tell_end()

    def _leave(self) -> None:
        """Stop in good order: open transactions are kept on disk, so that the next start need not read them again."""
        self._tell_counts()
        with suppress(StorageFull):  # then it is read again
            self._moved(self.open.keep_all())

    def _moved(self, mark: LogMark | None) -> None:
        """Note in the trail that the next start reads from a later place."""
        if mark is not None:
            self._heartbeat(mark)

    def _tell_read(self, item: LogItem) -> None:
        """Tell the watcher what was read, except for a fragment, whose transaction's end is not known yet."""
        sequence = self.trail.appended.position.sequence
        if not isinstance(item, Chunk):
            self.watcher.read(Position(sequence, item.mark.native), item.mark.commit_time)
        elif item.part is not Part.FRAGMENT:
            native, committed = last_place(item)
            self.watcher.read(Position(sequence + item.transactions.num_rows, native), committed)

    def _look_at_end(self) -> None:
        """Tell the watcher if nothing came because the source has no more, and not because the connection is slow.

        The source's end is asked over another connection.
        """
        with suppress(SourceUnavailable):
            end = self.reader.end()
            self.watcher.log_end(end)
            if self.source.order.includes(self._place(), end.native, None):
                self.watcher.at_end(self.trail)

    def _tell_end(self) -> None:
        """Tell the watcher how far the source is, also while there is so much to read that nobody looks whether that is
        all."""
        with suppress(SourceUnavailable):
            self.watcher.log_end(self.reader.end())

    def _write(self, chunk: Chunk) -> None:
        appended = self.trail.append(self.open.resumed(self._guarded(chunk)))
        self.counts.appended(appended)
        self._tell(appended)
        reach("capture.appended")
        if chunk.part is not Part.FRAGMENT:
            self.trail.flush()
            reach("capture.published")
            self._written()
            if chunk.transactions.num_rows < FEW:
                time.sleep(FEW_SECONDS)

    def _tell(self, chunk: Chunk) -> None:
        if log.is_detailed():
            images = {str(rows.table): rows.batch.num_rows for rows in chunk.tables}
            facts = {"part": chunk.part.name.lower(), "barriers": len(chunk.barriers)}
            log.get().debug(
                "chunk_written", first=chunk.first_sequence, last=chunk.last_sequence, images=images, **facts
            )

    def _guarded(self, chunk: Chunk) -> Chunk:
        """Add the barriers of the guard, which parks tables for values that no log explains."""
        found = self.guard.barriers(chunk, self.keeper.select) if self.guard is not None and chunk.tables else []
        parked = [one for barrier in found for one in self.keeper.park_at(barrier)]
        return replace(chunk, barriers=chunk.barriers + tuple(parked)) if parked else chunk

    def _prepare(self, item: LogPrepared) -> None:
        """Stage a prepared transaction: its rows are durable before the trail's position passes it."""
        chunk = self.prepared.stage(item)
        reach("capture.prepared")
        if chunk is not None:
            self._write(chunk)
        elif item.chunk.part is not Part.FRAGMENT:
            self._heartbeat(item.mark)

    def _decide(self, item: LogDecided) -> None:
        has_rows = False
        for chunk in self.prepared.decide(item):
            self._write(chunk)
            has_rows = True
        if not has_rows:
            self._heartbeat(item.mark)
        reach("capture.decided.published")
        self.prepared.done(item)

    def _ended(self, item: LogEnded) -> None:
        has_rows = False
        for chunk in self.open.end(item):
            self._write(chunk)
            has_rows = True
        if not has_rows:
            self._heartbeat(item.mark)
        self.open.done(item)

    def _statement(self, item: LogStatement | LogRedefined) -> None:
        reach("capture.statement")
        keeper = self.keeper
        chunk = keeper.on_statement(item) if isinstance(item, LogStatement) else keeper.on_redefined(item)
        reach("capture.statement.noted")
        if chunk is None:
            self._heartbeat(item.mark)
        else:
            self._write(chunk)

    def _abandon(self, item: LogAbandoned) -> None:
        """Give up a transaction without an end in the log. What was noted for its fragments goes with it; they are not
        read again.
        """
        log.get().warning("transaction_abandoned", at=item.mark.native, why=item.why)
        self._rewind()
        self._heartbeat(item.mark)

    def _heartbeat(self, mark: LogMark) -> None:
        mark = self.open.placed(mark)
        if mark.resume != self.trail.end.resume:
            reach("capture.heartbeat")
            self.trail.heartbeat(mark)
            self.trail.flush()
        self._written()

    def _written(self) -> None:
        """Confirm to the source that everything up to the trail's end is durable: it may forget that (K13)."""
        end = self.trail.end
        self.reader.confirm(LogMark(end.position.native, end.resume, end.commit_time))
        self.watcher.written(self.trail)

    def _drop_old(self) -> None:
        """Drop old segments also while nothing is written: a large transaction may have been the last one for days."""
        with suppress(StorageFull):
            self.trail.drop_old()

    def _tell_counts(self) -> None:
        self.counts.bytes = self.trail.bytes_written
        self.counts.open = len(self.open) + len(self.trail.staging.all())
        self.counted(self.counts)

    def _requests(self) -> None:
        self.trail.refuse_overtaken()  # a process that stood still does nothing more, also where nothing is to be written
        self.keeper.requested.look()
        chunk = self.keeper.join(self._place())
        if chunk is not None:
            self._write(chunk)
            tables = [b.table for b in chunk.barriers if b.kind is BarrierKind.SCHEMA]
            self.keeper.requested.joined(tables, self.trail.end.position.sequence)


def _is_of_a_place(found: Drift) -> TypeGuard[RowsWent | Rekeyed]:
    """Return whether what a look has found holds from a place on that is still to be read."""
    return isinstance(found, RowsWent) or (isinstance(found, Rekeyed) and found.has_come)
