"""Heartbeats that the reader of a log writes into it: messages that move the place on where nothing of the job happens
while others make the log grow, or where its last records would stay in the server's memory. Their time tells how old what
was read is.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-REPLICATION What does not live here: reading them
(assemble.py), keepalives, which move the place as well (capture.py).
"""

from __future__ import annotations

from anabranch import log
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.positions import lsn_text
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint

GROWN = 1 << 20  # bytes of log that are worth a message: a server on which nothing happens stays as it is
_WRITE = """
SELECT pg_catalog.pg_logical_emit_message(false, %s, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint::text)
"""
# The server sends only what it has written down. The last records may be of a session that rolled back, or was refused at its
# start, and had set hints: nobody asks for them to be written down, and the next one that does comes after up to 15 s.
# https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-WAL-LOG-HINTS
_BRING = f"""{_WRITE.rstrip()}
 WHERE pg_catalog.pg_current_wal_flush_lsn() <= %s::pg_catalog.pg_lsn
   AND pg_catalog.pg_current_wal_insert_lsn() > pg_catalog.pg_current_wal_flush_lsn()
"""


def written_at(content: bytes) -> int:
    """Return the time in a message: microseconds since 1970, by the source's clock. Raises ValueError."""
    return int(content)


class Heartbeat:
    """Writes a message, named as the slot, when the log has grown and the last one is `every` seconds old (0: never)."""

    def __init__(self, endpoint: Endpoint, name: str, every: float) -> None:
        self._endpoint, self._name, self._every = endpoint, name, every
        self._next, self._at = 0.0, 0
        self._brings = every > 0

    def begin(self, now: float, lsn: int) -> None:
        """Begin, at this place of the log."""
        self._next, self._at = now + self._every, lsn

    def beat(self, now: float, lsn: int) -> None:
        """Write a heartbeat if it is due: nothing came for a moment, and the server has read its log up to `lsn`.

        One that is refused is reported once, and not tried again; one that the connection did not let through is tried
        later.
        """
        if not self._every or now < self._next or lsn < self._at + GROWN:
            return
        self._next, self._at = now + self._every, lsn
        try:
            with open_session(self._endpoint) as connection:
                self._write(connection, _WRITE, [self._name])
        except SourceUnavailable:
            return
        except SourceError as refused:
            self._every = 0.0
            log.get().warning("heartbeat_refused", why=refused.message)

    def bring(self, connection: Connection, lsn: int) -> None:
        """Have the server write down the last of its log where that is more than it could send, and all else was read: up to
        `lsn`. A message of a session that commits does. Where it is refused, that comes in the server's own time."""
        if self._brings:
            try:
                self._write(connection, _BRING, [self._name, lsn_text(lsn)])
            except SourceUnavailable:
                raise
            except SourceError as refused:  # the heartbeats go on
                self._brings = False
                log.get().warning("log_not_written_down", why=refused.message)

    def _write(self, connection: Connection, statement: str, values: list[str]) -> None:
        with translated("write a heartbeat into the log"):
            connection.execute(statement.encode(), values)
