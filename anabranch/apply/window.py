"""The load's windows as sequences of the trail (K2, K5).

A table's chunks were read at several moments. Everything included in every chunk's `low` is loaded already; what is
in no chunk's `high` is not; in between changes are applied idempotently. `low` and `high` become sequences by asking
the connector which of the trail's transactions a mark includes: nobody here compares positions.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice

from anabranch.contracts import LogOrder
from anabranch.model.position import LogMark
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Part
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.reader import TrailReader


class WindowResolver:
    """Turns marks into sequences of one trail. Answers are kept: many chunks share a mark."""

    def __init__(self, trail: TrailReader, order: LogOrder) -> None:
        self.trail, self.order = trail, order
        self._lows: dict[str, int] = {}
        self._highs: dict[str, int] = {}
        self._known: list[ChunkRef] = []

    def reached(self, state: TableState) -> bool:
        """Return whether the trail has everything up to every `high`. Before that a window's end is not known."""
        end = self.trail.end()
        mark = LogMark(end.position.native, end.resume)
        highs = json.loads(state.high or "[]")
        return all(self.order.includes(mark, self.order.mark(high).native, None) for high in highs)

    def end_behind(self, resume: str) -> int | None:
        """Return the trail's last sequence, if it has everything up to this mark by now; the mark's own transactions are among
        those up to it."""
        end = self.trail.end()
        mark = LogMark(end.position.native, end.resume)
        return end.position.sequence if self.order.includes(mark, self.order.mark(resume).native, None) else None

    def window(self, state: TableState) -> tuple[int, int]:
        """Return (low, high) as sequences; call only when `reached`."""
        if state.facts.window is not None:
            return state.facts.window
        low = self._low(state.low or "[]")
        return low, max((self.high(mark) for mark in json.loads(state.high or "[]")), default=low)

    def loaded(self, state: TableState, low: int, high: int) -> frozenset[int] | None:
        """Return sequences after `low` up to `high` that are loaded already; None where that cannot be told for each.

        It can be told where all rows are of one snapshot that knows each of the log's transactions (K14).
        """
        marks = {*json.loads(state.low or "[]"), *json.loads(state.high or "[]")}
        if (
            state.facts.window is not None
            or len(marks) != 1
            or not self.order.is_set(mark := self.order.mark(marks.pop()))
        ):
            return None
        refs = (ref for ref in self._refs() if ref.last_sequence > low and ref.first_sequence <= high)
        found = (one for ref in refs for one in self._transactions(ref))
        return frozenset(
            seq for seq, native, gtid in found if low < seq <= high and self.order.includes(mark, native, gtid)
        )

    def low(self, resume: str) -> int:
        """Return the last sequence up to which every transaction is included in one mark, as far as the trail goes now."""
        low = self._low(json.dumps([resume]))
        del self._lows[json.dumps([resume])]
        return low

    def _low(self, marks: str) -> int:
        """Return the last sequence up to which every transaction is included in all the marks."""
        if marks not in self._lows:
            lows = [self.order.mark(resume) for resume in json.loads(marks)]
            ordered = [low for low in lows if not self.order.is_set(low)]
            sets = [low for low in lows if self.order.is_set(low)]
            refs = self._refs()
            at = bisect_left(refs, True, key=lambda ref: not self._ends_inside(ordered, ref))
            outside = self._first_outside(islice(refs, at, None), ordered)
            self._lows[marks] = min(outside, self._first_outside(refs, sets)) - 1
        return self._lows[marks]

    def _ends_inside(self, marks: list[LogMark], ref: ChunkRef) -> bool:
        return all(self.order.includes(mark, ref.last_native, None) for mark in marks)

    def _first_outside(self, refs: Iterable[ChunkRef], marks: list[LogMark]) -> int:
        """Return the first sequence that one of the marks does not include."""
        outside = (
            sequence
            for ref in (refs if marks else ())
            for sequence, native, gtid in self._transactions(ref)
            if not all(self.order.includes(mark, native, gtid) for mark in marks)
        )
        return next(outside, self.trail.end().position.sequence + 1)

    def high(self, resume: str) -> int:
        """Return the last sequence that one mark includes at all: in the first chunk that ends outside, or before it."""
        if resume not in self._highs:
            mark, refs = self.order.mark(resume), self._refs()
            at = bisect_left(refs, True, key=lambda ref: not self._ends_inside([mark], ref))
            last = refs[at - 1].last_sequence if at else self.trail.first() - 1
            inside = (
                sequence
                for ref in refs[at : at + 1]
                for sequence, native, gtid in self._transactions(ref)
                if self.order.includes(mark, native, gtid)
            )
            self._highs[resume] = max(inside, default=last)
        return self._highs[resume]

    def _refs(self) -> list[ChunkRef]:
        """Return all chunks that end a transaction. Kept, because the trail grows while many tables ask."""
        first, end = self.trail.first(), self.trail.end().position.sequence
        known = [ref for ref in self._known if ref.last_sequence >= first]
        after = known[-1].last_sequence if known else first - 1
        new = self.trail.descriptors(after, end) if after < end else []
        self._known = known + [ref for ref in new if ref.part is not Part.FRAGMENT]
        return self._known

    def _transactions(self, ref: ChunkRef) -> Iterator[tuple[int, str, str | None]]:
        """Yield the transactions of the source's log. A chunk that only brings in a definition is ours and is in no log."""
        if ref.has_barriers and ref.rows == 0 and self.trail.load(ref).is_ours:
            return iter(())
        directory = self.trail.transactions(ref)
        natives, gtids = (directory.column(name).to_pylist() for name in ("native", "gtid"))
        return zip(range(ref.first_sequence, ref.last_sequence + 1), natives, gtids, strict=True)
