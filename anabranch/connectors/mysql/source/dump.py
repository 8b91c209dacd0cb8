"""The replication connection: what a replica says to begin with, then raw blocks of the log. Decodes nothing.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html
https://mariadb.com/kb/en/3-slave-registration/
"""

from __future__ import annotations

import ssl
import struct

import pymysql

from anabranch.connectors.mysql.connection import ask, connect, family, variables
from anabranch.connectors.mysql.errors import translate, translated
from anabranch.connectors.mysql.source.positions import MysqlGtids, Place
from anabranch.connectors.sql.readable import is_readable
from anabranch.errors import SourceUnavailable
from anabranch.model.endpoint import Endpoint

HEARTBEAT = 1.0  # seconds after which a server with nothing to say says so
PATIENCE = 600  # seconds that the server waits for us to read
BLOCK = 1 << 18  # bytes asked of the socket at once
_REGISTER, _DUMP, _DUMP_GTID = 0x15, 0x12, 0x1E  # commands
_THROUGH_GTID = 0x04
FARTHEST = 0xFFFFFFFF  # COM_BINLOG_DUMP takes 32 bits: beyond, we read the file from its beginning and skip
START = 4  # offset of the first event

# Variables of the session that a replica sets before it asks; servers keep what they do not know as user variables.
_SESSION = (
    f"SET SESSION net_write_timeout = {PATIENCE}",
    f"SET @master_heartbeat_period = {int(HEARTBEAT * 1e9)}, @source_heartbeat_period = {int(HEARTBEAT * 1e9)}",
)
_CHECKSUM = "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum"
# https://mariadb.com/kb/en/gtid/#implementation-details: 4 = understands GTID events
_MARIADB_SESSION = ("SET @mariadb_slave_capability = 4",)


class Dump:
    """A stream of the log after `place`. Delivery: what the server sends, in order, or SourceUnavailable."""

    def __init__(self, endpoint: Endpoint, server_id: int, place: Place) -> None:
        self._connection = connect(endpoint, read_timeout=None)
        try:
            self._prepare()
            self._register(server_id)
            self._request(server_id, place)
        except BaseException:  # whatever it was: let go, and passed on
            self._connection._force_close()
            raise
        self._socket = self._connection._sock
        self._socket.settimeout(0)

    @property
    def server(self) -> tuple[str, int]:
        """Host and port: among several addresses, those that were chosen."""
        return self._connection.host, self._connection.port

    def receive(self, timeout: float) -> bytes | None:
        """Return the next bytes, None when there are none within `timeout` seconds."""
        with translated():
            block = self._receive()
            if block is None and timeout > 0:
                is_readable(self._socket.fileno(), timeout)
                block = self._receive()
        if block == b"":
            raise SourceUnavailable("the source closed the connection that its log came over")
        return block

    def close(self) -> None:
        self._connection._force_close()

    def _receive(self) -> bytes | None:
        try:
            received: bytes = self._socket.recv(BLOCK)
            return received
        except (BlockingIOError, ssl.SSLWantReadError):
            return None

    def _prepare(self) -> None:
        for statement in _SESSION:
            ask(self._connection, statement)
        if "binlog_checksum" in variables(self._connection, "binlog_checksum"):
            ask(self._connection, _CHECKSUM)
        if family(self._connection) == "mariadb":
            for statement in _MARIADB_SESSION:
                ask(self._connection, statement)

    def _register(self, server_id: int) -> None:
        """Show us among the replicas; names are left empty, the server only displays them."""
        self._command(_REGISTER, struct.pack("<IBBBHII", server_id, 0, 0, 0, 0, 0, 0))
        try:
            self._connection._read_ok_packet()
        except (pymysql.err.Error, OSError) as error:
            raise translate(error) from error

    def _request(self, server_id: int, place: Place) -> None:
        if place.by_gtid and place.family == "mariadb":
            ask(self._connection, "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1", place.gtid)
            self._command(_DUMP, struct.pack("<IHI", START, 0, server_id))
        elif place.by_gtid:
            gtids = MysqlGtids(place.gtid).encode()
            head = struct.pack("<HIIQI", _THROUGH_GTID, server_id, 0, START, len(gtids))
            self._command(_DUMP_GTID, head + gtids)
        else:
            offset = place.offset if place.offset <= FARTHEST else START
            self._command(_DUMP, struct.pack("<IHI", offset, 0, server_id) + place.file.encode())

    def _command(self, number: int, body: bytes) -> None:
        with translated():
            self._connection._execute_command(number, body)
