"""Packets of rows as a server sends them, and what reads them without one."""

from __future__ import annotations

import io

from anabranch.connectors.mysql import packets
from anabranch.connectors.mysql.source.packets import SourceRows

EOF = b"\xfe\0\0\x02\0"


class Line:
    """A socket's file that gives at most `step` bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self.data, self.step = io.BytesIO(data), step

    def read1(self, most: int) -> bytes:
        return self.data.read(min(most, self.step))


class Connection:
    def __init__(self) -> None:
        self.is_cut = False

    def _force_close(self) -> None:
        self.is_cut = True


def packet(payload: bytes, limit: int = packets.CONTINUED) -> bytes:
    parts = [payload[at : at + limit] for at in range(0, len(payload) + 1, limit)]
    return b"".join(len(part).to_bytes(3, "little") + b"\0" + part for part in parts)


def lenenc(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    width, mark = (2, 0xFC) if size < 1 << 16 else (3, 0xFD) if size < 1 << 24 else (8, 0xFE)
    return bytes([mark]) + size.to_bytes(width, "little") + value


def rows_of(data: bytes, step: int, width: int = 1) -> tuple[SourceRows, Connection]:
    raw, connection = SourceRows.__new__(SourceRows), Connection()
    raw._connection, raw._finished, raw.width = connection, False, width
    raw._file = Line(data, step)
    return raw, connection
