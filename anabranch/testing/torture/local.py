"""Capture, load and apply as they are, each in a forked process, with everything that Spark would do done in it.

The work of Spark's tasks (chunks, staging) is done in the part's own process, one after another; epochs are those of
`runner = "continuous"`. What waits for seconds in a product at rest waits for hundredths here. What does not live
here: who starts the processes and what befalls them (parts.py, pipeline.py).
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TypeVar

import pyarrow as pa

from anabranch import failpoints, log, pace
from anabranch.config import ONLY
from anabranch.errors import AnabranchError, ConfigError, TrailError
from anabranch.job import Job, parts
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.pace import Pace
from anabranch.rows.aside import RELEASE
from anabranch.spark.continuous import EPOCH_ROWS, ContinuousEpochs
from anabranch.spark.engine import Epochs
from anabranch.spark.work import Bundle, Outcome, Work, do_all
from anabranch.testing.torture.local_verify import mend
from anabranch.trail.reader import TrailReader
from anabranch.view.opened import target_of

T = TypeVar("T")
TOGETHER = 4  # pieces of a task
CLOCK = "ANABRANCH_TORTURE_CLOCK"  # seconds by which the wall clock jumps on SIGUSR1

HASTE = Pace(
    apply_tick=0.04,
    apply_chores=0.05,
    apply_register=0.2,
    capture_read=0.02,
    capture_heartbeat=0.05,
    capture_requests=0.1,
    log_idle=0.05,
    load_pause=0.2,
    repair_poll=0.02,
)


@dataclass(frozen=True, slots=True)
class Small:
    """Sizes below what a job file may ask for; 0 where they are as the job says.

    Bytes of a segment, row images of an epoch, rows of a load's chunk, row images of a chunk of PostgreSQL's log, changes of
    one shape from which on they go in a block."""

    segment_bytes: int = 0
    epoch_rows: int = EPOCH_ROWS
    chunk_rows: int = 0
    log_images: int = 0
    block_changes: int = 0

    @property
    def pace(self) -> Pace:
        """Return the pace that a part's process begins with."""
        found = replace(HASTE, log_images=self.log_images, block_changes=self.block_changes)
        return replace(found, load_rows=(self.chunk_rows, self.chunk_rows)) if self.chunk_rows else found


class LocalEngine:
    """The engine of a part's own process (spark/engine.py)."""

    def __init__(self, small: Small) -> None:
        self._small = small

    def warm_up(self) -> None:
        """Nothing is cold."""

    def run(
        self, work: Work, bundles: Sequence[Bundle], take: Callable[[Outcome], None], stop: Callable[[], bool]
    ) -> bool:
        for bundle in bundles:
            if bundle.where:
                raise _no_sql()
            pieces = bundle.pieces
            for task in (pieces[n : n + TOGETHER] for n in range(0, len(pieces), TOGETHER)):
                for outcome in do_all(_travelled(work), map(_travelled, task)):
                    take(outcome)
                    if stop():
                        return False
        return True

    def each(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return [_travelled(_travelled(task)()) for task in tasks]

    def follow(
        self, trail: Path, checkpoint: Path, start: int, apply: Callable[[int], None], at: Callable[[], int]
    ) -> Epochs:
        return ContinuousEpochs(trail, start, apply, at, self._small.epoch_rows)

    def passes(self, expression: str, types: Mapping[str, LogicalType], rows: pa.Table) -> pa.BooleanArray:
        raise _no_sql()


def _travelled(value: T) -> T:
    """Return the value as a task of Spark would get it."""
    found: T = pickle.loads(pickle.dumps(value))
    return found


def _no_sql() -> ConfigError:
    return ConfigError("a `where` is Spark SQL, and there is no Spark here", hint="torture it with --spark")


# --- a part in its process --------------------------------------------------------------------------------------------


def run_part(name: str, job_file: str, environment: Mapping[str, str], output: str, small: Small) -> None:
    """Be the part `name` in a forked process until it ends; write its last words to OUTPUT.end as JSON."""
    with open(output, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(environment)
    failpoints.arm(os.environ)
    signal.signal(signal.SIGUSR1, _jump)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    log.configure("info")
    pace.use(small.pace)
    code, error = _ended(name, job_file, small)
    if error:
        Path(f"{output}.end").write_text(json.dumps({"class": type(error).__name__, "message": str(error)}))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _ended(name: str, job_file: str, small: Small) -> tuple[int, BaseException | None]:
    try:
        name, _, target = name.partition(" of ")
        job = Job.from_file(job_file)
        if small.segment_bytes:
            capture = job.config.capture.model_copy(update={"segment_mb": small.segment_bytes / 2**20})
            job.config = job.config.model_copy(update={"capture": capture})
        if name == "capture":
            parts.run_capture(job)
            return 0, None
        job = job.on(target or ONLY)
        if name == "load":
            parts.run_load(job, [], False, engine=LocalEngine(small))
        elif name.startswith("reload "):
            parts.run_load(job, [TableId.parse(name.partition(" ")[2])], False, True, LocalEngine(small))
        elif name == "resume":
            _resume(job)
        elif name == "release":
            _release(job)
        elif name == "mend":
            mend(job)
        elif name.startswith("rewind "):
            _rewind(job, int(name.partition(" ")[2]))
        else:
            parts.run_apply(job, LocalEngine(small))
    except SystemExit as end:
        return (end.code if isinstance(end.code, int) else 1), None
    except AnabranchError as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code, error
    except BaseException as error:  # noqa: BLE001 - the outermost handler
        traceback.print_exc()
        return 1, error
    return 0, None


def _resume(job: Job) -> None:
    """Resume all tables that are parked, where any still are."""
    with suppress(ConfigError):
        job.resume()


def _release(job: Job) -> None:
    """Release all rows that are set aside, where any still are."""
    for table in sorted({change.source for change in job.set_aside()}):
        with suppress(ConfigError):
            job.settle_aside(str(table), RELEASE)


def _rewind(job: Job, transactions: int) -> None:
    """So far back, or as far as the trail reaches."""
    with closing(target_of(job).store()) as store:
        checkpoint = store.jobs.checkpoint(job.config.name)
    if checkpoint is not None:
        at = checkpoint.position.sequence
        go_back(at, at - transactions, lambda: _first_place(job), lambda to: job.rewind(str(to), execute=True))


def go_back(at: int, wanted: int, first: Callable[[], int], rewind: Callable[[int], object]) -> None:
    """Rewind from `at` to `wanted`, or to `first`; do nothing where the trail does not reach back before `at`.

    Retention may drop a place while it is asked for: then the rewind is refused, and the next place is tried."""
    while (to := max(wanted, first())) < at:
        try:
            rewind(to)
            return
        except (ConfigError, TrailError):
            if first() <= to:
                raise


def _first_place(job: Job) -> int:
    with TrailReader(job.trail) as trail:
        return trail.first() - 1


def _jump(_: int, __: FrameType | None) -> None:
    """The wall clock of this process is another one from here on."""
    offset, real = float(os.environ.get(CLOCK, "0")), time.time
    time.time = lambda: real() + offset
