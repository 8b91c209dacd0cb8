"""The options of a job's targets ([target.options]), drawn from the seed: how values of some types stand there. What the
checker reads is the same text either way.

What does not live here: how it is read (mysql_target_values.py), which options a target has (connectors/).
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from anabranch.testing.databases import Database
from anabranch.testing.torture.deeds import CONFLICT, draw_deed
from anabranch.testing.torture.targets import family_at

SHARE = 0.4  # of the histories to a target that has any


def draw_options(seed: int, target: Database) -> Mapping[str, str]:
    """Draw the options of one target; none where somebody else writes to it, who would have to know how."""
    choices, drawn = family_at(target).choices, random.Random(f"options of {seed}")
    deed = draw_deed(seed)
    if drawn.random() >= SHARE or (deed and deed.kind == CONFLICT):
        return {}
    return {name: drawn.choice(values) for name, values in choices.items()}
