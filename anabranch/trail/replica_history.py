"""The schema history of a replica: bytes of the other trail's, added line by line, or put in its place as a whole."""

from __future__ import annotations

import os
import zlib

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.trail.failures import syncing, writing
from anabranch.trail.history import FILE
from anabranch.trail.storage import LocalStorage, Writable, read_whole

PART = FILE + ".part"
AGAIN = "connect again: both sides then agree on where they are"


class HistoryCopy:
    """`length` bytes of it came and are durable after `sync`; `sum` is their CRC-32."""

    def __init__(self, storage: LocalStorage, length: int) -> None:
        """Open it as far as it is published. Raises TrailCorrupt where it is shorter."""
        self._storage = storage
        data = read_whole(storage, FILE)[:length] if FILE in storage.names() else b""
        if len(data) < length:
            what = f"{storage.path(FILE)} ends at {len(data)} bytes, {length} were published"
            raise TrailCorrupt(what, hint="restore the file from a backup of the replica, or begin the replica anew")
        self.length, self.sum = length, zlib.crc32(data)
        self._added = self._synced = length
        self._sum_added, self._open_line = self.sum, b""
        self._file: Writable = storage.reopen(FILE)
        self._is_anew = False

    def add(self, offset: int, data: bytes, is_anew: bool = False) -> None:
        """Add bytes behind those that came. Raises TrailError for a gap, TrailCorrupt for a line that is damaged."""
        if is_anew and not offset:
            self._begin_anew()
        if offset != self._added or is_anew != self._is_anew:
            raise TrailError(f"the schema history has {self._added} bytes, others begin at {offset}", hint=AGAIN)
        *lines, rest = (self._open_line + data).split(b"\n")
        for line in lines:
            if line[8:9] != b" " or line[:8] != b"%08x" % zlib.crc32(line[9:]):
                what = f"the schema history came damaged, near byte {offset}: a line's checksum is wrong"
                raise TrailCorrupt(what, hint=AGAIN)
        with writing("the schema history"):
            self._file.write_at(offset, [data])
        self._open_line = rest
        self._added += len(data)
        self._sum_added = zlib.crc32(data, self._sum_added)

    def sync(self) -> None:
        """Make whole lines that came durable. A history that is to take another's place does so now."""
        if (self._added == self._synced and not self._is_anew) or self._open_line:
            return
        with syncing("the schema history"):
            self._file.sync()
        if self._is_anew:
            with writing("the schema history"):
                self._storage.rename(PART, FILE)
            self._is_anew = False
        self.length, self.sum, self._synced = self._added, self._sum_added, self._added

    def close(self) -> None:
        self._file.close()

    def _begin_anew(self) -> None:
        self._file.close()
        with writing("the schema history"):
            if PART in self._storage.names():
                os.unlink(self._storage.path(PART))
            self._file = self._storage.create(PART)
        self._added = self._sum_added = 0
        self._open_line, self._is_anew = b"", True
