"""The wishes of a person who verifies. No behaviour lives here, and nothing is imported that takes time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Wanted:
    """`repairs`: have apply put right what differs, and compare again. `by_rows`: read all rows, also where servers can sum up
    their own. `patterns`: globs on source tables, () for all. `budget`: seconds after which what is not decided is pending.
    `since`: a position of the trail; only rows that changed behind it are looked at; "" for all. `show`: where people see how
    far it is, if that is a terminal; None: nowhere."""

    repairs: bool = False
    by_rows: bool = False
    patterns: tuple[str, ...] = ()
    budget: float = math.inf
    since: str = ""
    show: IO[str] | None = None
