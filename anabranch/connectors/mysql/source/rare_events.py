"""Events of a binary log that are no rows and end no transaction: files, heartbeats, gaps, what is compressed or refused.

What does not live here: the loop that meets them (`assemble.py`), the bytes inside compressed ones (`inner_events.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from struct import Struct
from typing import TypeVar
from zlib import crc32

from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source import inner_events
from anabranch.connectors.mysql.source.endings import Cursor, Endings
from anabranch.connectors.mysql.source.inner_events import Packets
from anabranch.connectors.mysql.source.log_tables import LogTables
from anabranch.connectors.mysql.source.transactions import LogGroup
from anabranch.errors import LogLost, UnknownLogEvent

T = TypeVar("T")
_CRC = Struct("<I")


class RareEvents:
    """Takes an event that the loop does not know; the cursor may be elsewhere afterwards."""

    def __init__(self, cursor: Cursor, group: LogGroup, endings: Endings, tables: LogTables) -> None:
        self._cursor, self._group, self._endings, self._tables = cursor, group, endings, tables

    def take(self, kind: int, flags: int, data: bytes, body: int, end: int, stop: int, seconds: int) -> Packets | None:
        """Handle an event in `data`: its body from `body` to `end`, its checksum to `stop`. Returns the events inside,
        which come next.
        """
        if kind == b.FORMAT:
            self._format(data[body - b.HEADER : stop], seconds)
        elif kind == b.ROTATE:
            self._rotate(data, body, stop, flags)
        elif kind in (b.HEARTBEAT, b.HEARTBEAT_V2):
            self._heartbeat(kind, data[body:end])
        elif kind == b.PREVIOUS_GTIDS:
            self._group.previous(data[body:end])
        elif kind == b.TAGGED_GTID:
            self._group.begin(kind, data[body:end], self._cursor.server, str(self._cursor))
        elif kind == b.LOAD_QUERY:
            self._endings.query(b.load_query(data[body:end]), seconds)
        elif kind == b.XA_PREPARE:
            self._endings.prepare(data[body:end], seconds)
        elif kind == b.INCIDENT:
            text = data[body + 3 : end].decode("utf-8", "replace")
            raise LogLost(f"the source says that its log has a gap: {text}", position=str(self._cursor))
        elif kind in b.COMPRESSED:
            return self._compressed(kind, data[body - b.HEADER : end], seconds)
        elif kind in b.REFUSED:
            self._refused(kind)
        elif kind not in b.HARMLESS and kind != b.MARIADB_GTID_LIST and not flags & b.IGNORABLE:
            hint = "this version does not know it: a newer one may"
            message = f"the log has an event of the unknown type {kind}"
            raise UnknownLogEvent(message, position=str(self._cursor), hint=hint)
        return None

    def _compressed(self, kind: int, event: bytes, seconds: int) -> Packets | None:
        if kind == b.PAYLOAD:
            return self._readable(kind, inner_events.payload(event[b.HEADER :]))
        if kind == b.COMPRESSED_QUERY:
            for query in self._readable(kind, inner_events.inflated_query(event[b.HEADER :])):
                self._endings.query(query, seconds)
        elif not self._tables.leaves_out(int.from_bytes(event[b.HEADER : b.HEADER + 6], "little")):
            return self._readable(kind, inner_events.inflated_rows(kind, event))
        return None

    def _readable(self, kind: int, found: Iterator[T]) -> Iterator[T]:
        try:
            yield from found
        except (ValueError, LookupError, struct.error) as error:
            message = f"an event in the log ({b.COMPRESSED[kind]}) cannot be read: {error}"
            raise UnknownLogEvent(message, position=str(self._cursor), hint=b.START_AGAIN) from error

    def _refused(self, kind: int) -> None:
        name, remedy = b.REFUSED[kind]
        message = f"the log has an event of type {kind} ({name})"
        raise UnknownLogEvent(message, position=str(self._cursor), hint=remedy)

    def _format(self, event: bytes, seconds: int) -> None:
        """Read the log's own description, first in each file and sent again at the start: checksums, and the file's birth."""
        cursor, group = self._cursor, self._group
        cursor.checksums = b.has_checksum(event)
        if group.created and group.created != seconds and group.file == cursor.file:
            raise LogLost(
                f"{cursor.file} was begun by the source at {seconds}, the trail read one begun at {group.created}: "
                "its log was reset",
                position=group.place,
            )
        if group.is_open and group.file != cursor.file:  # the server crashed while it wrote the transaction
            self._endings.abandon()
        group.file, group.created = cursor.file, seconds
        if cursor.offset > group.safe and not group.is_open:
            group.safe = cursor.offset

    def _rotate(self, data: bytes, body: int, stop: int, flags: int) -> None:
        """Go to the next file. An artificial event tells where the dump begins; whether it has a checksum is tried out."""
        cursor, group = self._cursor, self._group
        end = stop - b.CHECKSUM
        start = body - b.HEADER
        if crc32(data[start:end]) != _CRC.unpack_from(data, end)[0]:
            end = stop
        file, offset = b.parse_rotate(data[body:end])
        if file != cursor.file:
            if cursor.offset < cursor.skip_to:
                raise LogLost(f"{cursor.file} ends before {cursor.skip_to}", position=group.place)
            cursor.skip_to = 0
        cursor.file, cursor.offset = file, offset
        if not group.is_open and not cursor.skip_to:
            group.move(file, offset)

    def _heartbeat(self, kind: int, body: bytes) -> None:
        cursor, group = self._cursor, self._group
        file, offset = b.parse_heartbeat(kind, body, cursor.offset)
        if file == cursor.file and offset >= cursor.offset:
            cursor.offset = offset
            if not group.is_open:
                group.move(file, offset)
