"""How tables are emptied at a target where TRUNCATE commits by itself, drawn from the seed, and a fault just behind it.

What does not live here: what may be seen of it (targets.empties_at_once, check.py).
"""

from __future__ import annotations

import random

from anabranch.testing.databases import Database
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.history import History
from anabranch.testing.torture.targets import empties_apart

SHARE = 0.4  # of the histories to such a target: their job file asks for the statement
DIES = 0.5  # of these: the process is gone between the statement and its epoch
POINT = "apply.emptied"


def draw_emptying(seed: int, target: Database) -> str:
    """Draw what the job file says of TRUNCATE: mostly nothing, "" then."""
    drawn = random.Random(f"emptying of {seed}").random()
    return "truncate" if empties_apart(target) and drawn < SHARE else ""


def emptying_faults(history: History, target: Database) -> tuple[Fault, ...]:
    """Return the faults that a history has for its sake, if it may come so far."""
    streamed = any(transaction.truncates or transaction.bare for transaction in (*history.during, *history.after))
    if not streamed or not draw_emptying(history.seed, target):
        return ()
    dies = random.Random(f"faults of emptying {history.seed}").random() < DIES
    return (Fault("exit", POINT),) if dies else ()
