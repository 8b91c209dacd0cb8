"""Differences beside a running job: what was found is looked at again until it is decided, or time is over.

A table that did not change while its rows were brought together is decided by that. Of others each key is looked at again
(again.py). A table without keys is read again until nothing changes meanwhile. What does not live here: bringing rows together
(run.py), results for people (report.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch import pace
from anabranch.model.ids import TableId
from anabranch.verify.again import NO_KEYS, REST, Again, Bracket
from anabranch.verify.compare import Comparison, Found
from anabranch.verify.digest import key_of
from anabranch.verify.plan import VerifyTable

KEYS = 100_000  # of a table that are looked at again before further buckets are read

Buckets = Mapping[TableId, frozenset[int]]
Differences = Callable[[Buckets, Comparison], dict[TableId, list[Found]] | None]
"""Bring the rows of these buckets together, and compare them. None when stopped."""


@dataclass
class Undecided:
    """A table, and its buckets that differ, each with the rows of the side that has more. `found`: what is decided;
    `pending`: rows of which nobody can tell, and why."""

    one: VerifyTable
    left: dict[int, int]
    found: list[Found] = field(default_factory=list)
    pending: int = 0
    why: str = ""
    judged: set[bytes] = field(default_factory=set)  # keys that are known to differ, in buckets that are read again

    @property
    def source(self) -> TableId:
        return self.one.table.source

    def chosen(self, limit: int) -> frozenset[int]:
        """Choose the differing buckets to compare next: at most `limit` rows, at least one bucket."""
        found: list[int] = []
        rows = 0
        for bucket, count in self.left.items():
            rows += count
            if found and rows > limit:
                break
            found.append(bucket)
        return frozenset(found)

    def decide(self, buckets: frozenset[int], found: Sequence[Found]) -> None:
        """Note that buckets are decided, with these differences."""
        self.found += found
        for bucket in buckets:
            del self.left[bucket]

    def differences(self) -> int:
        """Return how many differences are decided."""
        return sum(one.count - (one.extra if self.one.is_shared else 0) for one in self.found)


def settle(
    again: Again, tables: Sequence[Undecided], comparison: Comparison, differences: Differences, limit_rows: int
) -> bool:
    """Decide what differs. False when stopped."""
    shared = frozenset(one.source for one in tables if one.one.is_shared)
    rest = pace.current.verify_poll
    while open_ := [one for one in tables if one.left and one.differences() < comparison.limit_keys]:
        buckets = {one.source: one.chosen(limit_rows) for one in open_}
        began = {one.source: again.begin(one.one) for one in open_}
        limits = {
            one.source: max(1, KEYS // len(buckets[one.source])) + len(one.judged)
            for one in open_
            if again.can_find(one.one)
        }
        started = time.monotonic()
        found = differences(buckets, replace(comparison, again=limits, shared=shared))
        again.extend(time.monotonic() - started)
        if not found:  # stopped, or no time for it
            break
        before = sum(len(one.left) for one in open_)
        for one in open_:
            _take(again, comparison, one, buckets[one.source], found[one.source], began[one.source])
        if again.is_over:
            break
        if sum(len(one.left) for one in open_) == before:
            again.rest(rest)
            rest = min(2 * rest, REST)
    return not again.is_stopped


def _take(
    again: Again,
    comparison: Comparison,
    one: Undecided,
    buckets: frozenset[int],
    found: Sequence[Found],
    began: Bracket,
) -> None:
    differing = [some for some in found if some.count - (some.extra if one.one.is_shared else 0)]
    if not differing or again.is_quiet(one.one, began):
        one.decide(buckets, found)
        one.pending, one.why = 0, ""
    elif again.can_find(one.one):
        _look_again(again, comparison, one, buckets, found)
    else:
        one.pending, one.why = sum(some.count for some in differing), NO_KEYS


def _look_again(
    again: Again, comparison: Comparison, one: Undecided, buckets: frozenset[int], found: Sequence[Found]
) -> None:
    """Judge the keys that were told; buckets of which not all keys were told are read again."""
    keys = [key for some in found for key in some.keys if key not in one.judged]
    settled = again.settle(one.one, keys, comparison.limit_keys - one.differences())
    others = Found(extra=sum(some.extra for some in found) if one.one.is_shared else 0)
    key = key_of(one.one.table)
    one.judged.update(map(key, settled.source), map(key, settled.target))
    judged = comparison.compare(one.one.table, settled.source, settled.target)
    cut = {some.bucket for some in found if some.is_cut or settled.is_cut}
    one.decide(buckets - cut, [others, judged])
    one.pending, one.why = len(settled.pending), settled.why if settled.pending else ""
