"""Changes that a job brings to a target, and another writer brings back to the tables that they were read from: how the finding
is worded, and when it is none, because both leave out what the other has written (K21).

What does not live here: whether the writer reads this target, which each database finds out by other facts.
"""

from __future__ import annotations

from collections.abc import Collection

from anabranch.connectors.sql.findings import some
from anabranch.contracts import PreflightContext
from anabranch.model.ids import TableId
from anabranch.model.markers import origin_of
from anabranch.model.writers import JOB, SourceWriter, is_left_out, leaves_out


def loop(context: PreflightContext, writer: SourceWriter, tables: Collection[TableId]) -> tuple[str, str] | None:
    """Return message and hint for a writer that brings our changes back to these source tables; None where neither job reads
    what the other has written."""
    who = f"{writer.name}, over {writer.through}," if writer.through else writer.name
    message = f"{who} brings back what is written here to {some(map(str, sorted(tables)))}, which this job reads"
    hint = "leave these tables out of one of the jobs ([[rules]] exclude), or give one of them other target tables"
    if not is_left_out(writer, context.leave_out):
        if writer.through:
            hint += (
                f"; a ring cannot go on, since what passes through {writer.through} no longer says where it was made:"
            )
            hint += " join the databases by jobs both ways, each to its neighbour, as a chain"
        if writer.name.startswith(JOB) and not writer.through:
            theirs, ours = origin_of(writer.name.removeprefix(JOB)), origin_of(context.job)
            hint += f'; or let both go on: [source] leave_out = ["{theirs}"] here, leave_out = ["{ours}"] there'
        return message, hint
    if writer.through or leaves_out(writer, context.job):
        return None
    hint = f'[source] leave_out = ["{origin_of(context.job)}"] in its job file, then start it again'
    return f"{message}, and does not leave out what this job has written", hint
