"""Leave a job that was cut over: its fence outlives the job, and nobody but its notes knows how to lift it.

What does not live here: removing the job (`job/drop.py`), taking a cut-over back (`machine.py`).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from anabranch.cutover.fence import lifted
from anabranch.cutover.terms import opened
from anabranch.errors import StateError
from anabranch.model.cutover import Cutover
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

LIFT_SECONDS = 10.0  # for readers that keep us from removing what refuses nobody any more
STANDS = "source: the fence of the cut-over, which keeps its users from writing"
REMAINS = f"{STANDS}, stays: nothing knows of it from here on, and it is lifted by hand"
HINT = (
    "--lift-fence lets the source's users write again, which nobody brings to the target then; --keep-fence leaves the source"
    " shut, as it should be where it is switched off soon"
)


def leave(job: JobView, execute: bool, lifts_fence: bool | None) -> list[str]:
    """Return what stands of fences, one line for each; with `execute` lift them, or leave them, as `lifts_fence` says. Raises
    StateError where it does not say, SourceUnavailable and SourceError where one cannot be lifted."""
    fenced = [one for one in job.targets() if cutover_of(one).is_finished]
    if not execute or not fenced:
        return [STANDS for _ in fenced]
    if lifts_fence is None:
        raise StateError(f"the job was cut over: {cutover_of(fenced[0]).who_writes()}", job=job.label, hint=HINT)
    if not lifts_fence:
        return [REMAINS for _ in fenced]
    return [line for one in fenced for line in _lift(one)]


def cutover_of(job: JobView) -> Cutover:
    with store_of(job) as store:
        return Cutover.of(store.cutovers.cutover_notes(job.config.name) if store.exists() else [])


def _lift(job: JobView) -> list[str]:
    with store_of(job) as store, closing(opened(job, store, needs_trail=False).fence) as fence:
        left = lifted(fence, Cutover.of(store.cutovers.cutover_notes(job.config.name)), LIFT_SECONDS)
    return [STANDS, *(f"source: left, refuses nobody, is removed by hand: {one}" for one in left)]
