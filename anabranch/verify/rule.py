"""The rule by which a row is judged beside writers: equal, different, or not to be told yet. Pure.

A row was read at the source in a snapshot that has everything up to `low` and nothing behind `high`, then at the target
together with its checkpoint `at`. The trail is complete up to `high` and says what happened to the row in between:

- it changed behind `low`, up to `at`: the last of these changes says what it is at `at`, if what the source showed is
one of the rows
  that the log has for it: else log and source contradict each other, or the row is older than what was looked at;
- it did not change between `low` and `at`, nor up to `high`: the snapshot says what it is at `at`;
- else nobody can tell at which of its values the source was read. It is looked at again.

What does not live here: reading (again.py), the trail (touched.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Window:
    """Sequences of one look; `end`: the trail's end after the target was read. Behind `at` nothing counts but that the table is
    emptied: a target may do that before its checkpoint says so, and a snapshot may not keep what was there."""

    low: int
    high: int
    at: int
    end: int
    since: int | None = None  # from which on the log's rows are told; not behind `first`

    @property
    def first(self) -> int:
        """Return the sequence behind which changes count."""
        return min(self.low, self.at)

    @property
    def last(self) -> int:
        """Return the sequence up to which changes count."""
        return max(self.high, self.at)


@dataclass
class Seen:
    """The trail's word on keys in a window.

    `values`: rows behind their last change behind `low` up to `at`, None: it is gone, NOT_SAID: the log does not have
    all of it. `outside`: keys that changed elsewhere in the window. `reached`: by places of columns, values that foreign
    keys acted on unseen: rows that have them may have changed. `told`: rows that a key had by the log up to `high`,
    None: it was gone; what the source showed has to be one of them, or the log is not what happened. `is_all`: something
    happened to all rows."""

    values: dict[bytes, bytes | None] = field(default_factory=dict)
    outside: set[bytes] = field(default_factory=set)
    reached: dict[tuple[int, ...], set[bytes]] = field(default_factory=dict)
    told: dict[bytes, set[bytes | None]] = field(default_factory=dict)
    is_all: bool = False


NOT_SAID = b"\n"  # no row is this


Rows = Mapping[bytes, Sequence[bytes]]
"""Rows of one end by key."""


def expected(seen: Seen, key: bytes, source: Rows, target: Rows) -> Sequence[bytes] | None:
    """Return the rows that the target has to have at its checkpoint; None where nobody can tell."""
    value = seen.values.get(key)
    known = [*source.get(key, ()), *target.get(key, ()), *([value] if value else [])]
    if seen.is_all or value == NOT_SAID or any(_is_reached(seen, row) for row in known):
        return None
    if key in seen.values:
        shown = source.get(key, ())
        is_told = len(shown) < 2 and (shown[0] if shown else None) in seen.told.get(key, ())
        return None if not is_told else () if value is None else (value,)
    return None if key in seen.outside else source.get(key, ())


def _is_reached(seen: Seen, row: bytes) -> bool:
    """Return whether foreign keys may have changed the row, or removed it, without a record in the log."""
    if not seen.reached:
        return False
    cells = row.split(b"\t")
    return any(b"\t".join([cells[place] for place in places]) in some for places, some in seen.reached.items())
