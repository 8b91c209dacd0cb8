"""The wishes of a person who verifies. No behaviour lives here, and nothing is imported that takes time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import IO

SEEDS = 1_000_000  # numbers by which a sample is drawn, where nobody gives one: short enough to be typed


@dataclass(frozen=True, slots=True)
class Sample:
    """The wish for a sample. `share`: of the ranges of each table, above 0, at most 1. The same `seed` draws the same ranges of
    a table that is cut alike."""

    share: float
    seed: int

    @property
    def percent(self) -> str:
        return f"{100 * self.share:.6g}%"


@dataclass(frozen=True)
class Wanted:
    """`repairs`: have apply put right what differs, and compare again. `by_rows`: read all rows, also where servers can sum up
    their own. `patterns`: globs on source tables, () for all. `budget`: seconds after which what is not decided is pending.
    `since`: a position of the trail; only rows that changed behind it are looked at; "" for all. `sample`: only ranges of keys
    that are drawn are compared. `max_pause`: seconds for which apply may be held, so that both ends are read at one position;
    0: it is not held. `resumes`: tables that a verification before this one, which did not come to its end, found equal are not
    compared again. `show`: where people see how far it is, if that is a terminal; None: nowhere."""

    repairs: bool = False
    by_rows: bool = False
    patterns: tuple[str, ...] = ()
    budget: float = math.inf
    since: str = ""
    show: IO[str] | None = None
    sample: Sample | None = None
    max_pause: float = 0.0
    resumes: bool = False

    @property
    def is_kept(self) -> bool:
        """Return whether the result of each table is kept at the target, so that another call can go on: where it may end
        before all are compared, and compares tables whole."""
        is_whole = not (self.repairs or self.since or self.sample)
        return is_whole and (self.resumes or self.budget < math.inf)
