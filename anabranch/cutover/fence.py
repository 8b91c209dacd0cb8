"""The fence of a cut-over, by its notes: checking that it is intact, and lifting it.

What does not live here: what a fence is made of (its connector), what follows from a gap (`steps.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from anabranch.contracts import SourceFence
from anabranch.model.cutover import Cutover, Phase, Step
from anabranch.model.ids import TableId

PAUSE = 0.1  # seconds between two tries to remove what is in readers' way


def gaps_of(fence: SourceFence, cutover: Cutover) -> list[str]:
    """Return what is open in a fence that was raised, and before the flip which tables DDL has changed behind it. From the flip
    on the way back may change them. Raises SourceUnavailable and SourceError."""
    tables, before = _noted(cutover)
    back = str(cutover.facts(Step.REVERSE, Phase.BEGINS).get("job", ""))
    return fence.gaps(tables, before, back, is_flipped=cutover.has(Step.FLIP, Phase.BEGINS))


def lifted(fence: SourceFence, cutover: Cutover, seconds: float) -> list[str]:
    """Lift a fence that may have been raised: at once for writers. Returns what could not be removed within these seconds,
    which refuses nobody. Raises SourceUnavailable and SourceError."""
    tables, before = _noted(cutover)
    until = time.monotonic() + seconds
    while (left := fence.lift(tables, before)) and time.monotonic() < until:
        time.sleep(PAUSE)
    return left


def _noted(cutover: Cutover) -> tuple[list[TableId], Mapping[str, Any]]:
    """Return its tables, and what was there before it."""
    noted = cutover.facts(Step.FENCE, Phase.BEGINS)
    return [TableId.parse(text) for text in noted["tables"]], noted["before"]
