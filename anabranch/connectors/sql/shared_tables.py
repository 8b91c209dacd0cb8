"""Target tables that several jobs write to: how what one of them may not do is worded.

What does not live here: asking who else is there, which is each database's own (`target/shared_tables.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.connectors.sql.findings import failed, warning
from anabranch.contracts import Conflict
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.rows.net import TargetTable

ONE_BY_ONE = "load one job after the other: let that one run until it has caught up"


@dataclass(frozen=True, slots=True)
class Other:
    """A job that writes to the table. `is_through`: nothing of its load is under way, nor of what is built behind it; or it
    lets this job begin."""

    job: str
    is_through: bool


def named(found: Sequence[Other]) -> str:
    return ", ".join(one.job for one in found)


def refuse_rows_of_others(job: str, table: TargetTable, found: Sequence[Other]) -> None:
    """Raise TargetError if other jobs have rows in a table that is to be emptied, or dropped, for a load."""
    if found:
        raise TargetError(
            f"{table.target} has rows of other jobs ({named(found)}): it is not emptied",
            job=job,
            table=str(table.source),
            hint="remove this job's rows from it by hand, then: anabranch load JOB --table T --keep; a job that is gone is"
            " removed by anabranch drop",
        )


def refuse_loads_of_others(job: str, table: TargetTable, found: Sequence[Other]) -> None:
    """Raise TargetError if another job's load of the table has not ended."""
    if busy := [one for one in found if not one.is_through]:
        text = f"{named(busy)} has not ended its load of {table.target}"
        raise TargetError(text, job=job, table=str(table.source), hint=ONE_BY_ONE)


def refuse_truncate_of_others(table: TargetTable, found: Sequence[Other], is_kept: bool) -> None:
    """Raise Conflict where a TRUNCATE of the source would remove rows that are not the source's: those of other jobs, or
    (`is_kept`) those that stood there before the load."""
    if found or is_kept:
        whose = f"of other jobs ({named(found)})" if found else "that were there before the load"
        raise Conflict(
            table.source,
            f"the source's table was truncated, and {table.target} has rows {whose}: remove this job's rows by hand, and leave"
            " the transaction out (anabranch skip add JOB POSITION --execute)",
        )


def check_shared(table: TargetTable, found: Sequence[Other], choice: str | None) -> Iterator[CheckResult]:
    """Check a table that other jobs write to: to load beside them takes the user's word, and the end of their loads.
    `choice`: `[load] existing`."""
    busy = [one for one in found if not one.is_through]
    if choice != "keep":
        hint = (
            '[load] existing = "keep" loads beside their rows, where no key is in two of the jobs; a job that is gone'
            " is removed by anabranch drop"
        )
        yield failed("existing", f"other jobs write to {table.target}: {named(found)}", hint, table)
    elif busy:
        yield failed("existing", f"{named(busy)} has not ended its load of {table.target}", ONE_BY_ONE, table)
    else:
        text = f"other jobs write to {table.target}: {named(found)}; no key may be in two of the jobs"
        yield warning("existing", text, "", table)
