"""The connection that a PostgreSQL's log comes over: messages of a slot in, places that are durable here out.

https://www.postgresql.org/docs/current/protocol-replication.html
What does not live here: what messages mean (assemble.py), when a place may be told (capture.py).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping

import psycopg
from psycopg import pq

from anabranch.connectors.postgresql.connection import Connection, opened
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.quoting import literal, quote
from anabranch.connectors.postgresql.source.connection import NAME, refuse_unsettled
from anabranch.connectors.postgresql.source.errors import translate, translated
from anabranch.connectors.postgresql.source.positions import lsn_of, lsn_text
from anabranch.connectors.postgresql.source.stored_text import NO_ENCODING, as_stored, codec_of, server_encoding
from anabranch.connectors.sql.readable import is_readable
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint

DATA, KEEPALIVE = b"wk"
DATA_HEAD = 25  # bytes before a message: kind, start, end, time
_KEEPALIVE = struct.Struct(">xQqB")
_STATUS = struct.Struct(">cQQQqB")
_EPOCH = 946_684_800_000_000  # microseconds from 1970 to 2000
_IN_USE, _UNKNOWN_OPTION = "55006", "22023"
_NO_FILE, _CANCELED = b"58P01", "57014"
_PATIENCE, _POLL = 10.0, 0.1  # seconds for a former reader of the slot to be gone; between two looks


class WalStream:
    """A connection, and the one slot that is read over it once it has begun. `timeline`: the one that the server is on;
    `encoding`: the database's; `codec`: Python's name for the text that comes."""

    def __init__(self, endpoint: Endpoint, is_stored: bool = False) -> None:
        """Connect. `is_stored`: text is to come as it is stored. Raises SourceUnavailable, SourceError."""
        with translated(f"cannot connect to {endpoint} for replication"):
            self._connection: Connection
            self._connection, _ = opened(endpoint, NAME, replication="database", autocommit=True)
            refuse_unsettled(self._connection, endpoint, walsender=True)
            self._pg = self._connection.pgconn
            self.encoding, self.codec = server_encoding(self._connection), "utf-8"
            if is_stored or self.encoding == NO_ENCODING:
                self._get_as_stored()
        self._end: SourceError | None = None  # of the stream, behind what was received
        self.timeline = int(self._asked(b"IDENTIFY_SYSTEM", 1))

    def _get_as_stored(self) -> None:
        """Ask for text as it is stored: a server without an encoding would end the stream at text that is not UTF-8,
        and name no row.

        The reader of the values checks them instead.
        """
        result = self._pg.exec_(as_stored(self.encoding))
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
        self.codec = codec_of(self._connection)

    def history(self) -> list[tuple[int, int]]:
        """Ask which timelines the server was on before this one, the oldest first, each with the place where it left it.

        Nothing where the server does not have the file any more.
        """
        if self.timeline == 1:
            return []
        result = self._pg.exec_(f"TIMELINE_HISTORY {self.timeline}".encode())
        if result.error_field(pq.DiagnosticField.SQLSTATE) == _NO_FILE:
            return []
        found = (line.split()[:2] for line in _value(result, 1).decode().splitlines() if line[:1].isdigit())
        return [(int(number), lsn_of(place)) for number, place in found]

    def _asked(self, command: bytes, column: int) -> bytes:
        return _value(self._pg.exec_(command), column)

    def keep_at_standbys(self, slot: str, failover: bool) -> str:
        """Have standbys keep the slot, or not any more (17 and later). Returns why it is not so, "" where it is.

        The server waits for another reader of the slot without end, so that we give up. Raises SourceUnavailable.
        https://www.postgresql.org/docs/17/protocol-replication.html#PROTOCOL-REPLICATION-ALTER-REPLICATION-SLOT
        """
        command = f"ALTER_REPLICATION_SLOT {quote(slot)} (FAILOVER {str(failover).lower()})"
        with translated("have standbys keep the slot"):
            self._pg.send_query(command.encode())
            if not self._has_answered(_PATIENCE):
                self._connection.cancel_safe(timeout=_PATIENCE)
                if not self._has_answered(_PATIENCE):
                    raise SourceUnavailable("the source does not end a command that it was told to end")
            result = self._pg.get_result()
            while self._pg.get_result() is not None:
                pass
        if result is None or result.status == pq.ExecStatus.COMMAND_OK:
            return ""
        error = psycopg.errors.error_from_result(result)
        return "another process reads it" if error.sqlstate in (_IN_USE, _CANCELED) else describe(error)

    def _has_answered(self, seconds: float) -> bool:
        """Wait for the end of what was sent, up to so many seconds. Returns whether it has come."""
        until = time.monotonic() + seconds
        while self._pg.is_busy():
            if not is_readable(self._pg.socket, until - time.monotonic()):
                return False
            self._pg.consume_input()
        return True

    def begin(self, slot: str, after: int, options: Mapping[str, str], newer: Mapping[str, str]) -> bool:
        """Read the slot from `after` on, with these options of its plugin and with `newer`. False: without `newer`, which it
        does not know. Raises SourceUnavailable, also where another process reads the slot; SourceError."""
        command = f"START_REPLICATION SLOT {quote(slot)} LOGICAL {lsn_text(after)}"
        if newer and self._begin(command, {**options, **newer}, is_trial=True):
            return True
        self._begin(command, options)
        return False

    def _begin(self, command: str, options: Mapping[str, str], is_trial: bool = False) -> bool:
        """Begin to read. Returns whether it is read now; in a trial it need not be, because the plugin may not know an
        option.
        """
        words = ", ".join(f"{quote(name)} {literal(value)}" for name, value in options.items())
        command = f"{command} ({words})" if words else command
        until = time.monotonic() + _PATIENCE
        while True:
            result = self._pg.exec_(command.encode())
            if result.status == pq.ExecStatus.COPY_BOTH:
                return True
            error = psycopg.errors.error_from_result(result)
            if is_trial and error.sqlstate == _UNKNOWN_OPTION:
                return False
            if error.sqlstate != _IN_USE or time.monotonic() > until:
                raise translate(error, "read the slot")
            time.sleep(_POLL)

    def receive(self, seconds: float) -> memoryview | None:
        """Return the next message of the protocol, None after so many seconds without one. Raises SourceUnavailable,
        SourceError.
        """
        try:
            size, data = self._pg.get_copy_data(1)
            if size == 0 and is_readable(self._pg.socket, seconds):
                self._pg.consume_input()
                size, data = self._pg.get_copy_data(1)
        except psycopg.Error as error:
            raise translate(error, "read the log") from None
        if size < 0:
            raise self._ended()
        return data if size else None

    def receive_some(self, most: int, size: int) -> list[bytes]:
        """Return messages that are here already, up to `most`, or until they have `size` bytes.

        Raises SourceUnavailable, SourceError: behind all that came before.
        """
        if self._end is not None:
            raise self._end
        get, found, taken = self._pg.get_copy_data, list[bytes](), 0
        try:
            while len(found) < most and taken < size:
                got, data = get(1)
                if got == 0:
                    self._pg.consume_input()
                    got, data = get(1)
                if got <= 0:
                    break
                found.append(bytes(data))
                taken += got
            else:
                got = 0
        except psycopg.Error as error:
            raise translate(error, "read the log") from None
        if got < 0:
            self._end = self._ended()
            if not found:
                raise self._end
        return found

    def tell(self, written: int, flushed: int, asks: bool = False) -> None:
        """Tell the server up to where messages came, and are durable. `asks`: for a keepalive at once. Raises
        SourceUnavailable.
        """
        now = time.time_ns() // 1000 - _EPOCH
        try:
            self._pg.put_copy_data(_STATUS.pack(b"r", written, flushed, flushed, now, asks))
            self._pg.flush()
        except psycopg.Error as error:
            raise translate(error, "confirm the log") from None

    def close(self) -> None:
        self._connection.close()

    def _ended(self) -> SourceError:
        result = self._pg.get_result()
        if result is None or not result.error_message:
            return SourceUnavailable("the source has ended the stream of its log")
        return translate(psycopg.errors.error_from_result(result), "read the log")


def _value(result: pq.abc.PGresult, column: int) -> bytes:
    """Return a column of the one row that answers. Raises SourceError."""
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise translate(psycopg.errors.error_from_result(result), "ask the source where it is")
    return result.get_value(0, column) or b""


def data_start(message: bytes | memoryview) -> int:
    """Return the place that a message of DATA came with: of a commit, where it ended."""
    return int.from_bytes(message[1:9])


def keepalive(message: bytes | memoryview) -> tuple[int, int, bool]:
    """Parse a keepalive: up to where everything was sent; the server's time, microseconds since 1970; whether it wants
    an answer.
    """
    end, sent, asks = _KEEPALIVE.unpack(message)
    return end, sent + _EPOCH, bool(asks)
