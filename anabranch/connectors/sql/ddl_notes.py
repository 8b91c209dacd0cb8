"""Notes of changed definitions, as SQL targets keep them in their table `ddl`.

What does not live here: the table and its statements (each target's `ddl_notes.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange


def change_of(row: tuple[Any, ...]) -> DdlChange:
    """Return the note that a row of `ddl` keeps: its columns in the order in which both targets read them, `number` and
    `noted_at` last."""
    from anabranch.model.ddl_changes import DdlChange, DdlRule, Outcome  # `status` goes without

    sequence, source, position, time, target, statement, user, setting, action, outcome, *rest = row
    why, version, digest, by, number, at = rest
    return DdlChange(
        sequence,
        position,
        time,
        TableId.parse(source),
        TableId.parse(target),
        statement,
        DdlRule(setting, action),
        Outcome(outcome),
        why,
        version,
        digest,
        by,
        user,
        number,
        at,
    )
