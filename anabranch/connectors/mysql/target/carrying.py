"""A staged piece of a net change, carried out: with its key, or, where its table has none, as a multiset.

What does not live here: the statements (`merge.py`), equal rows (`keyless.py`), updates that contend (`exchange.py`).
"""

from __future__ import annotations

from anabranch.connectors.mysql.target.keyless import merge_multiset
from anabranch.connectors.mysql.target.merge import Stage, missing, new_key, statements
from anabranch.connectors.mysql.target.session import ask, column_list, run, table_name
from anabranch.connectors.mysql.target.staging import StagingTables, refuse_warnings
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, Texts, keys
from anabranch.contracts import Conflict

CHAIN = "a key moves to where another one moves away, inside the load's window"


def carry_out(stages: StagingTables, piece: MergePiece, stage: Stage, rows: int) -> list[Texts]:
    """Merge a piece of `rows` rows that stand in `stage`. Returns keys to read again. Raises Conflict; driver errors pass."""
    if piece.action is MergeAction.MULTISET:
        merge_multiset(stages, piece, stage)
        return []
    connection, known = stages.connection, stages.known.of(piece.table.target)
    if not piece.checked and piece.moves:
        _refuse_chains(stages, piece, stage)
    for statement, counted in statements(known, piece, stage):
        done = run(connection, statement)
        if piece.action is not MergeAction.DELETE:  # which stores nothing
            refuse_warnings(connection, piece.table.source)
        if counted and done != rows:
            raise Conflict(piece.table.source, f"expected {rows} {piece.action}s, found {done}")
    return missing(connection, piece, stage) if piece.action is MergeAction.UPDATE and not piece.checked else []


def _refuse_chains(stages: StagingTables, piece: MergePiece, stage: Stage) -> None:
    """Raise Conflict for a key that one row leaves and another takes: in a window only the rows' own order tells which
    is which. A temporary table stands once in a statement, so the keys are copied first."""
    own, width = keys(piece.table), len(piece.table.key)
    with stages.empty(MergePiece(piece.table, MergeAction.DELETE, own)) as other:
        names = column_list(column.name for column in own)
        run(stages.connection, f"INSERT INTO {table_name(other)} ({names}) SELECT {names} FROM {table_name(stage)}")
        taken = " AND ".join(f"o.k{i} = {new}" for i, new in enumerate(new_key(piece)))
        itself = " AND ".join(f"o.k{i} = s.k{i}" for i in range(width))
        found = f"SELECT 1 FROM {table_name(stage)} AS s JOIN {table_name(other)} AS o ON {taken} AND NOT ({itself})"
        if ask(stages.connection, f"{found} LIMIT 1"):
            raise Conflict(piece.table.source, CHAIN)
