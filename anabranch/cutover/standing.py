"""Look whether the fence of a cut-over stands as its notes tell.

What does not live here: what a fence is made of (its connector), what follows from a gap (`steps.py`).
"""

from __future__ import annotations

from anabranch.contracts import SourceFence
from anabranch.model.cutover import Cutover, Phase, Step
from anabranch.model.ids import TableId


def gaps_of(fence: SourceFence, cutover: Cutover) -> list[str]:
    """Return what is open in a fence that was raised, and before the flip which tables DDL has changed behind it. From the flip
    on the way back may change them. Raises SourceUnavailable and SourceError."""
    noted = cutover.facts(Step.FENCE, Phase.BEGINS)
    tables, before = [TableId.parse(text) for text in noted["tables"]], noted["before"]
    back = str(cutover.facts(Step.REVERSE, Phase.BEGINS).get("job", ""))
    return fence.gaps(tables, before, back, is_flipped=cutover.has(Step.FLIP, Phase.BEGINS))
