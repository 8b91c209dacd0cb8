"""Engines that do the work of load and apply: one small contract, and Spark behind it.

The other implementation is the torture kit's, in one process (testing/torture/local.py). What does not live here: what a
piece is, what an epoch does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import pyarrow as pa

from anabranch.model.datatype import LogicalType
from anabranch.spark.java import require_java
from anabranch.spark.work import Bundle, Outcome, Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

T = TypeVar("T")
EACH_SECONDS = 60.0  # for which an epoch waits for an executor; then the driver does its work
Runner = Literal["streaming", "continuous"]


class Epochs(Protocol):
    """A trail that is followed in epochs. `idle` is held while one runs; `is_warm` once the first one might have; `done`:
    up to where the trail was applied once."""

    idle: threading.Lock
    is_warm: threading.Event
    done: int

    def wait(self, seconds: float) -> None:
        """Wait. Raises what an epoch raised, StorageFull where what drives the epochs found no room."""

    def start_again(self) -> None:
        """Start again where the target is, after StorageFull. Raises StorageFull while there is still no room."""

    def stop(self) -> None:
        """Let the running epoch finish, begin none."""


class Engine(Protocol):
    """Called by the drivers of load and apply, from their main thread."""

    def warm_up(self) -> None:
        """Do early what a first epoch needs anyway."""

    def run(
        self, work: Work, bundles: Sequence[Bundle], take: Callable[[Outcome], None], stop: Callable[[], bool]
    ) -> bool:
        """Do the pieces. `take` gets each outcome, in this thread, as it comes; what it raises ends the rest. False when
        `stop()` said so."""

    def each(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Carry out tasks, side by side where that is possible; their results in order. Raises SparkUnavailable where the
        workers are away."""

    def follow(
        self, trail: Path, checkpoint: Path, start: int, apply: Callable[[int], None], at: Callable[[], int]
    ) -> Epochs:
        """Call `apply(upto)`, never twice at once, for what the trail has behind `at()`, until it raises or is stopped.
        `checkpoint`: a directory that may be emptied."""

    def passes(self, expression: str, types: Mapping[str, LogicalType], rows: pa.Table) -> pa.BooleanArray:
        """Return which rows pass a `where`."""


@dataclass(frozen=True)
class SparkEngine:
    """Spark; the session is made when it is first needed. ModuleNotFoundError where it is not installed.

    `runner`: who begins epochs, Structured Streaming or a thread that looks at the trail all the time (continuous.py). With
    the latter Spark starts when an epoch first has work for it."""

    session: Callable[[], SparkSession]
    runner: Runner = "streaming"

    def __post_init__(self) -> None:
        import_module("pyspark")  # said before anything else is tried

    def warm_up(self) -> None:
        if self.runner == "continuous":
            require_java()  # missing, it is missed now and not in the middle of an epoch
            return
        from anabranch.spark.epochs import warm_up

        warm_up(self.session())

    def run(
        self, work: Work, bundles: Sequence[Bundle], take: Callable[[Outcome], None], stop: Callable[[], bool]
    ) -> bool:
        from anabranch.spark import pieces

        spark = self.session()
        outcomes = [
            pieces.filtered(spark, work, bundle.pieces, bundle.where, needs_home=True)
            if bundle.where
            else pieces.plain(spark, work, bundle.pieces, bundle.sizes, needs_home=True)
            for bundle in bundles
        ]
        return pieces.run(spark, outcomes, take, stop)

    def each(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run each function in a task of its own."""
        from anabranch.spark import pieces

        return pieces.each(self.session(), tasks, EACH_SECONDS)

    def follow(
        self, trail: Path, checkpoint: Path, start: int, apply: Callable[[int], None], at: Callable[[], int]
    ) -> Epochs:
        if self.runner == "continuous":
            from anabranch.spark.continuous import ContinuousEpochs

            return ContinuousEpochs(trail, start, apply, at)
        from anabranch.spark.epochs import EpochQuery

        return EpochQuery(self.session(), trail, checkpoint, start, apply, at)

    def passes(self, expression: str, types: Mapping[str, LogicalType], rows: pa.Table) -> pa.BooleanArray:
        from anabranch.spark.rows import evaluate

        return evaluate(self.session(), expression, types, rows)
