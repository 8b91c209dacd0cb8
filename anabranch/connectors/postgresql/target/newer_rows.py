"""Staged changes that meet a row of the target that is newer, where the job asks for the newest (`on_conflict = "newest"`).

The look and the merge are two statements. So each row is locked by the look; one that is missing cannot be locked, and a user
may insert it in between, newer than the change that would then be written over it.

What does not live here: one row at a time (`conflicts.py`).
"""

from __future__ import annotations

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.target.merge import Stage, on_old_key
from anabranch.connectors.sql.merge_pieces import MergePiece
from anabranch.contracts import Conflict

NEWER = sql.SQL("""
WITH held AS MATERIALIZED (
SELECT t.{column} AS there, s.age AS age FROM {target} AS t JOIN {stage} AS s ON {same} FOR UPDATE OF t
) SELECT count(*), coalesce(bool_or(there > age OR (age IS NULL AND there IS NOT NULL)), false) FROM held
""")


def refuse_newer(connection: Connection, piece: MergePiece, stage: Stage, rows: int) -> None:
    """Lock the target's rows of so many staged changes. Raises Conflict where one of them is missing, or newer than its change.
    Psycopg errors pass."""
    statement = NEWER.format(
        column=sql.Identifier(piece.newest_by),
        target=table_name(piece.table.target),
        stage=table_name(stage),
        same=on_old_key(piece),
    )
    ((held, is_newer),) = connection.execute(statement).fetchall()
    if is_newer:
        raise Conflict(piece.table.source, f"a row of the target is newer by {piece.newest_by}")
    if held != rows:
        raise Conflict(piece.table.source, f"expected {rows} {piece.action}s, found {held}")
