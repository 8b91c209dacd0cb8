"""Assembly of a binary log's bytes into chunks: split packets, follow places and transactions, hand rows to decoders.

Pure but for the bytes it is fed: a recording stands in for a server. The loop in `_follow` runs once per event and is
written for that: 300,000 single-row transactions are 1.5 million events. What does not live here: the connection and
what is asked of the server (`dump.py`, `capture.py`), the bytes of single events (`binlog.py`, `tablemap.py`), how
transactions end (`endings.py`), events that are neither rows nor ends (`rare_events.py`).
"""

from __future__ import annotations

import struct
from collections import deque
from struct import Struct
from zlib import crc32

from anabranch.connectors.mysql.errors import of_number
from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source import endings
from anabranch.connectors.mysql.source.endings import Cursor, Endings
from anabranch.connectors.mysql.source.inner_events import Packets
from anabranch.connectors.mysql.source.left_out import NOBODY, LeftOutOrigins
from anabranch.connectors.mysql.source.log_tables import LogTables
from anabranch.connectors.mysql.source.marker_rows import job_of
from anabranch.connectors.mysql.source.native import CompiledParts
from anabranch.connectors.mysql.source.native_loop import NativeLoop
from anabranch.connectors.mysql.source.positions import Place
from anabranch.connectors.mysql.source.rare_events import RareEvents
from anabranch.connectors.mysql.source.rows_decode import ROW_EVENTS, TableDecoders
from anabranch.connectors.mysql.source.transactions import LogGroup
from anabranch.contracts import Select, ValueRules
from anabranch.errors import AnabranchError, SourceUnavailable
from anabranch.model.position import LogMark
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.compiled import compiled
from anabranch.rows.log_items import LogItem

_ROWS = Struct("<IHHH")  # table id (48 bits), flags, bytes of extra data (v2)
_CRC = Struct("<I")
_SHORTEST = 9  # bytes of the shortest packet: the end of a dump


class _Inner:
    """Events inside an event, and how far they were followed."""

    def __init__(self, packets: Packets) -> None:
        self._packets = packets
        self.block, self.is_single, self.at = b"", False, 0

    def go_on(self) -> bool:
        """Go to the next block. Returns whether there is one."""
        self.at = 0
        self.block, self.is_single = next(self._packets, (b"", False))
        return bool(self.block)


