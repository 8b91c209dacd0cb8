"""Rows counted against what a server says they are: none gets lost on the way, or comes twice, without an error.

What does not live here: how a server is asked (the connectors).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

LINE_END = 10


def lines_in(block: bytes) -> int:
    """Count the lines of a block of whole lines."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == LINE_END)) if block else 0


class Told:
    """Blocks of rows. `rows`, once the last block is taken: how many rows their server says they are, which the generator
    behind them returns; None where it does not say."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = blocks
        self.rows: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        blocks = iter(self._blocks)
        while True:
            try:
                block = next(blocks)
            except StopIteration as end:
                self.rows = end.value
                return
            yield block


def miscount(place: str, told: int, came: int) -> str:
    """Say that two counts differ, for an error's message."""
    return f"the server counts {told} rows in {place}, and {came} came"


def piece_name(key: Sequence[str], lower: Sequence[str] | None, upper: Sequence[str] | None) -> str:
    """Name a piece of a table by the keys between which it lies."""
    names = ", ".join(key) or "the row's place"
    ends = [f"{sign} ({', '.join(end)})" for sign, end in ((">", lower), ("<=", upper)) if end is not None]
    return f"the piece with ({names}) {' and '.join(ends)}" if ends else "the whole table"
