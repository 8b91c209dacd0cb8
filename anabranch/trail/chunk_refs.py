"""Places of chunks in the trail, with what is known of them without their rows.

What does not live here: finding and loading chunks (reader.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from anabranch.model.position import Position
from anabranch.rows.chunk import Part
from anabranch.trail.format import FORMAT
from anabranch.trail.segment import SegmentReader

LEAST_ROWS = 20  # as which a chunk counts at least: it takes kilobytes, and a live one may have a single row


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """A chunk in a segment: small, picklable, enough to plan with and to load.

    `bytes` are those of its rows in memory. `after` and `upto` are the window that was asked for: `load` leaves out
    transactions outside of it, while the counts are the whole chunk's. `last_native` and `last_commit_time` belong to
    `last_sequence` ("" and 0 in a fragment)."""

    segment: str
    offset: int
    length: int
    first_sequence: int
    last_sequence: int
    transactions: int
    rows: int
    last_native: str
    last_commit_time: int
    part: Part
    fragment: int
    has_barriers: bool
    tables: tuple[tuple[str, int], ...]  # str(TableId), row images
    bytes: int
    after: int = 0
    upto: int = 2**63 - 1
    format: int = FORMAT

    @property
    def last_position(self) -> Position:
        return Position(self.last_sequence, self.last_native)

    @property
    def cost(self) -> int:
        """The memory that it takes, in rows."""
        return max(self.rows, LEAST_ROWS)


def ref_at(segment: SegmentReader, offset: int, after: int, upto: int) -> ChunkRef:
    frame, head = segment.frame(offset)
    facts = json.loads(head)
    return ChunkRef(
        segment=segment.file,
        offset=offset,
        length=frame.length,
        first_sequence=frame.first,
        last_sequence=frame.last,
        transactions=frame.transactions,
        rows=frame.rows,
        last_native=facts["native"],
        last_commit_time=facts["time"],
        part=frame.part,
        fragment=frame.fragment,
        has_barriers=bool(facts["barriers"]),
        tables=tuple((table[0], table[2]) for table in facts["tables"]),
        bytes=sum(raw or stored for stored, raw in (table[4] for table in facts["tables"])),
        after=after,
        upto=upto,
    )
