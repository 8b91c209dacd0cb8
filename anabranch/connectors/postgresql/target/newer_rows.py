"""Staged changes that meet a row of the target that is newer, where the job asks for the newest (`on_conflict = "newest"`).

What does not live here: one row at a time (`conflicts.py`).
"""

from __future__ import annotations

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.target.merge import Stage, on_old_key
from anabranch.connectors.sql.merge_pieces import MergePiece
from anabranch.contracts import Conflict

# The rows are locked before they are compared, since another session may be changing one. EXISTS stops where it finds one
# that is newer, and nothing is done then; else every row was locked.
NEWER = sql.SQL("""
WITH held AS MATERIALIZED (
SELECT t.{column} AS there, s.age AS age FROM {target} AS t JOIN {stage} AS s ON {same} FOR UPDATE OF t
) SELECT EXISTS (SELECT FROM held WHERE there > age OR (age IS NULL AND there IS NOT NULL))
""")


def refuse_newer(connection: Connection, piece: MergePiece, stage: Stage) -> None:
    """Raise Conflict where a row of the target is newer than the staged change. Psycopg errors pass."""
    statement = NEWER.format(
        column=sql.Identifier(piece.newest_by),
        target=table_name(piece.table.target),
        stage=table_name(stage),
        same=on_old_key(piece),
    )
    found = connection.execute(statement).fetchone()
    if found and found[0]:
        raise Conflict(piece.table.source, f"a row of the target is newer by {piece.newest_by}")
