"""LogReader of MySQL and MariaDB: reads the binary log as a replica does.

What does not live here: the connection's protocol (`dump.py`), whether the server still has our place (`continuity.py`),
what the bytes mean (`assemble.py`).
"""

from __future__ import annotations

import time
from contextlib import suppress

from anabranch import pace
from anabranch.connectors.mysql.connection import connect
from anabranch.connectors.mysql.source.assemble import Assembler
from anabranch.connectors.mysql.source.continuity import continued
from anabranch.connectors.mysql.source.dump import FARTHEST, Dump
from anabranch.connectors.mysql.source.left_out import left_out
from anabranch.connectors.mysql.source.log_end import identity, log_end, log_end_with_gtids, server_id
from anabranch.connectors.mysql.source.options import USUAL, MysqlSourceOptions
from anabranch.connectors.mysql.source.positions import BinlogOrder, Place, place_of
from anabranch.contracts import LogOptions, Select
from anabranch.errors import SourceUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.compiled import compiled
from anabranch.rows.log_items import LogIdle, LogItem, LogPrepared

IDLE_INTERVAL = 0.5  # seconds between marks that only move on
STILL = 5.0  # seconds at the same place after which the server is asked whether it still has it


class BinlogReader:
    """LogReader. Delivery: everything committed after the mark given to `start`, once per start, in log order; nothing
    unknown is skipped."""

    def __init__(self, endpoint: Endpoint, options: LogOptions, own: MysqlSourceOptions = USUAL) -> None:
        self._endpoint, self._options = endpoint, options
        self._server_id = own.server_id or options.reader_id
        self._has_several = len(endpoint.each) > 1
        self.decoder = "native" if compiled(options.decoding) else "python"
        self._left_out = left_out(options.leave_out)
        self._identity = ""
        self._dump: Dump | None = None
        self._stale = False  # what was read ahead was selected by old definitions
        self._is_inside = False  # fragments were given, and the end of their transaction was not

    def identity(self) -> str:
        if not self._identity:
            connection = connect(self._endpoint)
            try:
                self._identity = identity(connection)
            finally:
                connection.close()
        return self._identity

    def end(self) -> LogMark:
        connection = connect(self._endpoint)
        try:
            return log_end_with_gtids(connection).mark()
        finally:
            connection.close()

    def start(self, after: LogMark, select: Select) -> None:
        self.close()
        connection = connect(self._endpoint)
        try:
            place = continued(connection, place_of(after.resume))
            switched_at = log_end(connection) if place.by_gtid else None  # what the set has is before it
            own = server_id(connection)
            server = (connection.host, connection.port) if self._has_several else None
        finally:
            connection.close()
        self._identity = place.identity
        self._select, self._last, self._stale, self._is_inside = select, after, False, False
        skip_to = place.offset if place.offset > FARTHEST and not place.by_gtid else 0
        how = self._options
        origins = own, self._left_out
        self._assembler = Assembler(place, select, how.rules, skip_to, switched_at, how.decoding, *origins)
        self._dump = Dump(self._endpoint, self._server_id, place)
        if server is not None:
            self._refuse_other(server)
        self._heard = self._told = time.monotonic()
        self._waiting_since: float | None = None
        self._still_at, self._still_since = "", self._heard

    def read(self, timeout: float) -> LogItem | None:
        if self._stale:
            self.start(self._last, self._select)
        assert self._dump is not None, "start comes before read"
        until = time.monotonic() + timeout
        while True:
            self._assembler.advance()
            if self._assembler.ready:
                return self._given()
            block = self._dump.receive(0)
            now = time.monotonic()
            if block is not None:
                self._take(block, now)
                self._assembler.advance()
            else:
                self._assembler.flush()
            if self._assembler.ready:
                return self._given()
            if (idle := self._idle(now)) is not None:
                return idle
            if now - self._still_since >= STILL:
                self._look(now)
            if now >= until:
                return None
            if block is None:
                self._wait(until - now, now)

    def reselect(self) -> None:
        """Select tables again from just after what `read` returned last: what was read ahead of it is read again.

        A transaction whose first fragments were returned already keeps its selection.
        """
        if self._dump is None:
            return
        assembler = self._assembler
        is_given = assembler.is_between and assembler.mark().native == str(place_of(self._last.resume))
        if self._is_inside or is_given:
            assembler.reselect()
        else:
            self._stale = True

    def confirm(self, durable: LogMark) -> None:
        """Do nothing: the server keeps its log by its own rules."""

    def close(self) -> None:
        if self._dump is not None:
            self._dump.close()
            self._dump = None

    def _take(self, block: bytes, now: float) -> None:
        self._heard = now
        self._assembler.feed(block)
        if not self._assembler.is_waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= self._options.flush_interval:
            self._assembler.flush()

    def _wait(self, seconds: float, now: float) -> None:
        assert self._dump is not None
        block = self._dump.receive(seconds)
        if block is not None:
            self._take(block, time.monotonic())
        elif (silent := now - self._heard) > self._endpoint.limits.silence:  # not even a heartbeat came
            raise SourceUnavailable(f"the source has been silent for {silent:.0f} s", position=self._last.native)

    def _look(self, now: float) -> None:
        """Check a log that stands still: open it again where it goes on elsewhere. Raises LogLost.

        A server whose log was reset stays in a file that it has removed, and sends heartbeats.
        """
        assembler = self._assembler
        here, self._still_since = assembler.mark(), now
        if self._has_several:
            self._refuse_former()
        if here.resume != self._still_at or assembler.is_waiting or not assembler.is_between:
            self._still_at = here.resume
            return
        place, end = place_of(here.resume), None
        with suppress(SourceUnavailable):  # the line that counts is the other one
            place, end = self._asked(place)
        if end is not None and not place.by_gtid and not BinlogOrder().includes(here, str(end), None):
            self.start(self._last, self._select)

    def _refuse_former(self) -> None:
        """Raise SourceUnavailable where another of several servers is the primary now. The former one goes on sending
        heartbeats, and without `log_slave_updates` nothing else. While none of them can be used, the log that is read stays."""
        try:
            connection = connect(self._endpoint)
        except SourceUnavailable:
            return
        try:
            self._refuse_other((connection.host, connection.port))
        finally:
            connection.close()

    def _refuse_other(self, primary: tuple[str, int]) -> None:
        assert self._dump is not None
        if self._dump.server != primary:
            self._dump.close()
            host, port = primary
            raise SourceUnavailable(
                f"the primary is {host}:{port} now: the log of the former one is left", position=self._last.native
            )

    def _asked(self, place: Place) -> tuple[Place, Place]:
        """Return `place` as the server would name it, and its log's end. Raises LogLost."""
        connection = connect(self._endpoint)
        try:
            return continued(connection, place), log_end(connection)
        finally:
            connection.close()

    def _given(self) -> LogItem:
        item = self._assembler.ready.popleft()
        self._waiting_since = None
        chunk = item.chunk if isinstance(item, LogPrepared) else item
        self._is_inside = isinstance(chunk, Chunk) and chunk.part is Part.FRAGMENT
        if not isinstance(item, Chunk):
            self._last = item.mark
        elif not self._is_inside:
            natives, times = item.transactions.column("native"), item.transactions.column("commit_time")
            self._last = LogMark(natives[-1].as_py(), item.resume, times[-1].as_py())
        return item

    def _idle(self, now: float) -> LogIdle | None:
        """Return, now and then, the place when it moved on without anything for us; never past what was not returned yet."""
        assembler = self._assembler
        is_early = now - self._told < (pace.current.log_idle or IDLE_INTERVAL)
        if is_early or assembler.is_waiting or assembler.ready or not assembler.is_between:
            return None
        self._told = now
        mark = assembler.mark()
        if mark.resume == self._last.resume:
            return None
        self._last = mark
        return LogIdle(mark)
