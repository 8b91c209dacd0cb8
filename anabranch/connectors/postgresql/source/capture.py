"""LogReader of PostgreSQL: reads a slot as a subscriber does.

What does not live here: the connection's protocol (wal_stream.py), what messages mean (assemble.py), making slots (slots.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import psycopg

from anabranch import log, pace
from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.source.binary_types import BINARY, columns, reader
from anabranch.connectors.postgresql.source.binary_values import Reader
from anabranch.connectors.postgresql.source.catalog import mark
from anabranch.connectors.postgresql.source.connection import identity, log_end, open_session, server, snapshot_text
from anabranch.connectors.postgresql.source.decoders import DECODERS, STREAMING, SlotReading
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.heartbeat import Heartbeat
from anabranch.connectors.postgresql.source.held_log import Slot, read_slot
from anabranch.connectors.postgresql.source.marker_watch import Entries, entries, refuse_changed
from anabranch.connectors.postgresql.source.noted_columns import BY_NOTES
from anabranch.connectors.postgresql.source.options import USUAL, PostgresSourceOptions
from anabranch.connectors.postgresql.source.positions import (
    Place,
    Snapshot,
    began,
    left_at,
    lsn_of,
    lsn_text,
    nearest,
    place_of,
)
from anabranch.connectors.postgresql.source.relations import NeedsText
from anabranch.connectors.postgresql.source.silence import Silence
from anabranch.connectors.postgresql.source.slots import members
from anabranch.connectors.postgresql.source.streamed import NeedsWhole, RedefinedWithin
from anabranch.connectors.postgresql.source.unconverted import find
from anabranch.connectors.postgresql.source.wal_stream import DATA, DATA_HEAD, WalStream, data_start, keepalive
from anabranch.connectors.sql.servers import current
from anabranch.contracts import LogOptions, Select
from anabranch.errors import ConfigError, LogLost, SourceError, ValueRefused
from anabranch.model.column_changes import TOLD_BY_ROWS
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS, jobs_among, native_among, origin_of
from anabranch.model.position import LogMark
from anabranch.model.schema import Partition, TableSchema
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.log_items import LogIdle, LogItem, LogRedefined
from anabranch.rows.uncommitted import LogChanges, LogEnded

IDLE_INTERVAL = 0.25  # seconds between marks that only move on, and between questions for the log's end
BURST, BURST_BYTES = 256, 1 << 20  # messages between two looks at the clock, at most
PGOUTPUT = "pgoutput"
_TIMEOUT = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'"  # milliseconds
_NEWEST = "SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text"
_UNDONE = """
SELECT EXISTS (SELECT FROM unnest(%s::bigint[]) AS x
 WHERE coalesce(pg_catalog.pg_xact_status(x::text::xid8), 'aborted') = 'aborted')
