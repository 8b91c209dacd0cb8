"""Raw rows of a source (`mysql/packets.py`), with errors of our tree, also in the middle of a result."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from anabranch.connectors.mysql.errors import translated
from anabranch.connectors.mysql.packets import Front, RawRows


class SourceRows(RawRows):
    """Raises SourceUnavailable or SourceError."""

    def __init__(self, connection: pymysql.Connection, sql: str) -> None:
        with translated():
            super().__init__(connection, sql)

    def payloads(self, front: Front | None = None) -> Iterator[bytes | list[bytes]]:
        with translated():
            yield from super().payloads(front)
