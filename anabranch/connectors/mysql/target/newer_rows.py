"""Staged changes that meet a row of the target that is newer, where the job asks for the newest (`on_conflict = "newest"`).

What does not live here: one row at a time (`conflicts.py`).
"""

from __future__ import annotations

from anabranch.connectors.mysql.target.merge import Stage, beside_target, on_old_key
from anabranch.connectors.mysql.target.session import Connection, ask, quoted
from anabranch.connectors.sql.merge_pieces import MergePiece
from anabranch.contracts import Conflict


def refuse_newer(connection: Connection, piece: MergePiece, stage: Stage) -> None:
    """Raise Conflict where a row of the target is newer than the staged change. Driver errors pass.

    The rows are locked as they are compared, since another session may be changing one.
    """
    column = f"t.{quoted(piece.newest_by)}"
    is_newer = f"{column} > s.age OR (s.age IS NULL AND {column} IS NOT NULL)"
    joined = beside_target(piece.table, stage, on_old_key(piece))
    found = ask(connection, f"SELECT COALESCE(SUM({is_newer}), 0) FROM {joined} FOR UPDATE")
    if found and int(found[0][0]):
        raise Conflict(piece.table.source, f"a row of the target is newer by {piece.newest_by}")
