"""Reads a job's trail for people, one page of row images at a time, from this machine alone.

What does not live here: the readable form of a row (`trail/show.py`), who may see values (`inside.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.model.ids import TableId
from anabranch.rows.chunk import Part
from anabranch.trail.reader import TrailReader, exists

if TYPE_CHECKING:
    from anabranch.trail.show import ShownRow

EACH = 100  # rows on a page
STEP = 200  # transactions that the first page shows the end of, and that one goes back by
LONGEST_S = 5.0  # of looking for rows of a page


@dataclass(frozen=True)
class Wanted:
    """The rows that somebody looks for. `after`: the sequence behind which they stand, None: near the end of the trail; `skip`:
    so many rows of the first transaction were shown already; `key`: texts that columns of a row have."""

    after: int | None = None
    skip: int = 0
    table: TableId | None = None
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TrailPage:
    """One page. `first`, `last`: the sequences that the trail has, 0 where there is no trail; `after`: behind which one was
    looked; `next`: where the next page begins, as `after` and `skip`; None at the end. `is_cut`: the time was over before the
    page was full."""

    rows: list[ShownRow]
    first: int
    last: int
    after: int
    next: tuple[int, int] | None
    is_cut: bool = False

    @property
    def former(self) -> int | None:
        """Say where to begin to see what stands in front of this page; None at the beginning of the trail."""
        return max(self.first - 1, self.after - STEP) if self.after > self.first - 1 else None


def read_page(directory: Path, wanted: Wanted, longest: float = LONGEST_S) -> TrailPage:
    """Return a page of a trail. Raises TrailError where what is asked for was dropped, TrailCorrupt."""
    if not exists(directory):
        return TrailPage([], 0, 0, 0, None)
    with TrailReader(directory, name="trail") as reader:
        first, last = reader.first(), reader.end().position.sequence
        begin = max(first - 1, last - STEP) if wanted.after is None else max(first - 1, min(wanted.after, last))
        found = TrailPage([], first, last, begin, None)
        return _filled(found, _rows(reader, begin, wanted), wanted.skip if begin == wanted.after else 0, longest)


def _rows(reader: TrailReader, begin: int, wanted: Wanted) -> Iterator[ShownRow | int]:
    """Yield rows, and behind each transaction that is whole the sequence up to which was looked."""
    from anabranch.trail.show import show_chunk  # Arrow: megabytes that few managers are asked for

    for ref in reader.descriptors(begin):
        yield from show_chunk(reader, ref, table=wanted.table, key=wanted.key)
        if ref.part is not Part.FRAGMENT:
            yield ref.last_sequence


def _filled(page: TrailPage, found: Iterator[ShownRow | int], skip: int, longest: float) -> TrailPage:
    rows: list[ShownRow] = []
    ends, looked = time.monotonic() + longest, page.after
    sequence, of_it = page.after + 1, 0  # the transaction that is read, and how many of its rows were passed
    for one in found:
        if isinstance(one, int):
            looked = max(looked, one)
            if time.monotonic() > ends and looked < page.last:
                return TrailPage(rows, page.first, page.last, page.after, (looked, 0), is_cut=True)
            continue
        if one.position.sequence != sequence:
            sequence, of_it = one.position.sequence, 0
        of_it += 1
        if skip and sequence == page.after + 1 and of_it <= skip:
            continue
        if len(rows) == EACH:
            return TrailPage(rows, page.first, page.last, page.after, (sequence - 1, of_it - 1))
        rows.append(one)
    return TrailPage(rows, page.first, page.last, page.after, None)
