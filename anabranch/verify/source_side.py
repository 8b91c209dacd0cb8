"""Rows of a source for who compares them elsewhere: read as they are beside writers, between two known places of the
trail.

Everything up to the first place is in what is read, nothing behind the second: a row that did not change between them
is told as it is at any place of both. So no snapshot has to be kept, and pieces are read side by side. What does not
live here: what travels (told.py), comparing (elsewhere.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch import pace
from anabranch.contracts import ReadTarget, SourceConnector
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.position import LogMark
from anabranch.spark.engine import Engine
from anabranch.spark.work import Bundle, Outcome
from anabranch.trail.reader import TrailReader
from anabranch.verify.again import NOT_CAPTURED, NOT_SHOWN
from anabranch.verify.digest import PieceReading, Summing, Sums
from anabranch.verify.places import Places
from anabranch.verify.plan import VerifyPiece, VerifyTable
from anabranch.verify.told import MOST_ROWS, Asked, Digesting, Told

ROWS_PER_PIECE = 200_000
PATIENCE = 60.0  # seconds for the source to show what the trail has, and for capture to come to what was read
RUN = "let it run: anabranch run JOB"


class Stopped(Exception):
    """The process was asked to stop while rows were read."""


class TooMany(Exception):
    """These are more rows than are told one by one."""


@dataclass(frozen=True)
class SourceSide:
    """`target`: no row of it is read; `identity`: of the server that the trail is of."""

    engine: Engine
    trail: Path
    source: SourceConnector
    target: ReadTarget
    identity: str
    stop: Callable[[], bool] = lambda: False

    def told(self, one: VerifyTable, asked: Asked) -> Told:
        """Return what is asked of a table. Raises SourceError where it cannot be told, Stopped."""
        with TrailReader(self.trail, name="verify") as trail, closing(self.source.catalog()) as catalog:
            places = Places(trail, self.source.order)
            server = self._server(catalog.mark())
            until = time.monotonic() + PATIENCE
            if not places.find_floor(catalog, lambda: self.stop() or time.monotonic() > until):
                self._refuse(one, NOT_SHOWN)
            assert places.floor is not None, "it was found"
            low, found = places.floor, self._read(one, asked)
            mark = catalog.mark()
            if self._server(mark) != server:
                raise SourceUnavailable(f"connections to the source lead to two servers, {server} and another one")
            self._await_capture(one, places, mark)
            sums, rows = (found, ()) if isinstance(found, Sums) else (None, found)
            return Told(low, places.high(mark), sums, rows)

    def _server(self, mark: LogMark) -> str:
        return self.source.order.server(mark)

    def _await_capture(self, one: VerifyTable, places: Places, mark: LogMark) -> None:
        until = time.monotonic() + PATIENCE
        while not places.is_reached(mark):
            if self.stop() or time.monotonic() > until:
                self._refuse(one, NOT_CAPTURED)
            time.sleep(pace.current.verify_poll)

    def _read(self, one: VerifyTable, asked: Asked) -> Sums | Sequence[tuple[bytes, bytes]]:
        with closing(self.source.snapshot(self.identity)) as snapshot:
            cut = [VerifyPiece(one, bounds=bounds) for bounds in snapshot.bounds(one.schema, ROWS_PER_PIECE)]
        ends = self.source, self.target, asked.rules, self.identity
        if asked.buckets is None:
            return summed(self.engine, Summing(*ends), cut, self.stop)
        try:
            return digested(self.engine, Digesting(*ends, asked.buckets), cut, self.stop)
        except TooMany as error:
            raise SourceError(str(error), table=str(one.table.source)) from None

    def _refuse(self, one: VerifyTable, why: str) -> None:
        if self.stop():
            raise Stopped
        raise SourceError(why, table=str(one.table.source), hint=RUN)


def summed(engine: Engine, work: PieceReading, cut: Sequence[VerifyPiece], stop: Callable[[], bool]) -> Sums:
    """Return the sums of all pieces. Raises what a task raised, Stopped."""
    found = Sums()
    _run(engine, work, cut, found.add, stop)
    return found


def digested(
    engine: Engine, work: Digesting, cut: Sequence[VerifyPiece], stop: Callable[[], bool]
) -> list[tuple[bytes, bytes]]:
    """Return keys and digests of the wanted rows of all pieces. Raises what a task raised, TooMany, Stopped."""
    found: list[tuple[bytes, bytes]] = []

    def take(rows: list[tuple[bytes, bytes]]) -> None:
        found.extend(rows)
        if len(found) > MOST_ROWS:
            raise TooMany(f"more than {MOST_ROWS:,} rows would have to be told one by one")

    _run(engine, work, cut, take, stop)
    return found


def _run(
    engine: Engine,
    work: PieceReading,
    cut: Sequence[VerifyPiece],
    take: Callable[[Any], None],
    stop: Callable[[], bool],
) -> None:
    def checked(outcome: Outcome) -> None:
        if outcome.failure is not None:
            raise outcome.failure.error()
        take(outcome.value)

    if cut and not engine.run(work, [Bundle(cut)], checked, stop):
        raise Stopped
