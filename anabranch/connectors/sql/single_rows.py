"""Changes that are carried out row by row: the key that names one, and how many rows each has to hit.

What does not live here: the statements (`target/single_rows.py`).
"""

from __future__ import annotations

from anabranch.connectors.sql.merge_pieces import Texts
from anabranch.contracts import Conflict
from anabranch.rows.net import INSERT, RowChange


def named_key(row: RowChange) -> Texts:
    """Return the key that names a row change in messages; of a keyless table nothing."""
    if row.operation == INSERT:
        return {name: row.values.get(name) for name in row.table.key}
    return dict(row.old_key)


def refuse_other_than_one(row: RowChange, found: int) -> None:
    """Raise Conflict unless a checked change has hit one row. `found`: how many it has."""
    if row.checked and found != 1:
        what = "the row is not there" if not found else f"expected one row, found {found}"
        raise Conflict(row.table.source, f"{row.operation} in {row.table.target}: {what}", named_key(row))
