"""Many histories, several at once: seeds are given out to workers, results come in, the first failure may end it.

What does not live here: a history (run.py), a worker's process (worker.py), what is printed (report.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.testing.torture.contract import Fault, shows_enough
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.uninterrupted import uninterrupted

END_SECONDS = 150.0  # for workers to clear away what they have begun; drops wait 30 s for locks, threads are joined


class KitFailed(AnabranchError):
    """There is no verdict: the kit, a server under it, or the product did something that the kit does not expect.

    `seed`: of the history, 0 for none."""

    default_hint = "a server that went away, a bug of the kit, or something of the product's that it cannot look at"

    def __init__(self, message: str, *, hint: str = "", seed: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.seed = seed


class NothingCounted(AnabranchError):
    """Whatever ran, no fault came about: it shows nothing."""

    default_hint = "more histories (--histories, --minutes), or others (--seed)"


@dataclass(frozen=True, slots=True)
class Told:
    """A worker's report on a history. `failure` is "" where it passed."""

    seed: int
    source: str
    failure: str
    committed: int
    observations: int
    prefixes: int
    seconds: float
    fired: tuple[Fault, ...]
    hits: frozenset[str]
    targets: int = 1

    @property
    def counts(self) -> bool:
        """A history without its fault shows nothing, nor does one that hardly looked."""
        return bool(self.fired) and shows_enough(self.observations, self.prefixes)

    @classmethod
    def of(cls, said: dict[str, Any]) -> Told:
        fired = tuple(Fault(**fault) for fault in said["fired"])
        return cls(**{**said, "fired": fired, "hits": frozenset(said["hits"])})


@dataclass
class Campaign:
    """`run` gives results as they come, in no order, until seeds or time are over or, unless it `keeps_going`, one failed."""

    ground: Ground
    directory: Path
    workers: int = 2
    with_spark: bool = False
    keeps_going: bool = False
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _running: dict[int, int] = field(default_factory=dict, init=False)  # worker -> seed
    _mutex: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run(self, seeds: Iterable[int], until: float | None = None) -> Generator[Told]:
        """`until`: of time.monotonic(). Raises KitFailed. Leaving it early ends the workers, and clears away."""
        waiting, results = iter(seeds), queue.Queue[Told | BaseException | None]()

        def next_seed(worker: int) -> int | None:
            with self._mutex:
                over = self._stop.is_set() or (until is not None and time.monotonic() > until)
                seed = None if over else next(waiting, None)
                if seed is not None:
                    self._running[worker] = seed
                return seed

        hands = [_Hand(self, number, next_seed, results.put) for number in range(self.workers)]
        try:
            for hand in hands:
                hand.start()
            for _ in hands:
                while (result := results.get()) is not None:
                    if isinstance(result, BaseException):
                        raise result
                    yield result
                    if result.failure and not self.keeps_going:
                        self._stop.set()
        finally:
            with uninterrupted():
                self._stop.set()
                self._end(hands)
                self.ground.clear(list(self._running.values()))

    def _end(self, hands: Sequence[_Hand]) -> None:
        """End all workers at once: each has to clear away."""
        for hand in hands:
            hand.terminate()
        until = time.monotonic() + END_SECONDS
        for hand in hands:
            hand.end(until)

    def restart(self, where: str, name: str, loses: bool) -> dict[str, str]:
        try:
            self.ground.restart(where, name, loses)
        except AnabranchError as failed:
            return {"failed": str(failed)}
        return {"done": where}


@dataclass
class _Hand:
    """A worker's process, and the thread that speaks to it."""

    campaign: Campaign
    number: int
    next_seed: Callable[[int], int | None]
    put: Callable[[Told | BaseException | None], None]

    def start(self) -> None:
        package = str(Path(__file__).parents[3])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "anabranch.testing.torture.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
            text=True,
            start_new_session=True,  # a Ctrl-C at the terminal is for the campaign
        )
        threading.Thread(target=self._run, name=f"worker-{self.number}", daemon=True).start()

    def _run(self) -> None:
        campaign = self.campaign
        try:
            ground = {"ground": campaign.ground.to_json(), "directory": str(campaign.directory)}
            self._say(ground | {"with_spark": campaign.with_spark})
            while (seed := self.next_seed(self.number)) is not None:
                self._say({"seed": seed})
                said = self._heard()
                if "broken" in said:
                    raise KitFailed(f"history {seed}: {said['broken']}", seed=seed)
                self.put(Told.of(said))
        except BaseException as failure:  # noqa: BLE001 - carried over to whoever waits for results
            self.put(failure)
        self.put(None)

    def _heard(self) -> dict[str, Any]:
        while True:
            line = self._line()
            if "restart" not in line:
                return line
            self._say(self.campaign.restart(line["restart"], line["name"], line["loses"]))

    def _say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise KitFailed(f"a worker ended with {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def terminate(self) -> None:
        """It clears away what it has begun; a worker that waits for a seed ends at once.

        One that clears away already takes no signal (`uninterrupted`): it ends when it finds no further seed."""
        if hasattr(self, "process"):
            self.process.terminate()
            assert self.process.stdin is not None
            with contextlib.suppress(OSError):  # what was not flushed is for nobody any more
                self.process.stdin.close()

    def end(self, until: float) -> None:
        """Wait until then at most; then kill it with all that it has started."""
        if not hasattr(self, "process"):
            return
        try:
            self.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # its session's leader
            self.process.wait()
