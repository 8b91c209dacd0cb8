"""What the stream needs to go on after a table's load: all marks of its chunks, kept with its state at the target.

Marks are not compared here: the apply engine resolves them to sequences of the trail. The table stays `loading` until
the stream has passed its window (K5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anabranch.abc import LoadedChunk
from anabranch.model.state import TableState

LOADED = {"loaded": "yes"}


def loaded(state: TableState, chunks: Sequence[LoadedChunk]) -> TableState:
    """The table's state once every chunk is in the ledger."""
    if any(chunk.rows is None for chunk in chunks):
        raise ValueError(f"{state.source}: chunks are missing")
    return replace(
        state,
        low=_distinct(chunk.low for chunk in chunks),
        high=_distinct(chunk.high for chunk in chunks),
        rows_loaded=sum(chunk.rows or 0 for chunk in chunks),
        facts={**state.facts, **LOADED},
    )


def is_loaded(state: TableState) -> bool:
    """Has this generation been handed over? A new one begins without marks."""
    return state.facts.get("loaded") == "yes" and bool(state.high)


def _distinct(marks: Iterable[str]) -> str:
    return json.dumps(list(dict.fromkeys(marks)))
