"""Deletes of many rows by lists of their keys, where a list is quicker than a staging table (decision 380).

A list of numbers is looked up in the primary key and removed on the way. A join with a staging table notes the rows that it
finds, sorts them, and looks each one up once more; and the staging table has to be filled first. Only keys of one column of
whole numbers go this way: conditions on several columns, joined by OR, cost the more the longer they are.

The server is told to use the primary key: left to itself it reads a whole small table, and would lock rows that no change
concerns. What does not live here: deletes of few rows (`single_rows.py`), other keys (`merge.py`).
https://dev.mysql.com/doc/refman/8.0/en/range-optimization.html#equality-range-optimization
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.connectors.mysql.target.session import ask, quoted, run, table_name
from anabranch.connectors.mysql.target.staging import StagingTables
from anabranch.connectors.sql.merge_pieces import MergeAction, MergePiece
from anabranch.contracts import Conflict

# A MariaDB makes a table of a list from 1,000 values on (`in_predicate_conversion_threshold`). 900 of a MySQL's ranges take
# 200 kB of the 8 MB that it gives them (`range_optimizer_max_mem_size`).
AT_ONCE = 900
WHOLE = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
PRIMARY = """
SELECT COLUMN_NAME FROM information_schema.STATISTICS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY'
"""


def listed_keys(stages: StagingTables, piece: MergePiece, arrays: Sequence[Any]) -> list[int]:
    """Return the keys of a piece that removes rows, in their order; [] where its rows are found in another way. Driver errors
    pass."""
    table = piece.table
    if piece.action is not MergeAction.DELETE or piece.newest_by or len(table.key) != 1:
        return []
    if stages.known.of(table.target).column(table.key[0]).type not in WHOLE:
        return []
    if not pa.types.is_integer(arrays[0].type) or arrays[0].null_count or not _is_primary(stages, piece):
        return []
    return list(np.sort(arrays[0].to_numpy()).tolist())


def remove(stages: StagingTables, piece: MergePiece, keys: Sequence[int]) -> None:
    """Remove the rows with these keys. Raises Conflict where a checked piece does not find each of them; driver errors pass."""
    table, name = table_name(piece.table.target), quoted(piece.table.key[0])
    done = 0
    for start in range(0, len(keys), AT_ONCE):
        listed = ", ".join(map(str, keys[start : start + AT_ONCE]))
        done += run(stages.connection, f"DELETE t FROM {table} AS t FORCE INDEX (PRIMARY) WHERE t.{name} IN ({listed})")
    if piece.checked and done != len(keys):
        raise Conflict(piece.table.source, f"expected {len(keys)} deletes, found {done}")


def _is_primary(stages: StagingTables, piece: MergePiece) -> bool:
    """Return whether the key is the target's primary one. A table may have another, or none."""
    table = piece.table
    found = [
        str(column).lower() for (column,) in ask(stages.connection, PRIMARY, table.target.schema, table.target.name)
    ]
    return found == [table.key[0].lower()]
