"""The proof of what executors have staged (K10): each row has a random number, and the committing transaction counts the rows
of a table and adds their numbers up again. Rows that are missing or there twice change both.

What does not live here: the staging tables and the lock on them, which are each database's own (`target/stage.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from anabranch.connectors.sql.merge_pieces import NUMBER, StageColumn
from anabranch.contracts import Conflict
from anabranch.errors import StateError
from anabranch.rows.net import StagedNet

PROOF = StageColumn("proof", NUMBER)
PROOF_LIMIT = 1 << 32  # numbers below: 2^31 of them add up within a bigint


def proof_numbers(rows: int) -> Any:
    """Return a random number for each row, as an array of int64."""
    return np.random.default_rng().integers(0, PROOF_LIMIT, rows, np.int64)


def staged_pieces(staged: StagedNet) -> tuple[Any, ...]:
    """Return the pieces that a stager of this connector has written down. Raises StateError for another's."""
    pieces = staged.layout["pieces"]
    if not isinstance(pieces, tuple):
        raise StateError("the staged change is not one of this connector")
    return pieces


def lost(staged: StagedNet) -> Conflict:
    """Return the error for a staging table that is not there any more."""
    return Conflict(staged.table.source, "what was staged is gone")


def prove(staged: StagedNet, found: Iterable[tuple[str, int, int]]) -> None:
    """Compare what stands in the staging tables (name, rows, sum of their numbers) with what was staged. Raises Conflict."""
    digest = 0
    for table, count, numbers in found:
        if count != staged.counts[table]:
            what = f"expected {staged.counts[table]} staged rows, found {count}"
            raise Conflict(staged.table.source, what)
        digest += numbers
    if digest != staged.digest:
        raise Conflict(staged.table.source, "the staged rows are not those that were staged")
