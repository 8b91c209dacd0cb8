"""The middle of the demo: the job runs, streams for a while, and is drained once the writer has stopped.

What does not live here: starting servers and job files (run.py, pipeline.py).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from anabranch.demo.latency import Distribution, LatencyWatch
from anabranch.demo.pipeline import Pipeline, RunningJob
from anabranch.demo.shop import End
from anabranch.demo.writer import WORKERS, Totals, Writer
from anabranch.errors import NotCaughtUp
from anabranch.job.caughtup import CaughtUp, Progress
from anabranch.job.signals import Request

DRAIN_SECONDS = 180.0
TICK = 0.1


@dataclass(frozen=True, slots=True)
class Streamed:
    """Measurements of the run. `transactions`: how many of the source's transactions the target has."""

    writer: Totals
    catching_up: Distribution
    latencies: Distribution
    caught_up_after: float | None
    steady_after: float | None
    load_seconds: float
    stream_seconds: float
    transactions: int


def follow(
    pipeline: Pipeline, source: End, target: End, seconds: float | None, rate: float, say: Callable[[str], None]
) -> Streamed:
    """Run the job under a writer. The first Ctrl-C while it streams ends that early, the second raises."""
    progress = Progress(pipeline.job())
    started = time.monotonic()
    with Writer(source.database, rate) as writer, RunningJob(pipeline) as job:

        def is_well() -> None:
            progress.refresh()
            job.check()
            writer.check()

        while not progress.is_streaming:
            is_well()
            time.sleep(TICK)
        streaming = time.monotonic()
        with first_interrupt() as interrupted, LatencyWatch(target.database, WORKERS) as watch:
            while not interrupted.wait(TICK) and (seconds is None or time.monotonic() < streaming + seconds):
                is_well()
                watch.check()
                if progress.is_built:
                    watch.begin_steady()
            stream_seconds = time.monotonic() - streaming
            totals = writer.stop()
            _drain(progress, is_well)
        job.stop()
        say("the writer has stopped, and everything it committed is applied")
    assert progress.checkpoint is not None
    return Streamed(
        writer=totals,
        catching_up=watch.catching_up,
        latencies=watch.latencies,
        caught_up_after=watch.caught_up_after,
        steady_after=watch.steady_after,
        load_seconds=streaming - started,
        stream_seconds=stream_seconds,
        transactions=progress.checkpoint.position.sequence,
    )


def _drain(progress: Progress, is_well: Callable[[], None]) -> None:
    """Wait until everything that the source has committed is applied, and indexes and foreign keys are built."""
    caught_up = CaughtUp(progress)
    deadline = time.monotonic() + DRAIN_SECONDS
    while not caught_up.is_reached():
        if time.monotonic() > deadline:
            raise NotCaughtUp(
                f"not caught up {DRAIN_SECONDS:.0f} seconds after the writer stopped",
                job=progress.job.config.name,
                hint="this machine may be too slow for the writer: anabranch demo --rate 50",
            )
        is_well()
        time.sleep(TICK)


@contextmanager
def first_interrupt() -> Iterator[Request]:
    """Provide a request that the first Ctrl-C makes; the next one is a KeyboardInterrupt again."""
    asked = Request()
    before = signal.getsignal(signal.SIGINT)

    def on_signal(number: int, frame: FrameType | None) -> None:
        if asked.is_made():
            raise KeyboardInterrupt
        asked.make()

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
