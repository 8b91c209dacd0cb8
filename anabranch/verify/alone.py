"""Pieces of ends in whose snapshots one connection alone can read: this process reads them over it, one after another, while
tasks of Spark read the other end's. What does not live here: opening the snapshots (exact.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.spark.work import Failure, Outcome
from anabranch.verify.digest import PieceReading
from anabranch.verify.plan import VerifyPiece


@dataclass(frozen=True)
class Alone:
    """Readers by the end whose pieces they alone read: `source`, `target`. `failed`: one of them did, so its snapshot is not
    certain any more, and nobody goes on."""

    readers: Mapping[str, Any] = field(default_factory=dict)
    failed: threading.Event = field(default_factory=threading.Event)

    def others(self, pieces: Sequence[VerifyPiece]) -> list[VerifyPiece]:
        """Return the pieces that tasks read."""
        return [piece for piece in pieces if _end(piece) not in self.readers]

    @contextmanager
    def reading(
        self,
        work: PieceReading,
        pieces: Sequence[VerifyPiece],
        take: Callable[[Outcome], None],
        is_over: Callable[[], bool],
    ) -> Iterator[None]:
        """Read the pieces of these readers while the block runs, and until they are through; `take` is called in a thread for
        each reader, with a failure for a piece that its snapshot does not keep. Raises the first other error of any of them."""
        if not self.readers:
            yield
            return
        with ThreadPoolExecutor(len(self.readers), "verify") as threads:
            reading = [threads.submit(self._read, work, end, pieces, take, is_over) for end in self.readers]
            try:
                yield
            except BaseException:  # whatever it was, it is passed on
                self.failed.set()
                raise
        for one in sorted(reading, key=lambda one: one.exception() is None):
            one.result()

    def _read(
        self,
        work: PieceReading,
        end: str,
        pieces: Sequence[VerifyPiece],
        take: Callable[[Outcome], None],
        is_over: Callable[[], bool],
    ) -> None:
        own = replace(work, kept={end: self.readers[end]})
        try:
            for piece in pieces:
                if is_over():
                    return
                if _end(piece) == end:
                    take(_read(own, piece))
        except BaseException:  # whatever it was, it is passed on
            self.failed.set()
            raise


def _read(own: PieceReading, piece: VerifyPiece) -> Outcome:
    """Read a piece. An error that the snapshot outlasts, since its reader is kept, is the outcome."""
    try:
        with own.read(piece) as (header, blocks):
            return Outcome(piece, own.finish(piece, header, blocks))
    except AnabranchError as error:
        if not own.kept:
            raise
        return Outcome(piece, failure=Failure.of(error))


def _end(piece: VerifyPiece) -> str:
    return "source" if piece.is_source else "target"
