"""A job under torture as users run it: `anabranch run` with Spark, its parts killed, frozen, and all of it at once.

`run` starts its parts again by itself; what is killed as a whole is started again here. What does not live here: which
job (place.py), the history and its check.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from anabranch.failpoints import LOG_VARIABLE, POINTS, VARIABLE
from anabranch.testing import class_archive, faults, packages
from anabranch.testing.torture.contract import Fault, PipelineFailed
from anabranch.testing.torture.place import Place
from anabranch.testing.torture.targets import empties_at_once
from anabranch.testing.torture.waiting import AT_FAILPOINTS, Waiting, asked

WATCH_SECONDS = 0.05
STARTS = 6
SPARK = '\n[spark]\nmaster = "local[2]"\n'
PARTS = ("capture", "load", "apply", "apply", "run")
RARE = ("pack", "staging", "drop", "seal", "prepared", "decided", "reread", "conflict", "one", "stage")


def spark_faults(seed: int) -> tuple[Fault, ...]:
    """A kill, and in every other history an exit at a failpoint or a second of standing still."""
    drawn = random.Random(f"spark faults of {seed}")
    killed = drawn.choice(PARTS)
    after = -1 if killed == "load" else drawn.choice((-1, 3, 9, 15))
    found = [Fault("kill", killed, seconds=round(drawn.uniform(0.0, 0.4), 3), after=after)]
    if drawn.random() < 0.25:
        names = [name for name in POINTS if not any(part in name for part in RARE)]
        found.append(Fault("exit", drawn.choice(names)))
    elif drawn.random() < 0.3:
        found.append(Fault("freeze", drawn.choice(("capture", "apply")), seconds=1.0, after=drawn.choice((2, 8))))
    return tuple(found)


@dataclass
class SparkPipeline(Waiting):
    """`anabranch run` (contract.Pipeline)."""

    place: Place
    faults: Sequence[Fault] = ()
    truncates: tuple[bool, ...] = field(init=False)
    _begun: list[Fault] = field(default_factory=list, init=False)
    _committed: int = field(default=-1, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _starts: int = field(default=0, init=False)
    _mutex: threading.Lock = field(default_factory=threading.Lock, init=False)
    _run: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.truncates = (empties_at_once(self.place.target, self.place.source.name),)

    def start(self) -> None:
        place = replace(self.place, more=self.place.more + SPARK)
        self.look_at(place)
        armed = [one for one in self.faults if one.kind in AT_FAILPOINTS]
        java = {"JAVA_HOME": str(packages.find_java().parent.parent)}
        self._environment = os.environ | place.environment | java | class_archive.environment()
        self._environment |= {VARIABLE: ";".join(map(asked, armed)), LOG_VARIABLE: str(self.log)}
        self._open = [one for one in self.faults if one.kind not in AT_FAILPOINTS]
        self._begin()
        self._thread = threading.Thread(target=self._watch, name="torture", daemon=True)
        self._thread.start()

    def committed(self, transactions: int) -> None:
        self._committed = transactions

    def is_calm(self) -> bool:
        with self._mutex:
            return self._run is not None and self._run.poll() is None

    def fired(self) -> tuple[Fault, ...]:
        return (*(f for f in self.faults if f.kind in AT_FAILPOINTS and self.acted(f)), *self._begun)

    def stop(self) -> None:
        self._is_stopping = True
        if hasattr(self, "_thread"):
            self._thread.join(60)
            if self._run is not None:
                faults.kill_tree(self._run.pid)
                self._run.wait()
            self.looking.close()
            with contextlib.suppress(Exception):  # the next run of the seed does it
                self.place.forget()

    def tails(self) -> str:
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-60:])

    @property
    def _output(self) -> Path:
        return self.place.directory / f"run.{self._starts}.log"

    def _begin(self) -> None:
        self._starts += 1
        if self._starts > STARTS:
            raise PipelineFailed(f"run was started {STARTS} times\n{self.tails()}")
        command = [sys.executable, "-m", "anabranch", "run", str(self.place.job_file)]
        with self._output.open("wb") as output:
            self._run = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def _watch(self) -> None:
        try:
            while not self._is_stopping:
                with self._mutex:
                    self._turn()
                time.sleep(WATCH_SECONDS)
        except BaseException as failure:  # noqa: BLE001 - carried over to whoever waits
            self.failure = failure

    def _turn(self) -> None:
        for fault in [one for one in self._open if self._committed >= one.after]:
            if self._strike(fault):
                self._open.remove(fault)
                self._begun.append(fault)
        assert self._run is not None
        code = self._run.poll()
        if code is not None:
            if code != -signal.SIGKILL:
                raise PipelineFailed(f"run ended with {code}\n{self.tails()}")
            self._begin()

    def _strike(self, fault: Fault) -> bool:
        """False where there is nothing to strike yet, or no more."""
        assert self._run is not None
        run = self._run.pid
        pid = run if fault.where == "run" else next(iter(faults.find(run, f"-m anabranch {fault.where} ")), None)
        if pid is None or (fault.where == "run" and not faults.find(run, "-m anabranch apply ")):
            return False
        if fault.kind == "freeze":
            with faults.frozen(pid) as is_there:
                time.sleep(fault.seconds)
            return is_there
        time.sleep(fault.seconds)
        if not faults.is_alive(pid):
            return False
        faults.kill_tree(pid)
        return True
