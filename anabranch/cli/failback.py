"""`anabranch failback`: back to the source, by the way back, in steps that survive a kill.

What does not live here: its options (`switching.py`), the steps (`cutover/`).
"""

from __future__ import annotations

from typing import Any

from anabranch.cli.switching import carry_out, job_of, switch


@switch
def failback(job: str, asked: str | None, flip_undone: bool, target: str | None, **wishes: Any) -> None:
    """Return to the source, by the way back that the cut-over has armed: fence the target, bring the source there, flip.

    JOB is the job that was cut over; its way back must be running. [cutover] in the file of the way back has the
    command that switches the application back. After the flip JOB continues from the source to the target.
    """
    one = job_of(job, target, asked, flip_undone)
    carry_out(asked, flip_undone, (one.failback, one.plan_failback, one.abort_failback, one.failback_status), **wishes)
