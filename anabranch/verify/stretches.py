"""Stretches of a large table: neighbouring ranges of its key, which are compared one after the other, so that a verification
that ends early has the rows behind it that it has read.

As with a sample (sampling.py) only whole numbers that begin the key can be cut: they alone have one order at both ends. What
does not live here: comparing a stretch (run.py), keeping how far one is (job/by_stretches.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise

from anabranch.contracts import Bounds, RangedReader, ReadTarget, SourceConnector, ValueRules
from anabranch.verify.plan import VerifyPiece, VerifyTable, has_json_key
from anabranch.verify.sampling import distinct, numbers_of, pieces_in, ranged_by

ROWS_PER_RANGE = 200_000  # as of a piece of a table that is compared whole


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring ranges of a table, by the source columns that begin its key."""

    columns: tuple[str, ...]
    ranges: tuple[Bounds, ...]

    @property
    def end(self) -> tuple[str, ...] | None:
        """Return the last key of it; None where it reaches to the end of the table."""
        return self.ranges[-1].upper


def stretches_of(
    source: SourceConnector,
    target: ReadTarget,
    one: VerifyTable,
    behind: Sequence[tuple[str, str]],
    *,
    rows: int,
    rules: ValueRules,
    expected_identity: str,
) -> list[Stretch]:
    """Cut a table into stretches of some `rows` rows that have each of its keys once. `behind`: begin behind this key (source
    column -> value), () for its first. [] where it cannot be cut, or not by the columns of that key."""
    leading = numbers_of(one)
    if not leading or has_json_key(one.schema, rules) or (behind and [column for column, _ in behind] != leading):
        return []
    with closing(source.snapshot(expected_identity)) as snapshot, closing(target.reader(rules)) as reader:
        if not isinstance(reader, RangedReader) or not pieces_in(reader, one, leading, [Bounds()]):
            return []
        every = list(distinct(snapshot.bounds(ranged_by(one, leading).schema, ROWS_PER_RANGE)))
    left = _behind(every, tuple(value for _, value in behind) or None)
    together = max(1, rows // ROWS_PER_RANGE)
    groups = (left[first : first + together] for first in range(0, len(left), together))
    return [Stretch(tuple(leading), tuple(group)) for group in groups]


def pieces_of_stretch(target: ReadTarget, one: VerifyTable, stretch: Stretch, rules: ValueRules) -> list[VerifyPiece]:
    """Return the pieces of both sides; [] where the target has no index over that key any more."""
    with closing(target.reader(rules)) as reader:
        return pieces_in(reader, one, stretch.columns, stretch.ranges) if isinstance(reader, RangedReader) else []


def _behind(bounds: Sequence[Bounds], key: tuple[str, ...] | None) -> list[Bounds]:
    """Return the ranges of all keys behind one, however the table was cut before; [] unless they have each of them once."""
    at = key and _numbers(key)
    left = [one for one in bounds if not at or one.upper is None or _numbers(one.upper) > at]
    if not left or left[-1].upper is not None or any(before.upper != one.lower for before, one in pairwise(left)):
        return []
    first = left[0].lower
    if not at:
        return left if first is None else []
    if first is not None and _numbers(first) > at:
        return []
    return [replace(left[0], lower=key), *left[1:]]


def _numbers(values: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(map(int, values))
