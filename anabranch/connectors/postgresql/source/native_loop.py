"""The compiled half of the loop over pgoutput's messages: it goes on while everything is plain, and says how far it came.

What does not live here: what becomes of it (decode_pgoutput.py), the loop itself (`native/src/messages.rs`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from anabranch.connectors.postgresql.source.native_rows import NativeMessageBuffer
from anabranch.connectors.postgresql.source.relations import Known
from anabranch.rows import compiled
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.compiled import CompiledDirectory

FULL, FLUSH = 1, 2  # what is to be done next
Open = tuple[int | None, int, int, str | None]


class FollowedFrames(NamedTuple):
    """State where the loop stopped: the number of the next message, the open transaction (its id, where its commit
    is, its images, its origin), where the last one ended, and when it was committed; `next`: FULL, FLUSH, or 0,
    Python has to look."""

    at: int
    xid: int | None
    begun: int
    ordinal: int
    origin: str | None
    end: tuple[int, int] | None
    next: int


class NativeLoop:
    """Takes begins and commits, and rows of relations that Python has read. `builder`: what it puts them into; `leave_out`:
    origins at which it stops."""

    def __init__(self, leave_out: frozenset[str] = frozenset()) -> None:
        self._loop: Any = compiled.NATIVE.Messages(leave_out)
        self.builder = ChunkBuilder(NativeMessageBuffer, CompiledDirectory(self._loop))

    def know(self, name: bytes, known: Known) -> None:
        """Register a relation of the log: how its rows are read, None where they are left out."""
        if known is None:
            self._loop.know(name, None)
        elif known[1].compiled is not None:
            self._loop.know(name, known[1].compiled)
        else:
            self._loop.forget(name)

    def follow(self, frames: list[bytes], at: int, open: Open, is_plain: bool, full: tuple[int, int]) -> FollowedFrames:
        """Follow frames from number `at` on. `open`: as in Followed; `is_plain`: whether it may end here; `full`:
        images and bytes of a chunk.
        """
        builder = self.builder
        sizes = builder.transaction, builder.images, builder.size
        following, at, open, sizes, end = self._loop.follow(frames, at, open, is_plain, sizes, full)
        builder.transaction, builder.images, builder.size = sizes
        return FollowedFrames(at, *open, end, following)
