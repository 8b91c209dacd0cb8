"""Work on pieces of tables, and its outcomes: defined without Spark, done by its tasks (pieces.py).

What does not live here: what a piece is (load/, verify/).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from anabranch import errors
from anabranch.errors import AnabranchError
from anabranch.spark.where import SparkFilter


class Work(Protocol):
    """The work done with every piece. Picklable, and the only thing that carries connectors to the tasks."""

    def lasting(self) -> AbstractContextManager[Work]:
        """Return the same work for several pieces, one after another: it may keep connections open from one to the next."""

    def read(self, piece: Any) -> AbstractContextManager[tuple[bytes, Iterator[bytes]]]:
        """Open the piece: a header of the work's own, and its rows in blocks of whole lines."""

    def finish(self, piece: Any, header: bytes, blocks: Iterator[bytes]) -> Any:
        """Consume the rows; what is returned travels to the driver."""


@dataclass(frozen=True)
class Failure:
    """An AnabranchError as a value, because exceptions lose their class on the way through the JVM."""

    name: str
    message: str
    hint: str
    where: tuple[str | None, str | None, str | None]

    @classmethod
    def of(cls, error: AnabranchError) -> Failure:
        return cls(type(error).__name__, error.message, error.hint, (error.job, error.table, error.position))

    def error(self) -> AnabranchError:
        found: type[AnabranchError] = getattr(errors, self.name, AnabranchError)
        error = found(self.message, hint=self.hint)
        error.job, error.table, error.position = self.where
        return error


@dataclass(frozen=True)
class Outcome:
    """The outcome of a piece: `value` is what `finish` returned, unless there was a failure. `began`, `ended`: shown only, in
    nanoseconds since 1970 by the clock of whoever did it; 0 where nobody looked."""

    piece: Any
    value: Any = None
    failure: Failure | None = None
    began: int = field(default=0, compare=False)
    ended: int = field(default=0, compare=False)


def do(work: Work, piece: Any) -> Outcome:
    """Do one piece without a filter."""
    began = time.time_ns()
    try:
        with work.read(piece) as (header, blocks):
            value = work.finish(piece, header, blocks)
        return Outcome(piece, value, None, began, time.time_ns())
    except AnabranchError as error:
        return Outcome(piece, failure=Failure.of(error))


def do_all(work: Work, pieces: Iterable[Any]) -> Iterator[Outcome]:
    """Do the pieces of one task."""
    with work.lasting() as lasting:
        for piece in pieces:
            yield do(lasting, piece)


@dataclass(frozen=True)
class Bundle:
    """Pieces of tables that are read as they stand, or of one whose rows have to pass `where`. With `sizes`, small ones
    (less than 1 together) are done one after another."""

    pieces: Sequence[Any]
    sizes: Sequence[float] = ()
    where: SparkFilter | None = None


def is_alive(pid: int) -> bool:
    """Return whether a process of this machine lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True