"""
_START_OVER = "remove the job's state (anabranch drop JOB --execute) and load again"


def _idle_seconds() -> float:
    return pace.current.log_idle or IDLE_INTERVAL


class WalReader:
    """LogReader. Delivery: everything committed after the mark given to `start`, once per start, in the order of commits;
    nothing unknown is skipped. Large transactions that are open there come from their beginning, also where this is before
    the mark. The server is told of no place that `confirm` was not told of (K13)."""

    def __init__(self, endpoint: Endpoint, options: LogOptions, own: PostgresSourceOptions = USUAL) -> None:
        self._endpoint, self._options = endpoint, options
        self._decoder = DECODERS[own.decoder]
        native = sorted(native_among(options.leave_out))
        if native and not self._decoder.origins:
            raise ConfigError(
                f"{own.decoder} does not tell where a transaction was made: what comes from {native[0]} cannot be left out",
                hint='[source.options] decoder = "pgoutput"; what a job has written is known with every decoder'
                f" ({origin_of('NAME')})",
            )
        self._is_compiled = self._decoder.can_compile(options.decoding)
        self.decoder: str = own.decoder
        self._failover = own.failover
        self._identity = ""
        self._stream: WalStream | None = None
        self._types: Connection | None = None
        self._type_texts: dict[tuple[int, int], str] = {}
        self._readers: dict[tuple[int, int], Reader | None] = {}
        self._needs_text = not own.binary or not self._decoder.binary  # or the log was found to
        self._needs_whole = not own.streaming  # or a transaction was found to
        self._waits_whole = False  # for the end of a transaction in which a table comes by other columns
        self._former: dict[TableId, tuple[TableSchema, ...]] = {}
        self._former_at = ""  # where their transaction is committed: its mark may move on before it comes again
        self._stale = False  # what was read ahead was selected by old definitions, or the server sends too few tables
        self._is_inside = False  # fragments were given, and the end of their transaction was not
        self._open: set[str] = set()  # transactions of which parts were given, and the end was not
        self._durable = 0
        marks = self._decoder.plugin == PGOUTPUT  # which reads a publication
        self._marking = frozenset(jobs_among(options.leave_out)) if marks else frozenset[str]()
        self._marked: Entries = {}
        self._is_looked_at = False  # at the publication, behind all that was received
        self._heartbeat = Heartbeat(endpoint, options.name, float(own.heartbeat_interval_s))
        self._is_shown = False  # does the log that is read show messages?
        self.is_binary = False  # does the log that is read have values in binary form?

    @property
    def tells_columns(self) -> bool:
        return self._decoder.tells_columns

    def identity(self) -> str:
        if not self._identity:
            with open_session(self._endpoint) as connection, translated("ask the source who it is"):
                self._identity = server(connection)
        return self._identity

    def end(self) -> LogMark:
        with open_session(self._endpoint) as connection, translated("read the position of the source's log"):
            newest = Snapshot.parse(snapshot_text(connection)).xmax
            found = replace(place_of(mark(connection).resume), newest=newest).mark()
            if self._stream is not None and self._is_shown and not self._is_inside:
                self._heartbeat.bring(connection, self._received)
            return found

    def start(self, after: LogMark, select: Select) -> None:
        self.close()
        place = place_of(after.resume)
        with open_session(self._endpoint) as connection, translated("look at the slot"):
            slot = self._require(connection, place)
        self._select, self._last, self._stale, self._is_inside = select, after, False, False
        self._open.clear()
        self._type_texts.clear()
        self._readers.clear()
        self._stream = WalStream(self._endpoint)
        if slot.failover not in (None, self._failover):
            self._keep_at_standbys(self._stream)
        place = _on_timeline(place, self._stream)
        self._identity = f"{place.identity}/{place.timeline}"
        if self._end < place.lsn:
            raise LogLost(
                f"the source's log ends at {lsn_text(self._end)}, the trail at {lsn_text(place.lsn)}: the source was put back"
                " to an earlier time, or has lost the last of its log",
                position=lsn_text(place.lsn),
            )
        decoder, name = self._decoder, self._options.name
        asked = decoder.options(name, self._published, self._server_version)
        self.is_binary = self._may_be_binary()
        self.decoder = f"{decoder.plugin}/native" if self._is_compiled and not self.is_binary else decoder.plugin
        if self.is_binary:
            asked["binary"] = "true"
        if not (self._needs_whole or self._waits_whole) and decoder.can_stream(self._server_version):
            asked |= STREAMING
        has_newer = self._stream.begin(name, place.lsn, asked, decoder.newer)
        with open_session(self._endpoint) as connection, translated("look at the slot"):
            self._refuse_passed(read_slot(connection, name), place)  # nobody else moves it from here on
        reader = self._reader if self.is_binary else None
        options, asks = self._options, (self._type_text, has_newer, reader, self._undone)
        former = self._former if self._former_at and lsn_of(self._former_at) >= place.lsn else {}
        by_notes = options.follows & BY_NOTES
        tells = bool(options.follows & TOLD_BY_ROWS or by_notes)
        how = options.decoding, options.leave_out, tells, former
        self._assembler = decoder.make(SlotReading(name, place, select, *asks, *how, by_notes=by_notes))
        if options.rules.carries:
            self._assembler.carry()
        self._frames, self._at = list[bytes](), 0
        self._durable, self._received = 0, place.lsn
        self._heard = self._asked = time.monotonic()
        self._is_shown = self._server_version >= decoder.messages
        self._heartbeat.begin(self._heard, place.lsn)
        self._is_asked = False  # and not answered
        self._waiting_since: float | None = None

    def read(self, timeout: float) -> LogItem | None:
        while True:
            try:
                return self._read(timeout)
            except NeedsText as why:  # a table that is no longer what it was in this piece of the log
                if self._is_inside:
                    raise self._no_binary(why) from why
                self._needs_text = True
            except RedefinedWithin as why:
                self._waits_whole = True
                log.get().info("log_read_whole", why=str(why))
            except NeedsWhole as why:  # nothing of it is in the trail: it was just about to enter it
                self._needs_whole = True
                log.get().info("log_read_whole", why=str(why))
            except ValueRefused as refusal:
                raise self._located(refusal) from None
            self._start_again()

    def _located(self, refusal: ValueRefused) -> ValueRefused:
        """Look for the row of a value that the server refused: it does not say which row it was."""
        if refusal.table or self._decoder.plugin != PGOUTPUT:
            return refusal
        self.close()
        asked = self._decoder.options(self._options.name, self._published, self._server_version)
        try:
            with closing(WalStream(self._endpoint, is_stored=True)) as stream:
                after = place_of(self._last.resume).lsn
                return find(stream, self._options.name, after, asked, self._select) or refusal
        except (SourceError, ValueError, psycopg.NotSupportedError):  # the first refusal stands, with no row
            return refusal

    def _read(self, timeout: float) -> LogItem | None:
        if self._stale and not self._is_inside:
            self._start_again()
        assert self._stream is not None, "start comes before read"
        until = time.monotonic() + timeout
        while True:
            if self._assembler.ready:
                return self._given()
            is_more = self._take_some()
            now = time.monotonic()
            if is_more and now < until:
                continue
            self._assembler.flush()
            if self._assembler.ready:
                return self._given()
            if (idle := self._idle(now)) is not None:
                return idle
            if now >= until:
                return None
            self._wait(min(until - now, _idle_seconds()), now)

    def reselect(self) -> None:
        """Select tables again from just after what `read` returned last.

        What was read ahead of it is read again, over a new connection, since a server may remember what was published
        before. A transaction whose first fragments were returned already keeps its selection.
        """
        if self._stream is None:
            return
        if self._is_inside:
            try:
                self._assembler.reselect()
            except NeedsText as why:
                raise self._no_binary(why) from why
        self._stale = True

    def _start_again(self) -> None:
        """Start again: open transactions come again from their beginning, also one whose end was read and not returned."""
        given = sorted(self._open)
        self.start(self._last, self._select)
        self._open.update(given)  # until that is told: it may begin again before
        self._assembler.ready.extend(LogEnded(xid, False, self._last) for xid in given)

    def expect_former(self, former: Mapping[TableId, Sequence[TableSchema]], at: str) -> None:
        self._former, self._former_at = {table: tuple(some) for table, some in former.items()}, at

    def confirm(self, durable: LogMark) -> None:
        self._durable = place_of(durable.resume).lsn
        if self._stream is not None:
            self._tell()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._types is not None:
            self._types.close()
            self._types = None

    # --- messages -------------------------------------------------------------------------------------------------

    def _take_some(self) -> bool:
        """Take what has come, up to so many messages or a chunk, so that the clock is asked once. Returns whether there
        is more.
        """
        assert self._stream is not None
        if self._at == len(self._frames):
            self._frames, self._at = self._stream.receive_some(BURST, BURST_BYTES), 0
            self._is_looked_at = self._is_looked_at and not self._frames
        frames, assembler = self._frames, self._assembler
        while self._at < len(frames) and not assembler.ready:
            self._at = assembler.follow(frames, self._at)
            if self._at < len(frames) and not assembler.ready:
                self._at += 1
                self._take(frames[self._at - 1])
        if frames:
            self._look_at_clock(time.monotonic())
        return bool(frames)

    def _look_at_clock(self, now: float) -> None:
        self._heard = now
        if not self._assembler.is_waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= self._options.flush_interval:
            self._assembler.flush()

    def _take(self, message: bytes | memoryview) -> None:
        if message[0] == DATA:
            if self._decoder.needs_places:
                self._assembler.take(bytes(message[DATA_HEAD:]), data_start(message))
            else:
                self._assembler.take(bytes(message[DATA_HEAD:]))
            return
        end, _, asks = keepalive(message)
        self._received, self._is_asked = max(self._received, end), False
        self._assembler.move(end)
        if asks:
            self._tell()

    def _wait(self, seconds: float, now: float) -> None:
        assert self._stream is not None
        if self._is_asked:
            self._silence.look(max(self._heard, self._asked), now, self._last.native)
        elif now - self._asked >= _idle_seconds():
            self._asked, self._is_asked = now, True
            self._tell(asks=True)
        if self._is_shown:
            self._heartbeat.beat(now, self._received)
        message = self._stream.receive(seconds)
        if message is not None:
            self._is_looked_at = False
            self._take(message)
            self._look_at_clock(time.monotonic())

    def _tell(self, asks: bool = False) -> None:
        assert self._stream is not None
        self._stream.tell(max(self._received, self._durable), self._durable, asks)

    def parts(self) -> list[tuple[TableId, Partition]]:
        if self._stream is None or not self._assembler.parts:
            return []
        found, self._assembler.parts = self._assembler.parts, []
        return found

    def _given(self) -> LogItem:
        item = self._assembler.ready.popleft()
        self._waiting_since = None
        if self._marking and not self._is_looked_at and not isinstance(item, LogIdle):
            refuse_changed(self._types_session(), self._options.name, self._marked, self._marking)
            self._is_looked_at = True
        self._is_inside = isinstance(item, Chunk) and item.part is Part.FRAGMENT
        if isinstance(item, LogChanges):
            self._open.add(item.xid)
        elif isinstance(item, LogEnded):
            self._open.discard(item.xid)
        elif isinstance(item, LogRedefined):
            before = self._former if item.native == self._former_at else {}
            then, self._stale = self._select(item.table), True
            some = (*before.get(item.table, ()), *((then,) if then else ()))
            self.expect_former({**before, item.table: some}, item.native)
        if not isinstance(item, Chunk):
            self._last = item.mark
        elif not self._is_inside:
            self._waits_whole = False
            natives, times = item.transactions.column("native"), item.transactions.column("commit_time")
            self._last = LogMark(natives[-1].as_py(), item.resume, times[-1].as_py())
        return item

    def _idle(self, now: float) -> LogIdle | None:
        """Return the place when it moved on without anything for us; never past what was not returned yet."""
        assembler = self._assembler
        if assembler.is_waiting or assembler.ready or not assembler.is_between:
            return None
        mark = assembler.mark()
        if mark.native == self._last.native:
            return None
        self._last = mark
        return LogIdle(mark)

    # --- the server -----------------------------------------------------------------------------------------------

    def _keep_at_standbys(self, stream: WalStream) -> None:
        """Change who keeps the slot, as the job file says. Where it cannot be, the log is read all the same, and the next
        connection tries it again.
        """
        if why := stream.keep_at_standbys(self._options.name, self._failover):
            log.get().warning("slot_not_changed", slot=self._options.name, failover=self._failover, why=why)

    def _require(self, connection: Connection, place: Place) -> Slot:
        """Return the slot. Raises LogLost where the slot does not give everything behind `place`."""
        at, name, here = lsn_text(place.lsn), self._options.name, identity(connection)
        self._server_version = connection.info.server_version
        if here != place.identity:
            raise LogLost(f"this database is {here}, the trail was read from {place.identity}", position=at)
        self._published = members(connection, name) or set()
        if self._marking:
            if not self._marked:  # what was read ahead is read again, with what was published since the first look
                found = entries(connection, name)
                self._marked = {one.name: found[one.name] for one in MARKERS & self._published if one.name in found}
            refuse_changed(connection, name, self._marked, self._marking)
        slot = read_slot(connection, name)
        if slot is None:
            raise LogLost(f"the slot {name} is gone, and with it the log behind the trail's end", position=at)
        if slot.lost:
            raise LogLost(f"the slot {name} is lost: {slot.lost}", position=at)
        if slot.plugin != self._decoder.plugin or slot.database != one(connection, "SELECT current_database()"):
            raise LogLost(
                f"the slot {name} is one of {slot.plugin} in the database {slot.database}",
                position=at,
                hint=f"SELECT pg_drop_replication_slot('{name}') at the source if nobody needs it; then {_START_OVER}",
            )
        self._refuse_passed(slot, place)
        self._end = log_end(connection)
        timeout = int(one(connection, _TIMEOUT)) / 1000
        # While it decodes what is not ours a server answers late, or, with other plugins, not at all.
        knows_progress = self._decoder.plugin == PGOUTPUT and timeout > 0
        self._silence = Silence(current(self._endpoint), timeout if knows_progress else math.inf)
        return slot

    def _refuse_passed(self, slot: Slot | None, place: Place) -> None:
        at, name = lsn_text(place.lsn), self._options.name
        if slot is None:
            raise LogLost(f"the slot {name} is gone, and with it the log behind the trail's end", position=at)
        if slot.confirmed > place.lsn:
            raise LogLost(
                f"the slot {name} goes on behind {lsn_text(slot.confirmed)}, the trail ends at {at}: what is between the"
                " two will not come again",
                position=at,
                hint=f"the trail was put back, or the slot was made anew or read by others: {_START_OVER}",
            )

    def _may_be_binary(self) -> bool:
        """Return whether all that is published can be read in binary form: it holds for the whole connection."""
        if self._needs_text or self._server_version < BINARY:
            return False
        with open_session(self._endpoint) as connection, translated("ask for the types of columns"):
            found = columns(connection, self._published - MARKERS)
        return all(self._reader(oid, modifier) is not None for _, oid, modifier in found)

    def _reader(self, oid: int, modifier: int) -> Reader | None:
        key = oid, modifier
        if key not in self._readers:
            with translated("ask for a type"):
                self._readers[key] = reader(self._types_session(), oid, modifier)
        return self._readers[key]

    def _undone(self, subtransactions: Sequence[int]) -> bool:
        """Return whether one of the subtransactions was rolled back. The server keeps that for all transactions its
        slots may still show.
        """
        connection = self._types_session()
        with translated("ask what became of subtransactions"):
            near = int(str(one(connection, _NEWEST)))
            return bool(one(connection, _UNDONE, [[nearest(xid, near) for xid in subtransactions]]))

    def _no_binary(self, why: NeedsText) -> SourceError:
        """Return the error for a transaction that was read in part: that part cannot be sent again as text."""
        what = f"rows within a large transaction cannot be read in binary form: {why}"
        return SourceError(what, position=self._last.native, hint="[source.options] binary = false")

    def _types_session(self) -> Connection:
        if self._types is None:
            self._types = open_session(self._endpoint)
        return self._types

    def _type_text(self, oid: int, modifier: int) -> str:
        """Return a type as format_type() spells it now."""
        key = oid, modifier
        if key not in self._type_texts:
            with translated("ask for a type's name"):
                query = "SELECT pg_catalog.format_type(%s::oid, %s)"
                self._type_texts[key] = str(one(self._types_session(), query, [oid, modifier]))
        return self._type_texts[key]


def _on_timeline(place: Place, stream: WalStream) -> Place:
    """Return the place on the timeline that the server is on now. Raises LogLost where the trail has what it has not: a
    standby that was promoted without the last of the log.
    """
    history = stream.history()
    now = replace(place, timeline=stream.timeline, began=began(history, stream.timeline))
    if not place.timeline:
        return now
    there, left = began(history, place.timeline), left_at(history, place.timeline)
    if place.began and there != place.began:  # a place that a release before this one wrote has it not
        raise LogLost(
            f"the trail ends on a timeline {place.timeline} that began at {place.began}, and this server's began at"
            f" {there or 'no place that it tells'}: it never followed the server that was read",
            position=lsn_text(place.lsn),
            hint="go on at the server that was read, or at a standby of it; else " + _START_OVER,
        )
    if place.timeline == stream.timeline:
        return now
    if left is None or place.lsn > left:
        there = f"left it at {lsn_text(left)}" if left is not None else "was never on it"
        raise LogLost(
            f"the trail ends at {lsn_text(place.lsn)} of timeline {place.timeline}, and this server {there}: it lacks"
            " transactions that the trail has",
            position=lsn_text(place.lsn),
        )
    return now
