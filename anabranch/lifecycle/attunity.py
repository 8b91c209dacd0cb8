"""Make Attunity's tables beside change tables, where `[compat]` of the job file asks for them.

What does not live here: what comes into them later (`job/attunity.py`, and each epoch).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from anabranch.contracts import HasAttunityTables
from anabranch.model.attunity import ConfigRow
from anabranch.view.opened import end_of

if TYPE_CHECKING:
    from anabranch.contracts import AttunityTables
    from anabranch.view.job_view import JobView


def tables_of(job: JobView) -> AttunityTables | None:
    """Return Attunity's tables at the target; None where nobody has asked for them."""
    if not job.config.compat.attunity:
        return None
    target = end_of(job)
    assert isinstance(target, HasAttunityTables), "every target with change tables has them"
    return target.attunity()


def make_tables(job: JobView) -> None:
    """Make the tables before the first epoch counts in them. Does nothing where they are there, or nobody has asked."""
    if (tables := tables_of(job)) is not None:
        with closing(tables):
            tables.prepare(first_row(job))


def first_row(job: JobView) -> ConfigRow:
    """Return the row of the configuration as the job file has it: without a secret."""
    source, capture = job.config.source.endpoint, job.config.capture
    to = f"{source.place}/{source.database}" if source.database else source.place
    return ConfigRow(to, source.user, capture.transaction_staging_timeout_s, capture.memory_limit_mb)
