"""`anabranch cutover`: from the source to the target, in steps that survive a kill.

What does not live here: its options (`switching.py`), the steps (`cutover/`).
"""

from __future__ import annotations

from typing import Any

from anabranch.cli.switching import carry_out, job_of, switch


@switch
def cutover(job: str, asked: str | None, flip_undone: bool, target: str | None, **wishes: Any) -> None:
    """Switch to the target: fence the source, bring the target to the fence, flip.

    The job must be running. An error before the flip opens the source again; after a kill, repeat the same command.
    [cutover] in the job file has the command that switches the application to the target. With [reverse] enabled the way
    back is armed before the flip.
    """
    one = job_of(job, target, asked, flip_undone)
    carry_out(asked, flip_undone, (one.cutover, one.plan_cutover, one.abort_cutover, one.cutover_status), **wishes)
