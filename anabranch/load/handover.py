"""Handing a loaded table to the stream: all marks of its chunks, kept with its state at the target.

Marks are not compared here: the apply engine resolves them to sequences of the trail. The table stays `loading` until
the stream has passed its window (K5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from anabranch.contracts import LoadedChunk
from anabranch.model.table_life import TableState, hand_over


def loaded(state: TableState, chunks: Sequence[LoadedChunk], aside: int = 0) -> TableState:
    """Return the table's state once every chunk is in the ledger. `aside`: rows that were set aside on the way."""
    if any(chunk.rows is None for chunk in chunks):
        raise ValueError(f"{state.source}: chunks are missing")
    low, high = _distinct(chunk.low for chunk in chunks), _distinct(chunk.high for chunk in chunks)
    return hand_over(state, low, high, sum(chunk.rows or 0 for chunk in chunks), aside)


def _distinct(marks: Iterable[str]) -> str:
    return json.dumps(list(dict.fromkeys(marks)))
