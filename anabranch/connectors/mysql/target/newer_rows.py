"""Staged changes that meet a row of the target that is newer, where the job asks for the newest (`on_conflict = "newest"`).

The look and the merge are two statements. So each row is locked by the look; one that is missing cannot be locked, and a user
may insert it in between, newer than the change that would then be written over it.

What does not live here: one row at a time (`conflicts.py`).
"""

from __future__ import annotations

from anabranch.connectors.mysql.target.merge import Stage, beside_target, on_old_key
from anabranch.connectors.mysql.target.session import Connection, ask, quoted
from anabranch.connectors.sql.merge_pieces import MergePiece
from anabranch.contracts import Conflict


def refuse_newer(connection: Connection, piece: MergePiece, stage: Stage, rows: int) -> None:
    """Lock the target's rows of so many staged changes. Raises Conflict where one of them is missing, or newer than its change.
    Driver errors pass."""
    column = f"t.{quoted(piece.newest_by)}"
    is_newer = f"{column} > s.age OR (s.age IS NULL AND {column} IS NOT NULL)"
    joined = beside_target(piece.table, stage, on_old_key(piece))
    ((held, newer),) = ask(connection, f"SELECT COUNT(*), COALESCE(SUM({is_newer}), 0) FROM {joined} FOR UPDATE")
    if int(newer):
        raise Conflict(piece.table.source, f"a row of the target is newer by {piece.newest_by}")
    if int(held) != rows:
        raise Conflict(piece.table.source, f"expected {rows} {piece.action}s, found {held}")
