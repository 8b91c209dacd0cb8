"""Draw a history of two active sites from its seed: what each writer does, how large epochs are, and what goes wrong
after how many commits. How writers and jobs meet is the machine's affair.

What does not live here: carrying it out (two_sites.py), what the end may be (two_sites_judged.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from anabranch.testing.torture.local import Small

PARTS = ("capture", "apply")
# The newest row stays whole; its stock is added up; in the third the site "other" wins, whatever the versions are.
TABLES = ROWS, SUMS, WINS = "site_rows", "site_sums", "site_wins"
STEPS = ((1, 1, 2, 0), (1, 0), (1, 1, 1, 1, 1, 2, 2, 3, 3, 0))
KEYS = 1000  # of one history, at most
CUT, RESTART = "cut", "restart"
OF_ENDS = (CUT, CUT, RESTART)
EXITS = (
    "capture.appended",
    "capture.published",
    "apply.begun",
    "apply.merged",
    "apply.one",
    "apply.conflict",
    "apply.conflict.noted",
    "apply.commit",
    "apply.committed",
    "apply.pair.due",
    "apply.pair.cleared",
    "apply.pair.standing",
    "apply.pair.stood",
)
Script = tuple[tuple[tuple[int, int], ...], ...]
"""The transactions of a writer; each is a list of (key, step)."""


@dataclass(frozen=True, order=True)
class Fault:
    """Acts once both sites have committed `after` transactions of this history. `at`: 0 or 1. `what`: a part of PARTS
    of that job is killed; or all lines that jobs have to that site are cut, or its server dies and starts again."""

    after: int
    at: int
    what: str

    @property
    def kind(self) -> str:
        return "kill" if self.what in PARTS else self.what


@dataclass(frozen=True)
class History:
    """Holds what was drawn from a seed. `scripts`: by site and writer, the transactions; each is a list of (key, step), where
    the step is added to the column that tells the newer row, and to its stock; 0: the row is deleted, if there is one."""

    seed: int
    scripts: tuple[tuple[Script, ...], ...]
    faults: tuple[Fault, ...]
    exits: tuple[str, str]
    """By way, failpoints at which its processes end themselves."""
    small: Small

    @property
    def table(self) -> str:
        if self.seed % 2:
            return SUMS
        return random.Random(f"wins {self.seed}").choice((ROWS, WINS))

    @classmethod
    def drawn(cls, seed: int) -> History:
        """Draw a history. What befalls the ends is drawn apart, so that a seed keeps what it gave before there was that."""
        chance = random.Random(f"two sites {seed}")
        keys = chance.choice((1, 2, 5, 40))
        steps = (1, 1, 1, 2, 3) if seed % 4 == 1 else random.Random(f"deletes {seed}").choice(STEPS)

        def script() -> Script:
            many = [chance.choice((1, 1, 2, 4)) for _ in range(chance.randrange(5, 25))]
            rows = [sorted(chance.sample(range(keys), min(keys, number))) for number in many]
            return tuple(tuple((key, chance.choice(steps)) for key in one) for one in rows)

        scripts = tuple(tuple(script() for _ in range(chance.choice((1, 1, 2)))) for _ in range(2))
        total = sum(len(one) for site in scripts for one in site)
        faults = [
            Fault(chance.randrange(1, total), chance.randrange(2), chance.choice(PARTS))
            for _ in range(chance.randrange(1, 4))
        ]
        exits = [
            ";".join(f"{name}=exit@{chance.randrange(1, 4)}" for name in chance.sample(EXITS, chance.randrange(3)))
            for _ in range(2)
        ]
        small = Small(epoch_rows=chance.choice((1, 3, 10, 200_000)), segment_bytes=chance.choice((0, 4096)))
        faults += _of_ends(seed, total)
        return cls(seed, scripts, tuple(sorted(faults)), (exits[0], exits[1]), small)


def _of_ends(seed: int, total: int) -> list[Fault]:
    chance = random.Random(f"ends of two sites {seed}")
    many = chance.choice((0, 1, 1, 2))
    return [Fault(chance.randrange(1, total), chance.randrange(2), chance.choice(OF_ENDS)) for _ in range(many)]
