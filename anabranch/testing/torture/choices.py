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


def draw_options(seed: int, target: Database) -> Mapping[str, str | int | bool]:
    """Draw the options of one target; none where somebody else writes to it, who would have to know how."""
    family, drawn = family_at(target), random.Random(f"options of {seed}")
    choices, deed = family.choices, draw_deed(seed)
    is_left_out = drawn.random() >= SHARE or (deed is not None and deed.kind == CONFLICT)
    if is_left_out and not family.keeps_changes:  # which has none of its own without
        return {}
    return {name: drawn.choice(values) for name, values in choices.items()}
