"""Values of a batch of changes for a change table and `lsn_time_mapping`: columns, and places with their times.

What does not live here: what a row has in it (`rows/change_table.py`), statements (a database's `target/change_tables/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

import numpy as np
import pyarrow as pa

from anabranch.connectors.sql.merge_pieces import StageColumn
from anabranch.model.change_names import COLUMNS
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.position import Position
from anabranch.rows.appended import Committed, TableChanges
from anabranch.rows.change_table import LSN_BYTES, SEQUENCE_BYTES, change_rows, lsns

BYTES, INT = LogicalType(Kind.BINARY), LogicalType(Kind.INT32)
LSN, _, SEQVAL, OPERATION, MASK, COMMAND = COLUMNS
BEFORE = [StageColumn(LSN, BYTES), StageColumn(SEQVAL, BYTES), StageColumn(OPERATION, INT), StageColumn(MASK, BYTES)]


def staged(changes: TableChanges) -> tuple[list[StageColumn], list[pa.Array]]:
    """Return the columns of a change table that have values, and those of its new rows. Raises RowRefused as `change_rows`."""
    table, rows = changes.table, change_rows(changes)
    own = [StageColumn(name, type) for name, type in zip(table.columns, table.types, strict=True)]
    arrays = [rows.lsn, rows.seqval, rows.operation, rows.mask, *rows.values, rows.command]
    return [*BEFORE, *own, StageColumn(COMMAND, INT)], arrays


def last_before(sequence: int) -> bytes:
    """Return the place of the transaction in front of this one."""
    return bytes(lsns(np.array([sequence - 1], dtype=np.int64))[0].as_py())


def place_between(sequence: int, latest: bytes) -> bytes | None:
    """Return the next place behind the transaction with this sequence and in front of the one behind it, for a note of the
    time. `latest`: the newest place that there is, of this transaction or an earlier one. None where all are taken."""
    (first,) = lsns(np.array([sequence], dtype=np.int64)).to_pylist()
    if latest < first:
        return bytes(first)
    following = (int.from_bytes(latest, "big") + 1).to_bytes(LSN_BYTES, "big")
    return following if following[:SEQUENCE_BYTES] == first[:SEQUENCE_BYTES] else None


def places(transactions: Sequence[Committed], latest: datetime | None) -> tuple[list[bytes], list[datetime], list[str]]:
    """Return the places of transactions, their times in UTC and their positions. A time before that of an earlier transaction
    (`latest`: of the last one that is there) is noted as that one, since the source's clock is not the order of its log."""
    found = lsns(np.array([one.sequence for one in transactions], dtype=np.int64)).to_pylist()
    times = pa.array([one.commit_time for one in transactions], pa.timestamp("us")).to_pylist()
    rising = list(accumulate(times, max, initial=latest or times[0]))[1:]
    return found, rising, [str(Position(one.sequence, one.position)) for one in transactions]
