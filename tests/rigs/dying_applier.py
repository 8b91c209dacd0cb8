"""An apply process that carries a trail out with appliers which keep no order, until a failpoint ends it as SIGKILL does."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

from anabranch import connectors, failpoints
from anabranch.contracts import ValueRules
from anabranch.trail.reader import TrailReader
from rigs.an_applier import an_applier

WAIT_S = 120


def killed_at(
    point: str, job: str, endpoint: Any, directory: Path, context: Any, upto: int, options: Any
) -> int | None:
    """How such a process ended, which has claimed the job."""
    process = multiprocessing.get_context("spawn").Process(
        target=_apply, args=(point, job, endpoint, directory, context, upto, options)
    )
    process.start()
    process.join(WAIT_S)
    return process.exitcode


def _apply(point: str, job: str, endpoint: Any, directory: Path, context: Any, upto: int, options: Any) -> None:
    failpoints.arm({failpoints.VARIABLE: point})
    target = connectors.target(endpoint)
    writer, store = target.writer(ValueRules(), True), target.store()
    applier = an_applier(job, TrailReader(directory), writer, store, lambda states: context, owner="victim", **options)
    writer.claim(job, "victim")
    applier.apply(upto)
