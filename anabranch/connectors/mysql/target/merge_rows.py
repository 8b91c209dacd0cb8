"""The rows of a table's net change merged into a MySQL: a few by literals, many by way of a staging table, LOAD DATA or lists.

What does not live here: the statements of a merge (`merge.py`, `carrying.py`), of rows that take values from each other
(`exchange.py`), of single rows (`single_rows.py`), lists of keys (`listed.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any

from anabranch.connectors.mysql.target import carrying, listed, merge, single_rows
from anabranch.connectors.mysql.target.exchange import exchange, leaving_alone, replaced
from anabranch.connectors.mysql.target.merge import Part
from anabranch.connectors.mysql.target.newer_rows import refuse_newer
from anabranch.connectors.mysql.target.staging import StagingTables, send_rows, way_into
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece, Texts
from anabranch.contracts import Conflict
from anabranch.rows.net import TableNet

# Rows up to which literals are quicker than a staging table, or than LOAD DATA into the table (decision 172).
FEW = {MergeAction.INSERT: 100, MergeAction.UPDATE: 20, MergeAction.DELETE: 200, MergeAction.MULTISET: 0}


def merge_net(stages: StagingTables, net: TableNet, nul: str) -> list[Texts]:
    """Merge a table's net change. Returns keys to read again, of rows that are merged unchecked. Raises Conflict; driver errors
    pass."""
    again: list[Texts] = []
    for contend, pieces in groupby(merge.pieces(net), key=lambda one: one[0].contends):
        for piece, arrays in _exchange(stages, list(pieces), nul) if contend else pieces:
            again += _merge_piece(stages, piece, arrays, nul)
    return again


def _exchange(stages: StagingTables, parts: Sequence[Part], nul: str) -> Iterable[Part]:
    """Carry out updates that contend, or remove their rows and return the inserts that bring them back."""
    if found := list(replaced(stages, parts)):
        departure, *arrivals = found
        with leaving_alone(stages.connection):
            _merge_piece(stages, *departure, nul)
        return arrivals
    with ExitStack() as held:
        staged = []
        for piece, arrays in parts:
            _refuse_replaced_nulls(stages, piece, arrays)
            stage_ = held.enter_context(stages.filled(piece, arrays, nul))
            staged.append((piece, stage_, len(arrays[0])))
        for piece, stage_, rows in staged:
            if piece.newest_by:
                refuse_newer(stages.connection, piece, stage_, rows)
        exchange(stages, staged)
    return ()


def _merge_piece(stages: StagingTables, piece: MergePiece, arrays: Sequence[Any], nul: str) -> list[Texts]:
    rows, connection = len(arrays[0]), stages.connection
    inserts = piece.action is MergeAction.INSERT and piece.checked
    width = sum(array.nbytes for array in arrays)
    is_few = rows <= FEW[piece.action] and width <= connection.packet // 16
    if is_few and single_rows.takes_few(stages, piece):
        return single_rows.merge_few(stages, piece, arrays, nul)
    if keys := listed.listed_keys(stages, piece, arrays):
        listed.remove(stages, piece, keys)
        return []
    if inserts:
        _refuse_replaced_nulls(stages, piece, arrays)
        counted = stages.known.of(piece.table.target).counted(piece.values)
        way = way_into(connection, piece.table.target, piece.columns, piece.values, counted)
        taken = send_rows(connection, way, piece.columns, arrays, nul, piece.table.source)
        if taken != rows:
            raise Conflict(piece.table.source, f"expected {rows} inserts, found {taken}")
        return []
    _refuse_replaced_nulls(stages, piece, arrays)
    with stages.filled(piece, arrays, nul) as staged:
        if piece.newest_by:
            refuse_newer(connection, piece, staged, rows)
        return carrying.carry_out(stages, piece, staged, rows)


def _refuse_replaced_nulls(stages: StagingTables, piece: MergePiece, arrays: Sequence[Any]) -> None:
    """Raise Conflict for a NULL that the server would replace by a value of its own.

    LOAD DATA puts the time of day into a `timestamp NOT NULL`, whatever explicit_defaults_for_timestamp says, without a
    warning. https://dev.mysql.com/doc/refman/8.0/en/load-data.html#load-data-input-preprocessing
    """
    known, session = stages.known.of(piece.table.target), stages.connection
    explicit = session.explicit_timestamps and not session.takes_files
    for column, array in zip(piece.columns, arrays, strict=True):
        if column.like in piece.values and array.null_count and known.column(column.like).replaces_null(explicit):
            raise Conflict(piece.table.source, f"NULL in column {column.like}, which has none at the target")
