"""From the bytes of a binary log to chunks: splits packets, follows places and transactions, hands rows to decoders.

Pure but for the bytes it is fed: a recording stands in for a server. The loop in `_follow` runs once per event and is
written for that: 300,000 single-row transactions are 1.5 million events. What does not live here: the connection and
what is asked of the server (`dump.py`, `capture.py`), the bytes of single events (`binlog.py`, `tablemap.py`).
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import replace
from struct import Struct
from zlib import crc32

from anabranch.abc import LogAbandoned, LogStatement, Select, ValueRules
from anabranch.connectors.mysql import binlog as b
from anabranch.connectors.mysql.ddl import shown
from anabranch.connectors.mysql.errors import of_number
from anabranch.connectors.mysql.log_tables import LogTables
from anabranch.connectors.mysql.positions import Place
from anabranch.connectors.mysql.rows_decode import ROW_EVENTS
from anabranch.connectors.mysql.transactions import Group
from anabranch.errors import (
    AnabranchError,
    LogLost,
    SourceUnavailable,
    UnknownLogEvent,
)
from anabranch.model.position import LogMark
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import Chunk, Part

FULL_IMAGES, FULL_BYTES = 20_000, 4 << 20  # a chunk is full from here on
_ROWS = Struct("<IHHH")  # table id (48 bits), flags, bytes of extra data (v2)
_CRC = Struct("<I")
_SHORTEST = 9  # bytes of the shortest packet: the end of a dump


class Assembler:
    """Follows one log from `place` on: `feed` bytes, `advance`, take what is `ready`.

    Delivery: everything committed after `place`, once, in log order; nothing unknown is passed over."""

    def __init__(self, place: Place, select: Select, rules: ValueRules, skip_to: int = 0) -> None:
        self.ready: deque[Chunk | LogStatement | LogAbandoned] = deque()
        self.failure: AnabranchError | None = None  # to be raised once what is ready was taken
        self._file, self._offset = place.file, place.offset  # after the event read last
        self._skip_to = skip_to  # events up to here were read before
        self._group = Group(place)
        self._buffer, self._at = b"", 0
        self._pieces: list[bytes] = []  # blocks of a packet that is not complete yet
        self._missing = 0  # bytes until it is
        self._giant: list[bytes] = []  # payloads of a packet that goes on in the next
        self._checksums = False
        self._builder = ChunkBuilder()
        self._held: list[LogStatement] = []  # statements inside a transaction that has rows
        self._tables = LogTables(select, rules, place.family, self._builder, self._group, lambda: self._here)

    # --- bytes in, items out -------------------------------------------------------------------------------------

    def feed(self, block: bytes) -> None:
        """The next bytes of the connection."""
        self._pieces.append(block)
        self._missing -= len(block)
        if self._missing <= 0:
            self._buffer = b"".join((self._buffer[self._at :], *self._pieces))
            self._pieces, self._at = [], 0

    def advance(self) -> None:
        """Work until something is ready or more bytes are needed. What was complete before an error is ready first."""
        if self.failure:
            raise self.failure
        if self._pieces:
            return
        try:
            self._at = self._follow(self._buffer, self._at, False)
        except AnabranchError as error:
            self.failure = error
            self.flush()
            if not self.ready:
                raise

    def flush(self) -> None:
        """Whole transactions that wait become ready."""
        if self._builder.transaction:
            self.ready.append(self._builder.build(self.mark().resume))

    @property
    def is_waiting(self) -> bool:
        """Are there whole transactions that `flush` would make ready?"""
        return self._builder.transaction > 0

    @property
    def is_between(self) -> bool:
        """Is everything read so far in front of `mark`, with no transaction open?"""
        return not self._group.is_open

    def mark(self) -> LogMark:
        """Just after the last transaction that is complete."""
        return self._group.mark()

    def reselect(self) -> None:
        """Forget definitions and selection; the next table map asks again."""
        self._tables.reselect()

    # --- the loop ------------------------------------------------------------------------------------------------

    def _follow(self, data: bytes, at: int, is_single: bool) -> int:
        """Events of `data` from `at` on; returns where it stopped. `is_single`: data is one packet, of any length."""
        size, view = len(data), memoryview(data)
        unpack, rows_head, ready, builder, group = (
            b.PACKET.unpack_from,
            _ROWS.unpack_from,
            self.ready,
            self._builder,
            self._group,
        )
        maps, tables, giant = self._tables.maps, self._tables.by_number, self._giant
        offset, checksums, skip_to = self._offset, self._checksums, self._skip_to
        while not ready:
            if giant and not is_single:
                at = self._giant_packet(data, at)
                offset, checksums = self._offset, self._checksums
                if self._missing > 0:
                    break
                continue
            if size - at < b.PACKET.size:
                at = self._short(data, at)
                break
            word, status, when, kind, server, length, after, flags = unpack(data, at)
            stop = size if is_single else at + 4 + (word & b.GIANT)
            if stop > size:
                self._missing = stop - size
                break
            if status:
                self._refuse(data[at + 4 : stop])
            if word & b.GIANT == b.GIANT:
                self._offset = offset
                giant.append(data[at + 4 : stop])
                at = stop
                continue
            body = at + 24
            end = stop
            if checksums:
                end -= 4
                if crc32(view[at + 5 : end]) != _CRC.unpack_from(data, end)[0] and not flags & b.ARTIFICIAL:
                    raise SourceUnavailable("an event's checksum is wrong", position=f"{self._file}:{offset}")
            if after:
                offset += length
                if offset & 0xFFFFFFFF != after:
                    offset = self._jump(kind, flags, offset - length, after)
            at = stop
            if offset <= skip_to and kind not in (b.FORMAT, b.ROTATE):
                continue
            if kind == b.TABLE_MAP:
                raw = data[body:end]
                known = maps.get(raw)
                if known is None:
                    self._offset = offset
                    known = self._tables.table_map(raw)
                tables[known[0]] = known[1]
            elif kind in ROW_EVENTS:
                low, high, facts, extra = rows_head(data, body)
                try:
                    found = tables[low | high << 32]
                except KeyError:
                    found = self._tables.unannounced(low | high << 32)
                if found is not None:
                    p = body + 8 + found.count_width + (extra if kind >= 30 else 0)
                    width, made = (found.kinds_off if facts & b.KEYS_OFF else found.kinds)[kind]
                    begin = p + width
                    decoder = made.get(data[p:begin])
                    if decoder is None:
                        self._offset = offset
                        decoder = self._tables.decoder(found, kind, data[p:begin], bool(facts & b.KEYS_OFF))
                        if decoder is None:
                            continue
                    decode, op, shape, second_shape = decoder
                    try:
                        images = decode(data, begin, end)
                    except (ValueError, LookupError, struct.error) as error:
                        self._offset = offset
                        raise self._tables.undecodable(found, op, error, data[p:begin], data, begin, end) from error
                    found.buffer.runs.append((op, builder.transaction, group.ordinal, shape, second_shape, images))
                    group.ordinal += images
                    builder.images += images
                    builder.size += length
                    if builder.images >= FULL_IMAGES or builder.size >= FULL_BYTES:
                        self._offset = offset
                        self._full()
            elif kind == b.XID:
                self._offset = offset
                self._end_transaction(when)
            elif kind == b.GTID or kind == b.ANONYMOUS_GTID or kind == b.MARIADB_GTID:
                self._offset = offset
                group.begin(kind, data[body:end], server, self._here)
            elif kind == b.QUERY:
                self._offset = offset
                if data[end - 6 : end] == b"\0BEGIN":
                    group.in_transaction = group.is_open = True
                else:
                    self._query(data[body:end], when)
            else:
                self._offset = offset
                self._rare(kind, flags, data, body, end, stop, when)
                offset, checksums, skip_to = self._offset, self._checksums, self._skip_to
        self._offset = offset
        return at

    def _short(self, data: bytes, at: int) -> int:
        """Fewer bytes than an event's header: the end of a dump, an error, or not all there yet."""
        rest = len(data) - at
        length = int.from_bytes(data[at : at + 3], "little")
        if rest >= _SHORTEST and rest >= 4 + length:
            self._refuse(data[at + 4 : at + 4 + length])
        self._missing = 1
        return at

    def _refuse(self, payload: bytes) -> None:
        """The packet is no event: the server ends the dump, with or without a reason."""
        if payload[0] == 0xFF:
            error = of_number(int.from_bytes(payload[1:3], "little"), payload[9:].decode("utf-8", "replace"))
            error.position = self._group.place
            raise error
        raise SourceUnavailable("the source ended the stream of its log", position=self._group.place)

    def _giant_packet(self, data: bytes, at: int) -> int:
        """The next part of an event of more than 16 MB; with the last part it is followed. Returns where to go on."""
        length = int.from_bytes(data[at : at + 3], "little")
        missing = at + 4 + (length if len(data) >= at + 4 else 0) - len(data)
        if missing > 0:
            self._missing = missing
            return at
        self._giant.append(data[at + 4 : at + 4 + length])
        if length < b.GIANT:
            whole = b"".join((b"\0\0\0\0", *self._giant))
            self._giant.clear()
            self._follow(whole, 0, True)
        self._missing = 0
        return at + 4 + length

    def _jump(self, kind: int, flags: int, offset: int, after: int) -> int:
        """The place after an event whose size does not lead there: artificial events stand nowhere, a heartbeat says
        where the server is, a server that leaves events out jumps. Places in events have 32 bits."""
        if flags & b.ARTIFICIAL or kind == b.FORMAT:
            return offset
        there = offset & ~0xFFFFFFFF | after
        return there if there >= offset else there + (1 << 32)

    # --- transactions ---------------------------------------------------------------------------------------------

    @property
    def _here(self) -> str:
        return f"{self._file}:{self._offset}"

    def _end_transaction(self, seconds: int) -> None:
        group, builder = self._group, self._builder
        images, is_ours, is_fragmented = group.ordinal - group.fragmented, group.is_ours, group.is_fragmented
        gtid, time = group.end(self._offset, seconds)
        if is_ours:
            builder.commit(f"{self._file}:{self._offset}", gtid, time, images)
            if is_fragmented:
                self.ready.append(builder.build(self.mark().resume, Part.LAST))
            elif builder.images >= FULL_IMAGES or builder.size >= FULL_BYTES:
                self.flush()
        if self._held:
            self.flush()
            self.ready.extend(replace(statement, mark=self.mark()) for statement in self._held)
            self._held = []

    def _full(self) -> None:
        """What is whole leaves first; if the open transaction alone is too large, a fragment of it."""
        self.flush()
        builder, group = self._builder, self._group
        if builder.images >= FULL_IMAGES or builder.size >= FULL_BYTES:
            self.ready.append(builder.build(self.mark().resume, Part.FRAGMENT))
            group.is_fragmented, group.fragmented = True, group.ordinal

    def _query(self, body: bytes, seconds: int) -> None:
        query = b.parse_query(body)
        start = query.sql.lstrip()[:20].upper()
        if start.startswith("COMMIT"):
            self._end_transaction(seconds)
        elif start.startswith("ROLLBACK"):
            self._rollback(query.sql, seconds)
        elif start.startswith("XA "):
            name, remedy = b.REFUSED[b.XA_PREPARE]
            raise UnknownLogEvent(f"the log has {name}: {shown(query.sql)}", position=self._here, hint=remedy)
        elif not start.startswith(("SAVEPOINT", "RELEASE SAVEPOINT")):
            self._statement(query, seconds)

    def _rollback(self, sql: str, seconds: int) -> None:
        """A server logs what it rolls back only when a table without transactions was changed in between."""
        if self._group.is_ours:
            raise UnknownLogEvent(
                f"the log takes back rows that it has logged: {shown(sql)}",
                position=self._here,
                hint="a table that is not transactional was changed in a transaction: use InnoDB, then load again",
            )
        if " TO " not in sql.upper():
            self._group.end(self._offset, seconds)

    def _statement(self, query: b.Query, seconds: int) -> None:
        """Alone: it ends its group. Inside a transaction: `mark` stays before the transaction, so that a restart reads
        all of it; when rows came before it (temporary tables only), it is told after them."""
        group = self._group
        if group.in_transaction:
            statement = LogStatement(query.sql, query.schema, replace(self.mark(), commit_time=seconds * 1_000_000))
            if group.is_ours:
                self._held.append(statement)
                return
            self.flush()
        else:
            self.flush()  # its resume is the place before the statement
            gtid, _ = group.end(self._offset, seconds)
            statement = LogStatement(query.sql, query.schema, self.mark(), gtid)
        self.ready.append(statement)

    # --- events that are rare -------------------------------------------------------------------------------------

    def _rare(self, kind: int, flags: int, data: bytes, body: int, end: int, stop: int, seconds: int) -> None:
        if kind == b.FORMAT:
            self._format(data[body:stop], seconds)
        elif kind == b.ROTATE:
            self._rotate(data, body, stop, flags)
        elif kind in (b.HEARTBEAT, b.HEARTBEAT_V2):
            self._heartbeat(kind, data[body:end])
        elif kind == b.PREVIOUS_GTIDS:
            self._group.previous(data[body:end])
        elif kind == b.TAGGED_GTID:
            self._group.begin(kind, data[body:end], 0, self._here)
        elif kind == b.INCIDENT:
            text = data[body + 3 : end].decode("utf-8", "replace")
            raise LogLost(f"the source says that its log has a gap: {text}", position=self._here)
        elif kind in b.REFUSED:
            self._refused(kind, data[body:end])
        elif kind not in b.HARMLESS and kind != b.MARIADB_GTID_LIST and not flags & b.IGNORABLE:
            hint = "this version does not know it: a newer one may"
            raise UnknownLogEvent(f"the log has an event of the unknown type {kind}", position=self._here, hint=hint)

    def _refused(self, kind: int, body: bytes) -> None:
        if kind == b.PARTIAL_UPDATE or kind in b.MARIADB_COMPRESSED_ROWS:
            number = int.from_bytes(body[:6], "little")
            if self._tables.leaves_out(number):
                return
        name, remedy = b.REFUSED[kind]
        raise UnknownLogEvent(f"the log has an event of type {kind} ({name})", position=self._here, hint=remedy)

    def _format(self, event: bytes, seconds: int) -> None:
        """The log's own description, first in each file and sent again at the start: checksums, and the file's birth."""
        self._checksums = b.has_checksum(event)
        group = self._group
        if group.created and group.created != seconds and group.file == self._file:
            raise LogLost(
                f"{self._file} was begun by the source at {seconds}, the trail read one begun at {group.created}: "
                "its log was reset",
                position=group.place,
            )
        if group.is_open and group.file != self._file:  # the server crashed while it wrote the transaction
            self._abandon()
        group.file, group.created = self._file, seconds
        if self._offset > group.safe and not group.is_open:
            group.safe = self._offset

    def _abandon(self) -> None:
        """What is open never ended. Tables that were parked in it are asked for again."""
        was_fragmented = self._group.is_fragmented
        self._builder.abandon()
        self._group.abandon()
        self._group.move(self._file, self._offset)
        self._held = []
        self.reselect()
        if was_fragmented:
            self.ready.append(LogAbandoned(self.mark()))

    def _rotate(self, data: bytes, body: int, stop: int, flags: int) -> None:
        """The next file. An artificial one tells where the dump begins; whether it has a checksum shows by itself."""
        end = stop - b.CHECKSUM
        start = body - b.HEADER
        if crc32(data[start:end]) != _CRC.unpack_from(data, end)[0]:
            end = stop
        file, offset = b.parse_rotate(data[body:end])
        if file != self._file:
            if self._offset < self._skip_to:
                raise LogLost(f"{self._file} ends before {self._skip_to}", position=self._group.place)
            self._skip_to = 0
        self._file, self._offset = file, offset
        if not self._group.is_open and not self._skip_to and (file, offset) != (self._group.file, self._group.safe):
            self._group.move(file, offset)

    def _heartbeat(self, kind: int, body: bytes) -> None:
        file, offset = b.parse_heartbeat(kind, body, self._offset)
        if file == self._file and offset >= self._offset:
            self._offset = offset
            if not self._group.is_open:
                self._group.move(file, offset)
