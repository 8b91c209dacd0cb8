"""Say what an origin that a job leaves out means for a verification beside writers: does the trail tell all that changes rows?

A way back that is not armed has written nothing, so `leave_out` of it takes nothing from the trail. Nor does that of a job
which a cut-over holds: its way back was armed when it stood still already, and it writes nothing until somebody returns. What
does not live here: how rows are looked at (verify/again.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch.model.markers import is_job
from anabranch.model.writers import is_left_out
from anabranch.verify.again import LEFT_OUT
from anabranch.verify.exact import LEAVES_OUT
from anabranch.verify.report import Verification
from anabranch.view.opened import catalog_of, source_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

# What a result says of a table of which nobody can tell.
NOTHING: Mapping[str, Any] = {
    "identical": False,
    "missing": 0,
    "extra": 0,
    "different": 0,
    "sample": (),
    "pending": 1,
    "is_complete": False,
}


def tells_all(job: JobView) -> bool:
    """Return whether the trail tells all that changes the source's rows at present: no origin is left out, or those are jobs
    that have nothing at the source, as a way back before it is armed, or that a cut-over holds. What may not be looked at may
    be there."""
    names = job.config.source.leave_out
    if not names:
        return True
    if not all(map(is_job, names)):
        return False
    with catalog_of(source_of(job)) as catalog:
        writing = [writer for writer in catalog.writers() if is_left_out(writer, names) and not writer.is_held]
        return catalog.sees_writers() and not writing


def unsure(found: Verification) -> Verification:
    """Return a result during which an origin that is left out has begun to write: what is equal is so, of what differs nobody
    can tell, and no snapshot of the source is known to have been at one position of the trail."""
    tables = []
    for one in found.tables:
        placed = replace(one, exact="", not_exact=LEAVES_OUT) if one.exact else one
        tables.append(replace(placed, **NOTHING, why=LEFT_OUT) if one.differs else placed)
    why = LEAVES_OUT if found.exact else found.not_exact
    return replace(found, tables=tuple(tables), exact="", not_exact=why)
