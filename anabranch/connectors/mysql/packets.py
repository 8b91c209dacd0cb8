"""Raw rows of a query: packets of the text protocol, split from large reads of the socket.

PyMySQL authenticates, encrypts and sends the statement; reading its results row by row would cost more than the server.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html
What does not live here: what the values mean, errors of our tree (each role has its own).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pymysql
from pymysql.constants import COMMAND

READ = 1 << 18  # bytes asked of the socket at once
CONTINUED = 0xFFFFFF  # a payload of this size goes on in the next packet
# https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html: first byte -> bytes of the length
PREFIX = tuple({0xFC: 3, 0xFD: 4, 0xFE: 9}.get(first, 1) for first in range(256))
NULL, END, FAILED = 0xFB, 0xFE, 0xFF
NO_LINE = bytes([NULL])  # a row whose only column is NULL
_header = struct.Struct("<I").unpack_from
Front = Callable[[bytes], tuple[bytes, int]]
"""Takes what it can of the packets at the front of a buffer: what it made of them, and where it came to."""


class RawRows:
    """The rows of one statement. The connection can be used again only after the last one: else it is cut.

    Raises errors of the driver and of the socket, also in the middle of a result."""

    def __init__(self, connection: pymysql.Connection, sql: str) -> None:
        self._connection = connection
        self._finished = False
        connection.is_waiting = True  # for a lock, perhaps
        try:
            connection._execute_command(COMMAND.COM_QUERY, sql)
            self.width = int(connection._read_packet().read_length_encoded_integer())
            for _ in range(self.width + 1):  # column definitions and the end of them
                connection._read_packet()
        finally:
            connection.is_waiting = False
        self._file = connection._rfile

    def payloads(self, front: Front | None = None) -> Iterator[bytes | list[bytes]]:
        """Yield the rows as they come, in lists; what `front` made of them where it took some."""
        try:
            yield from self._taken(front or _nothing)
        finally:
            if not self._finished:
                self._connection._force_close()

    def _taken(self, front: Front) -> Iterator[bytes | list[bytes]]:
        left = b""
        while not self._finished:
            data = self._read()
            buffer = left + data if left else data
            made, at = front(buffer)
            if made:
                yield made
            rows, used, missing = self._split(buffer, at)
            left = buffer[used:]
            if missing > READ:
                left += self._exactly(missing)
            if rows:
                yield rows

    def _split(self, buffer: bytes, at: int) -> tuple[list[bytes], int, int]:
        """Return the whole payloads in `buffer` from `at` on, the bytes used, and the bytes missing of the next one."""
        rows: list[bytes] = []
        end = len(buffer)
        while end - at > 4:
            size = _header(buffer, at)[0] & 0xFFFFFF
            after = at + 4 + size
            if after > end:
                return rows, at, after - end
            if size == CONTINUED:
                whole, after, missing = _continued(buffer, at)
                if missing:
                    return rows, at, missing
                rows.append(whole)
            elif buffer[at + 4] >= END and self._is_last(buffer[at + 4 : after]):
                return rows, after, 0
            else:
                rows.append(buffer[at + 4 : after])
            at = after
        return rows, at, 0

    def _is_last(self, payload: bytes) -> bool:
        if payload[0] == FAILED:
            self._finished = True
            number = int.from_bytes(payload[1:3], "little")
            text = payload[3:].decode("utf-8", "replace")[6 * (payload[3:4] == b"#") :]
            raise pymysql.err.OperationalError(number, text)
        self._finished = len(payload) < 9
        return self._finished

    def _read(self, most: int = READ) -> bytes:
        self._connection.is_waiting = True  # a server that falls silent in the middle is told of as well
        try:
            data: bytes = self._file.read1(most)
        finally:
            self._connection.is_waiting = False
        if not data:
            raise ConnectionError("the server closed the connection in the middle of a result")
        return data

    def _exactly(self, missing: int) -> bytes:
        parts = []
        while missing:
            parts.append(self._read(min(missing, READ)))
            missing -= len(parts[-1])
        return b"".join(parts)


def _nothing(buffer: bytes) -> tuple[bytes, int]:
    return b"", 0


def single(payload: bytes) -> bytes:
    """Return the value of a row with one column that is never NULL."""
    return payload[PREFIX[payload[0]] :]


def values(payload: bytes, width: int) -> list[bytes | None]:
    """Return the values of a row with `width` columns."""
    found: list[bytes | None] = []
    at = 0
    for _ in range(width):
        first = payload[at]
        if first == NULL:
            found.append(None)
            at += 1
            continue
        start = at + PREFIX[first]
        at = start + (first if first < NULL else int.from_bytes(payload[at + 1 : start], "little"))
        found.append(payload[start:at])
    return found


def _continued(buffer: bytes, at: int) -> tuple[bytes, int, int]:
    """Return a payload over several packets: itself, where it ends, bytes still missing."""
    parts = []
    while True:
        if len(buffer) - at < 4:
            return b"", at, 4 - (len(buffer) - at)
        size = _header(buffer, at)[0] & 0xFFFFFF
        after = at + 4 + size
        if after > len(buffer):
            return b"", at, after - len(buffer)
        parts.append(buffer[at + 4 : after])
        at = after
        if size < CONTINUED:
            return b"".join(parts), at, 0


def joined(raw: RawRows, wanted: Callable[[bytes], bytes], front: Front | None = None) -> Iterator[bytes]:
    """Yield blocks of whole lines: those that `front` made, and what `wanted` makes of the payloads that it left."""
    for some in raw.payloads(front):
        yield some if isinstance(some, bytes) else b"".join(map(wanted, some))
