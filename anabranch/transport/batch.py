"""Gather what is sent into the body of the next piece, and say where it may end.

A piece ends at a whole frame, so that a replica that has it can say so durably; where one frame is larger than two pieces it
ends within it. Lines of the schema history stay together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from anabranch.trail.outgoing import HistoryPiece, Piece, SegmentPiece
from anabranch.trail.replica import Held
from anabranch.trail.replica_files import LoadFile
from anabranch.trail.sent_place import SentPlace
from anabranch.transport.messages import BODY_LIMIT, Kind, encode

SIZE = 8 << 20  # bytes of a piece, before it is compressed
assert SIZE > BODY_LIMIT


class Batch:
    """`held`: what a replica has behind what was gathered, and behind all before it."""

    def __init__(self, held: Held, size: int = SIZE) -> None:
        self._place, self._size = SentPlace(held), size
        self._parts: list[bytes] = []
        self._since = 0.0
        self.bytes = 0
        self.files: list[LoadFile] = []
        """Files of a load of which the last bytes are in it."""

    @property
    def held(self) -> Held:
        return self._place.held

    @property
    def age(self) -> float:
        """Seconds since the first of it came; 0 without any."""
        return time.monotonic() - self._since if self._parts else 0.0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, piece: Piece) -> Iterator[None]:
        """Add a piece of the trail; yield each time when the batch is full: take its body before going on."""
        self._place.take(piece)
        if isinstance(piece, HistoryPiece):
            self._say(Kind.HISTORY, {"offset": piece.offset, "anew": piece.is_anew}, piece.data)
            return
        whole = max(0, min(len(piece.data), self.held.length - piece.offset))
        is_full = self.bytes + len(piece.data) >= self._size
        if not is_full or not whole:
            self._segment(piece)
            if self.bytes >= 2 * self._size:
                yield
            return
        self._segment(SegmentPiece(piece.name, piece.offset, piece.data[:whole]))
        yield
        if whole < len(piece.data):
            self._segment(SegmentPiece(piece.name, piece.offset + whole, piece.data[whole:]))

    def add_file(self, file: LoadFile, offset: int, data: bytes) -> bool:
        """Add bytes of a file of a load. Returns whether the batch is full."""
        self._say(Kind.FILE, {"name": file.name, "size": file.size, "sum": file.sum, "offset": offset}, data)
        if offset + len(data) >= file.size:
            self.files.append(file)
        return self.bytes >= self._size

    def take(self) -> tuple[bytes, list[LoadFile]]:
        """Return the body of a piece, and the files that end in it; the batch is empty afterwards."""
        body, files = b"".join(self._parts), self.files
        self._parts, self.files, self.bytes = [], [], 0
        return body, files

    def _segment(self, piece: SegmentPiece) -> None:
        self._say(Kind.SEGMENT, {"name": str(piece.name), "offset": piece.offset}, piece.data)

    def _say(self, kind: Kind, head: dict[str, object], data: bytes) -> None:
        if not self._parts:
            self._since = time.monotonic()
        self._parts.append(encode(kind, head, data))
        self.bytes += len(self._parts[-1])
