"""Appending changes to change tables, over the one committing connection of a job's apply process.

Epochs, the checkpoint and the states of tables are those of every PostgreSQL target (`target/apply.py`). What does not live
here: what a row has in it (`rows/change_table.py`), creating the tables (instances.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.change_tables.names import COLUMNS, instance_of
from anabranch.connectors.postgresql.target.copy_in import refuse_miscount
from anabranch.connectors.postgresql.target.staging import copy_rows
from anabranch.connectors.sql.merge_pieces import StageColumn
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.position import Position
from anabranch.rows.appended import ChangeBatch, Committed, TableChanges
from anabranch.rows.change_table import change_rows, lsns
from anabranch.rows.net import TargetTable

BYTES, INT = LogicalType(Kind.BINARY), LogicalType(Kind.INT32)
LSN, _, SEQVAL, OPERATION, MASK, COMMAND = COLUMNS
BEFORE = [StageColumn(LSN, BYTES), StageColumn(SEQVAL, BYTES), StageColumn(OPERATION, INT), StageColumn(MASK, BYTES)]
LATEST = "SELECT tran_end_time FROM cdc.lsn_time_mapping ORDER BY start_lsn DESC LIMIT 1"
END = "UPDATE cdc.change_tables SET end_lsn = %s WHERE capture_instance = %s AND end_lsn IS NULL"
NOTE = """
INSERT INTO cdc.lsn_time_mapping (start_lsn, tran_end_time, "position")
SELECT * FROM unnest(%s::bytea[], %s::timestamp[], %s::text[]) ON CONFLICT DO NOTHING
"""


class PostgresChangeWriter(PostgresWriter):
    """Appends changes at a PostgreSQL.

    Delivery: what an epoch appends and its checkpoint commit together or not at all; a fenced owner commits nothing. Nobody
    sees a part of a transaction, or its place before its rows."""

    def append(self, batch: ChangeBatch) -> None:
        for changes in batch.tables:
            self._append(changes)
        if batch.transactions:
            self._note_times(batch.transactions)

    def _append(self, changes: TableChanges) -> None:
        connection, _ = self._transaction(writes=changes.table)
        table, rows = changes.table, change_rows(changes)
        own = [StageColumn(name, type) for name, type in zip(table.columns, table.types, strict=True)]
        arrays = [rows.lsn, rows.seqval, rows.operation, rows.mask, *rows.values, rows.command]
        with self._knowing_labels(table.source), translated(f"append to {table.target}", table.source):
            columns = [*BEFORE, *own, StageColumn(COMMAND, INT)]
            taken = copy_rows(connection, table.target, columns, arrays, self._rules.nul)
        refuse_miscount(connection, table.target, len(rows.lsn), taken, "append changes", table.source)

    def end(self, table: TargetTable, at: int) -> None:
        connection, _ = self._transaction()
        with translated(f"end {table.target}", table.source):
            last = lsns(np.array([at - 1], dtype=np.int64))[0].as_py()
            connection.execute(END.encode(), [last, instance_of(table.target)])

    def _note_times(self, transactions: Sequence[Committed]) -> None:
        """Note when transactions were committed. A large one comes in several batches, each of which may name it. A time before
        that of an earlier transaction is noted as that one, since the source's clock is not the order of its log."""
        connection, _ = self._transaction()
        places = lsns(np.array([one.sequence for one in transactions], dtype=np.int64)).to_pylist()
        texts = [str(Position(one.sequence, one.position)) for one in transactions]
        with translated("note the times of transactions"):
            found = connection.execute(LATEST.encode()).fetchone()
            times = pa.array([one.commit_time for one in transactions], pa.timestamp("us")).to_pylist()
            rising = list(accumulate(times, max, initial=found[0] if found else times[0]))[1:]
            connection.execute(NOTE.encode(), [places, rising, texts])
