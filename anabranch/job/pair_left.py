"""Notes of a pair that a job has yet to carry out (K23): a run until it is caught up ends behind them.

What concerns the job are deletes that its twin has applied at its source, behind which it has to clear older rows, and rows of
its target that it has to write again. Its own deletes are for the twin to clear, which need not run. A table that is parked
keeps its notes until it is back, so nobody waits for those. What does not live here: carrying notes out
(`apply/pair_deletes.py`, `apply/pair_standing.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from anabranch.contracts import PairCatalog
from anabranch.errors import SourceUnavailable, TargetUnavailable
from anabranch.lifecycle.pair_start import twin_of
from anabranch.lifecycle.reversing import read_end
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.preflight.way_back import target_asked
from anabranch.view.opened import catalog_of, source_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

KNOWING = 1.0  # seconds between two looks
PAGE = 2000  # notes that are read at once
MOST = 100_000  # notes that are waited for at a time; more are looked for behind them


class Note(Protocol):
    """A note of either kind."""

    @property
    def id(self) -> str: ...
    @property
    def table(self) -> TableId: ...


@dataclass
class NotesLeft:
    """The notes that were there when it was asked first, and are to be carried out: later ones are none of its business."""

    job: JobView
    text: str = ""  # what is waited for, for people; "" for nothing
    _first: set[str] | None = None  # ids
    _is_cut: bool = False
    _again: float = 0.0

    def are_none(self, states: Mapping[TableId, TableState]) -> bool:
        """Return whether nothing is left, asked once a second. An end that is away is asked again: the parts tell of it."""
        now = time.monotonic()
        if now < self._again:
            return False
        self._again = now + KNOWING
        try:
            found, is_cut = self._left(states)
        except (SourceUnavailable, TargetUnavailable):
            return False
        if self._first is None:
            self._first, self._is_cut = found, is_cut
        left = self._first & found
        if not left and self._is_cut:
            self._first = None
        self.text = (
            f"for {len(left)} notes of both sites to be carried out: deletes, and rows that stay" if left else ""
        )
        return not left and not self._is_cut

    def _left(self, states: Mapping[TableId, TableState]) -> tuple[set[str], bool]:
        """Return ids of notes of tables that stream, and whether there are more."""
        here = {table for table, state in states.items() if state.is_streaming}
        there = {state.target for state in states.values() if state.is_streaming}
        name, twin = self.job.config.name, twin_of(self.job)
        deleted, again = list[str](), list[str]()
        if twin:
            with catalog_of(source_of(self.job)) as catalog:
                deleted = _ids(here, lambda after: _of_pair(catalog).pair_notes(twin, PAGE, after).deleted)
        with target_asked(), closing(read_end(self.job).catalog()) as catalog:
            again = _ids(there, lambda after: _of_pair(catalog).standing(name, PAGE, after))
            cleared = _of_pair(catalog).pair_notes(name).cleared if deleted else ()
        return {*deleted, *again}.difference(cleared), MOST in (len(deleted), len(again))


def _ids(tables: Collection[TableId], page: Callable[[str], Sequence[Note]]) -> list[str]:
    return list(islice((one.id for one in _pages(page) if one.table in tables), MOST))


def _pages(page: Callable[[str], Sequence[Note]]) -> Iterator[Note]:
    after, is_last = "", False
    while not is_last:
        found = page(after)
        yield from found
        is_last, after = len(found) < PAGE, found[-1].id if found else ""


def _of_pair(catalog: object) -> PairCatalog:
    assert isinstance(catalog, PairCatalog)  # jobs of others with [pair] are refused at their start
    return catalog
