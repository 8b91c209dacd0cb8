"""Reasons of parked tables by which something is decided later.

A trail keeps a reason as the text that people read, and so did the states of releases before. How such a text begins is
therefore part of the trail's format: it is written here and nowhere else, and never changes.
"""

from __future__ import annotations

from anabranch.model.table_facts import ParkedFor

DROPPED = ParkedFor.DROPPED.words
NEW = "new at the source: it was created, renamed or moved there after the log began, or was hidden from the job's user"
ALTERED = "its columns or keys were altered at the source"
_NOT_YET = f"{NEW}, and "
CONNECTED = "which foreign keys connect with this table"
# What brings a table back where the target keeps changes: there is no load. These are read by people alone.
ANEW = "only a job that begins again brings it in: anabranch drop JOB --execute, then run the job"
NO_MORE_CHANGES = f"the changes that are there stay; where the source has a table of this name again, {ANEW}"

# What does so where a job takes its tables over as they stand, and never loads one.
BEGUN_ANEW = (
    "one whose definition changed comes back only where the job is begun anew: anabranch drop JOB --execute, and then"
    " anabranch reverse and anabranch arm"
)


def new_but(why: str) -> str:
    """Return the reason to park a new table that cannot be followed because of `why`; "" where a load is all that it needs."""
    return f"{_NOT_YET}{why}" if why else NEW


def tells_dropped(reason: str) -> bool:
    """Return whether the source dropped the table, by the reason of a state or of a barrier in the trail."""
    return reason.startswith(DROPPED)


def tells_not_yet(reason: str) -> bool:
    """Return whether the table was new and could not be followed, by the reason of a barrier in the trail."""
    return reason.startswith(_NOT_YET)


def tells_altered(reason: str) -> bool:
    """Return whether the columns of the table itself were altered, by the reason of a state: its target table has to be made
    anew for what the source has now."""
    return reason.startswith(ALTERED) and CONNECTED not in reason