class Assembler:
    """Follows one log from `place` on: `feed` bytes, `advance`, take what is `ready`.

    Delivery: everything committed after `place`, once, in log order; nothing unknown is passed over."""

    def __init__(
        self,
        place: Place,
        select: Select,
        rules: ValueRules,
        skip_to: int = 0,
        switched_at: Place | None = None,
        decoding: str = "auto",
        own: int = 0,
        left_out: LeftOutOrigins = NOBODY,
    ) -> None:
        """Set up the assembly. `own`: the id of the server whose log it is, 0 if unknown; `left_out`: origins whose
        rows are left out.
        """
        self.ready: deque[LogItem] = deque()
        self.failure: AnabranchError | None = None  # to be raised once what is ready was taken
        self._cursor = Cursor(place.file, place.offset, skip_to, own=own)
        self._group = LogGroup(place, switched_at, left_out)
        # MariaDB keeps annotations to itself, and who asks by GTIDs gets no others
        self._is_gapless = place.family == "mysql" and not place.by_gtid
        self._buffer, self._at = b"", 0
        self._pieces: list[bytes] = []  # blocks of a packet that is not complete yet
        self._missing = 0  # bytes until it is
        self._giant: list[bytes] = []  # payloads of a packet that goes on in the next
        self._inner: _Inner | None = None  # events inside the one read last, which come before the next
        native = CompiledParts(place.family, self._is_gapless, own, left_out) if compiled(decoding) else None
        self._builder = native.builder() if native else ChunkBuilder()
        self._builder.carries = rules.carries
        self._tables = LogTables(
            select,
            rules,
            place.family,
            self._builder,
            self._group,
            lambda: str(self._cursor),
            native.decoders if native else TableDecoders,
        )
        self._endings = Endings(self._cursor, self._group, self._builder, self._tables, self.ready)
        self._native = (
            NativeLoop(native, self._cursor, self._group, self._builder, self._tables, self._endings)
            if native
            else None
        )
        self._rare = RareEvents(self._cursor, self._group, self._endings, self._tables)

    # --- bytes in, items out -------------------------------------------------------------------------------------

    def feed(self, block: bytes) -> None:
        """Add the next bytes of the connection."""
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
            while self._inner is None or self._follow_inner(self._inner):
                self._at = self._follow(self._buffer, self._at, False)
                if self._inner is None:
                    break
        except AnabranchError as error:
            self._fail(error)
        except b.UNREADABLE as error:
            self._fail(b.unreadable(error, str(self._cursor)))

    def flush(self) -> None:
        """Make whole transactions that wait ready. Raises ValueRefused; nothing more comes then."""
        try:
            self._endings.flush()
        except AnabranchError as error:
            self.failure = error
            error.position = error.position or self._group.place
            raise

    def _fail(self, error: AnabranchError) -> None:
        """Fail with an error, after what was whole before it is ready."""
        self.failure = error
        error.position = error.position or str(self._cursor)
        self._endings.flush()
        if not self.ready:
            raise error

    @property
    def is_waiting(self) -> bool:
        """True if there are whole transactions that `flush` would make ready."""
        return self._builder.transaction > 0

    @property
    def is_between(self) -> bool:
        """True if everything read so far is in front of `mark`, with no transaction open."""
        return not self._group.is_open

    def mark(self) -> LogMark:
        """Return the mark just after the last complete transaction."""
        return self._group.mark()

    def reselect(self) -> None:
        """Ask again which tables are selected, and by which definitions."""
        self._tables.ask_again()

    # --- the loop ------------------------------------------------------------------------------------------------

    def _follow(self, data: bytes, at: int, is_single: bool) -> int:
        """Follow events of `data` from `at` on; returns where it stopped. `is_single`: data is one packet, of any length."""
        size, view = len(data), memoryview(data)
        unpack, rows_head, ready, builder, group, cursor = (
            b.PACKET.unpack_from,
            _ROWS.unpack_from,
            self.ready,
            self._builder,
            self._group,
            self._cursor,
        )
        native = None if is_single else self._native
        maps, tables, giant = self._tables.maps, self._tables.by_number, self._giant
        full_images, full_bytes = endings.FULL_IMAGES, endings.FULL_BYTES
        offset, checksums, skip_to = cursor.offset, cursor.checksums, cursor.skip_to
        while not ready:
            if giant and not is_single:
                at = self._giant_packet(data, at)
                offset, checksums, skip_to = cursor.offset, cursor.checksums, cursor.skip_to
                if self._missing > 0 or self._inner is not None:
                    break
                continue
            if native is not None:
                cursor.offset = offset
                at, is_rare = native.follow(data, at)
                offset = cursor.offset
                if not is_rare:
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
                cursor.offset = offset
                giant.append(data[at + 4 : stop])
                at = stop
                continue
            body = at + 24
            end = stop
            if checksums:
                end -= 4
                if crc32(view[at + 5 : end]) != _CRC.unpack_from(data, end)[0] and not flags & b.ARTIFICIAL:
                    raise SourceUnavailable("an event's checksum is wrong", position=f"{cursor.file}:{offset}")
            if after:
                offset += length
                if offset & 0xFFFFFFFF != after:
                    offset = self._jump(kind, flags, offset - length, length, after)
            at = stop
            if offset <= skip_to and kind not in (b.FORMAT, b.ROTATE):
                continue
            if kind == b.TABLE_MAP:
                raw = data[body:end]
                known = maps.get(raw)
                if known is None:
                    cursor.offset = offset
                    known = self._tables.table_map(raw)
                tables[known[0]] = known[1]
                if (
                    native is not None
                ):  # which must not pass over what is not in `maps`: rows that say whose a transaction is
                    native.know(raw if raw in maps else b"", *known)
            elif kind in ROW_EVENTS:
                low, high, facts, extra = rows_head(data, body)
                try:
                    found = tables[low | high << 32]
                except KeyError:
                    cursor.offset = offset
                    found = self._tables.unannounced(low | high << 32)
                if found is None:
                    if group.marker == low | high << 32:
                        job = job_of(data, body + 8 + (extra if kind >= 30 else 0), kind)
                        group.marked(job if group.may_be_marked() else "")
                elif not group.is_left_out:
                    p = body + 8 + (extra if kind >= 30 else 0)
                    width, made = (found.kinds_off if facts & b.KEYS_OFF else found.kinds)[kind]
                    begin = p + width
                    decoder = made.get(data[p:begin])
                    if decoder is None:
                        cursor.offset = offset
                        decoder = self._tables.decoder(found, kind, data[p:begin], bool(facts & b.KEYS_OFF))
                        if decoder is None:
                            continue
                    decode, op, shape, second_shape = decoder
                    try:
                        images = decode(data, begin, end)
                        found.buffer.runs.append((op, builder.transaction, group.ordinal, shape, second_shape, images))
                    except (ValueError, LookupError, struct.error) as error:
                        cursor.offset = offset
                        images = self._tables.carried(found, kind, error, decoder, data, p, begin, end)
                    group.ordinal += images
                    builder.images += images
                    least = images * found.least
                    builder.size += length if length > least else least
                    if builder.images >= full_images or builder.size >= full_bytes:
                        cursor.offset = offset
                        self._endings.full()
            elif kind == b.XID:
                cursor.offset, cursor.server = offset, server
                self._endings.commit(when)
            elif kind == b.GTID or kind == b.ANONYMOUS_GTID or kind == b.MARIADB_GTID:
                cursor.offset = offset
                group.begin(kind, data[body:end], server, str(cursor))
            elif kind == b.QUERY:
                cursor.offset, cursor.server = offset, server
                if data[end - 6 : end] == b"\0BEGIN":
                    group.begin_rows(server)
                else:
                    self._endings.query(data[body:end], when)
            else:
                cursor.offset, cursor.server = offset, server
                packets = self._rare.take(kind, flags, data, body, end, stop, when)
                offset, checksums, skip_to = cursor.offset, cursor.checksums, cursor.skip_to
                if packets is not None:
                    self._inner = _Inner(packets)
                    break
        cursor.offset = offset
        return at

    def _follow_inner(self, inner: _Inner) -> bool:
        """Follow the events inside the one read last. Returns False when something is ready before all of them were
        followed.
        """
        cursor, missing = self._cursor, self._missing
        checksums, cursor.checksums = cursor.checksums, False
        try:
            while not self.ready:
                if inner.at >= len(inner.block) and not inner.go_on():
                    self._inner = None
                    return True
                inner.at = self._follow(inner.block, inner.at, inner.is_single)
        finally:
            cursor.checksums, self._missing = checksums, missing
        return False

    def _short(self, data: bytes, at: int) -> int:
        """Handle fewer bytes than an event's header: the end of a dump, an error, or not everything there yet."""
        rest = len(data) - at
        length = int.from_bytes(data[at : at + 3], "little")
        if rest >= _SHORTEST and rest >= 4 + length:
            self._refuse(data[at + 4 : at + 4 + length])
        self._missing = 1
        return at

    def _refuse(self, payload: bytes) -> None:
        """Raise the error of a packet that is no event: the server ends the dump, with or without a reason."""
        if payload[0] == 0xFF:
            error = of_number(int.from_bytes(payload[1:3], "little"), payload[9:].decode("utf-8", "replace"))
            error.position = self._group.place
            raise error
        raise SourceUnavailable("the source ended the stream of its log", position=self._group.place)

    def _giant_packet(self, data: bytes, at: int) -> int:
        """Add the next part of an event of more than 16 MB; the last part completes and follows it. Returns where to go on."""
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

    def _jump(self, kind: int, flags: int, offset: int, length: int, after: int) -> int:
        """Return the place after an event whose size does not lead there.

        Artificial events have no place in the file, a heartbeat says where the server is, and a server that leaves
        events out jumps. Places in events have 32 bits.
        """
        if flags & b.ARTIFICIAL or kind == b.FORMAT:
            return offset
        there = offset & ~0xFFFFFFFF | after
        if there < offset:
            there += 1 << 32
        is_moved = there - offset < length or there - offset > b.FARTHEST or self._is_gapless
        if is_moved and kind not in (b.HEARTBEAT, b.HEARTBEAT_V2):
            self._cursor.offset = offset
            before = offset & 0xFFFFFFFF
            raise ValueError(f"it ends at {after} and has {length} bytes, the one before it ended at {before}")
        return there
