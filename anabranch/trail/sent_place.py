"""Follow what is sent of a trail, and say what a replica has that has taken it in.

Only prefixes and checksums of frames are looked at, as a replica does (`replica_segment.py`), so a trail that is encrypted is
followed without its key, and damaged bytes are not sent to where they could not be taken back. What does not live here: what
is sent (`outgoing.py`).
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from anabranch.errors import TrailCorrupt
from anabranch.rows.chunk import Part
from anabranch.trail.format import PREFIX_LENGTH, Frame, FrameKind, SegmentName, decode_prefix, head_is_intact
from anabranch.trail.outgoing import HistoryPiece, Piece, SegmentPiece
from anabranch.trail.replica import Held


class SentPlace:
    """Take pieces in the order in which they are sent. `held`: what a replica has behind them, up to its last whole frame.

    Delivery: none; it says what another one has."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self._begin(held.length)

    def take(self, piece: Piece) -> None:
        """Follow a piece. Raises TrailCorrupt where no frame begins and one has to, or a checksum is wrong."""
        if isinstance(piece, HistoryPiece):
            before = self.held.history_sum if piece.offset else 0
            self.held = replace(
                self.held, history=piece.offset + len(piece.data), history_sum=zlib.crc32(piece.data, before)
            )
            return
        if str(piece.name) != self.held.file:
            self._enter(piece.name)
        self._walk(piece)

    def _enter(self, name: SegmentName) -> None:
        sequence = self.held.sequence if self.held.file else name.next - 1
        self.held = replace(self.held, file=str(name), length=0, first="", last=(0, ""), sequence=sequence)
        self._begin(0)

    def _begin(self, at: int) -> None:
        """Expect a frame."""
        self._at, self._seen = at, 0  # where it begins, and how many bytes of it came
        self._front = b""  # its prefix and head, as far as they came
        self._frame: Frame | None = None
        self._body_crc = 0
        self._is_sealed = False

    def _walk(self, piece: SegmentPiece) -> None:
        data = memoryview(piece.data)
        while not self._is_sealed:
            came = data[self._at + self._seen - piece.offset :]
            if not came:
                return
            if self._frame is None or len(self._front) < PREFIX_LENGTH + self._frame.head_length:
                self._take_front(piece.name, came)
            else:
                came = came[: self._frame.length - self._seen]
                self._body_crc = zlib.crc32(came, self._body_crc)
                self._seen += len(came)
            if self._frame and self._seen == self._frame.length:
                if self._body_crc != self._frame.body_crc:
                    raise self._damage(piece.name, "the checksum of a frame's body is wrong")
                self._pass(self._frame)

    def _take_front(self, name: SegmentName, came: memoryview) -> None:
        """Take bytes of a frame's prefix, then of its head."""
        wanted = PREFIX_LENGTH + (self._frame.head_length if self._frame else 0)
        came = came[: wanted - len(self._front)]
        self._front += came
        self._seen += len(came)
        if len(self._front) < wanted:
            return
        found = decode_prefix(self._front)
        if found is None:
            raise self._damage(name, "no frame begins here")
        is_first = self._frame is None
        self._frame = found[0]
        if (not is_first or not self._frame.head_length) and not head_is_intact(self._front, *found):
            raise self._damage(name, "the checksum of a frame's head is wrong")

    def _damage(self, name: SegmentName, what: str) -> TrailCorrupt:
        hint = "nothing of it is sent; anabranch trail check JOB says what else is damaged: restore it from a backup"
        return TrailCorrupt(f"segment {name}, byte {self._at}: {what}", hint=hint)

    def _pass(self, frame: Frame) -> None:
        """Go over a frame of which all bytes came."""
        prefix, held = self._front[:PREFIX_LENGTH].hex(), self.held
        is_whole = frame.kind == FrameKind.CHUNK and frame.part is not Part.FRAGMENT
        sequence = frame.last if is_whole else held.sequence
        self.held = replace(
            held,
            length=self._at + frame.length,
            first=held.first or prefix,
            last=(self._at, prefix),
            sequence=sequence,
            published=sequence,
        )
        self._begin(self.held.length)
        self._is_sealed = frame.kind == FrameKind.FOOTER
