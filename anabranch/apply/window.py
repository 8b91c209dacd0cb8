"""The load's windows as sequences of the trail (K2, K5).

A table's chunks were read at several moments. Everything included in every chunk's `low` is loaded already; what is
in no chunk's `high` is not; in between changes are applied idempotently. `low` and `high` become sequences by asking
the connector which of the trail's transactions a mark includes: nobody here compares positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from anabranch.abc import LogOrder, TableState
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Part
from anabranch.trail.reader import ChunkRef, TrailReader


class WindowResolver:
    """Turns marks into sequences of one trail. Answers are kept: many chunks share a mark."""

    def __init__(self, trail: TrailReader, order: LogOrder) -> None:
        self.trail, self.order = trail, order
        self._lows: dict[str, int] = {}
        self._highs: dict[str, int] = {}

    def reached(self, state: TableState) -> bool:
        """Has the trail everything up to every `high`? Before that a window's end is not known."""
        end = self.trail.end()
        mark = LogMark(end.position.native, end.resume)
        highs = json.loads(state.high or "[]")
        return all(self.order.includes(mark, self.order.mark(high).native, None) for high in highs)

    def window(self, state: TableState) -> tuple[int, int]:
        """(low, high) as sequences; call only when `reached`."""
        low = self._low(state.low or "[]")
        return low, max((self._high(mark) for mark in json.loads(state.high or "[]")), default=low)

    def low(self, resume: str) -> int:
        """The last sequence up to which every transaction is included in one mark, as far as the trail goes now."""
        low = self._low(json.dumps([resume]))
        del self._lows[json.dumps([resume])]
        return low

    def _low(self, marks: str) -> int:
        """The last sequence up to which every transaction is included in all the marks."""
        if marks not in self._lows:
            lows = [self.order.mark(resume) for resume in json.loads(marks)]
            outside = (
                sequence
                for ref in self._refs()
                for sequence, native, gtid in self._transactions(ref)
                if not all(self.order.includes(low, native, gtid) for low in lows)
            )
            self._lows[marks] = next(outside, self.trail.end().position.sequence + 1) - 1
        return self._lows[marks]

    def _high(self, resume: str) -> int:
        """The last sequence that is included at all: in the first chunk that ends outside, or before it."""
        if resume not in self._highs:
            mark = self.order.mark(resume)
            last = self.trail.first() - 1
            for ref in self._refs():
                if not self.order.includes(mark, ref.last_native, None):
                    transactions = self._transactions(ref)
                    inside = (s for s, native, gtid in transactions if self.order.includes(mark, native, gtid))
                    last = max(inside, default=last)
                    break
                last = ref.last_sequence
            self._highs[resume] = last
        return self._highs[resume]

    def _refs(self) -> list[ChunkRef]:
        refs = self.trail.descriptors(self.trail.first() - 1, self.trail.end().position.sequence)
        return [ref for ref in refs if ref.part is not Part.FRAGMENT]

    def _transactions(self, ref: ChunkRef) -> Iterator[tuple[int, str, str | None]]:
        directory = self.trail.load(ref).transactions
        natives, gtids = directory.column("native").to_pylist(), directory.column("gtid").to_pylist()
        return zip(range(ref.first_sequence, ref.last_sequence + 1), natives, gtids, strict=True)


def is_followed(state: TableState) -> bool:
    """Streaming, or loaded and on the way there."""
    return state.state == "streaming" or (state.state == "loading" and state.facts.get("loaded") == "yes")
