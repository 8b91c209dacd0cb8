"""Rows by their keys at two ends to which nobody writes: behind the fence of a cut-over, with apply standing still.

What is there is what stays, so a row is equal or different as it is read, and neither capture nor apply is waited for. What
does not live here: which keys that are (since.py), and whether it is still (the cut-over's looks at the log).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from anabranch.verify.again import NOT_SHOWN, NOT_STREAMING, Again, Settled, is_judged
from anabranch.verify.plan import VerifyTable


class Still(Again):
    """Looks at rows that rest."""

    def _look(self, one: VerifyTable, keys: Sequence[bytes], found: Settled) -> list[bytes]:
        """Look once; return the keys of which nobody can tell yet: the source may not show all that the target has (K2)."""
        if not self._has_floor():
            found.why = NOT_SHOWN
            return list(keys)
        wanted = frozenset(keys)
        with closing(self._source.snapshot(self._identity)) as snapshot:
            first = self._places.low(self._opened(snapshot, one))
            source = self._rows(one, wanted, self._lines_at_source(snapshot, one, keys))
        try:
            placed = self._reader.place(self._beside.job, one.table.source)
            if placed is None or not placed[1].is_streaming:
                found.why, found.is_parked = NOT_STREAMING, placed is not None and placed[1].is_parked
                return list(keys)
            target = self._rows(one, wanted, self._target_lines(one, keys))
        finally:
            self._reader.leave()
        self._raise_floor(first)
        if first < placed[0].position.sequence:
            found.why = NOT_SHOWN
            return list(keys)
        return [key for key in keys if not is_judged(found, key, source.get(key, ()), target.get(key, ()))]
