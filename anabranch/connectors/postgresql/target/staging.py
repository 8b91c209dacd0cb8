"""Staging tables of the committing connection: temporary, empty again at every commit, kept for the next epoch.

What does not live here: the tables that executors fill (`stage.py`), the statements that merge (`merge.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.target.copy_in import refuse_miscount
from anabranch.connectors.postgresql.target.merge import Stage, copy_into, create_stage
from anabranch.connectors.sql.merge_pieces import MergePiece, StageColumn
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.lines import lines

BLOCK, BLOCK_BYTES = 20_000, 8 << 20  # rows that become one block of a COPY, and their bytes as Arrow
ANALYZE_ROWS = 5_000  # from here on the planner is told what was staged
KEPT = 100  # tables; every commit empties each of them

Shape = tuple[TableId, tuple[StageColumn, ...]]
HEAD, AT_COMMIT = sql.SQL("CREATE TEMPORARY TABLE"), sql.SQL("ON COMMIT DELETE ROWS")


class StagingTables:
    """The temporary tables of one connection, by what they hold. Not for two threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._free: dict[Shape, list[Stage]] = {}
        self._used: dict[Stage, Shape] = {}  # in this transaction
        self._made: set[Stage] = set()  # in this transaction
        self._count = 0

    @contextmanager
    def filled(self, piece: MergePiece, arrays: Sequence[Any], nul: str) -> Iterator[Stage]:
        """Provide a staging table with these rows. An error leaves it to the rollback that follows."""
        with self.empty(piece) as stage:
            stage_rows(self._connection, stage, piece.columns, arrays, nul)
            if len(arrays[0]) > ANALYZE_ROWS:
                self._connection.execute(sql.SQL("ANALYZE {}").format(table_name(stage)))
            yield stage

    @contextmanager
    def empty(self, piece: MergePiece) -> Iterator[Stage]:
        """Provide an empty staging table for this piece."""
        shape = (piece.table.target, piece.columns)
        free = self._free.setdefault(shape, [])
        stage = free.pop() if free else self._make(piece)
        if stage in self._used:
            self._connection.execute(sql.SQL("TRUNCATE {}").format(table_name(stage)), prepare=True)
        self._used[stage] = shape
        yield stage
        free.append(stage)

    def committed(self) -> None:
        """Note a commit: the server has emptied every table."""
        self._settle(self._used)
        self._made.clear()

    def rolled_back(self) -> None:
        """Note a rollback: tables that the transaction created are gone, the others are as they were."""
        self._settle({stage: shape for stage, shape in self._used.items() if stage not in self._made})
        for stages in self._free.values():
            stages[:] = [stage for stage in stages if stage not in self._made]
        self._made.clear()

    def trim(self) -> None:
        """Drop all tables when there are too many. Call it between transactions."""
        if sum(map(len, self._free.values())) > KEPT:
            self._drop(list(self._free))

    def drop(self, table: TableId) -> None:
        """Drop what holds rows of a target's table. Call it between transactions."""
        self._drop([shape for shape in self._free if shape[0] == table])

    def _drop(self, shapes: Sequence[Shape]) -> None:
        every = [table_name(stage) for shape in shapes for stage in self._free.pop(shape)]
        if every:
            self._connection.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(every)))
            self._connection.commit()

    def _settle(self, used: dict[Stage, Shape]) -> None:
        for stage, shape in used.items():
            if stage not in self._free[shape]:
                self._free[shape].append(stage)
        self._used = {}

    def _make(self, piece: MergePiece) -> Stage:
        self._count += 1
        stage = TableId("pg_temp", f"stage_{self._count}")
        self._connection.execute(create_stage(HEAD, table_name(stage), AT_COMMIT, piece))
        self._made.add(stage)
        return stage


def copy_rows(
    connection: Connection,
    table: TableId,
    columns: Sequence[StageColumn],
    arrays: Sequence[Any],
    nul: str,
    names: Sequence[str] = (),
) -> int:
    """Copy arrays into a table, block by block. Returns the rows that the server took.

    `names`: given if the table's columns are called otherwise.
    """
    types: list[LogicalType] = [column.type for column in columns]
    rows = _block(arrays)
    cursor = connection.cursor()
    with cursor.copy(copy_into(table, names or [c.name for c in columns])) as copy:
        for start in range(0, len(arrays[0]), rows):
            copy.write(lines(types, [array.slice(start, rows) for array in arrays], nul=nul))
    return cursor.rowcount


def stage_rows(
    connection: Connection, stage: Stage, columns: Sequence[StageColumn], arrays: Sequence[Any], nul: str
) -> None:
    """Copy all arrays into a staging table."""
    taken = copy_rows(connection, stage, columns, arrays, nul)
    refuse_miscount(connection, stage, len(arrays[0]), taken, "stage changes", stage)


def _block(arrays: Sequence[Any]) -> int:
    """Return how many of these rows become one block; each of very wide ones does."""
    width = int(sum(array.nbytes for array in arrays)) // max(1, len(arrays[0]))
    return max(1, min(BLOCK, BLOCK_BYTES // max(1, width)))
