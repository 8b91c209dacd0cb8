"""A log that has uncommitted work in it, as Oracle's: changes as they are made, transactions interleaved, ends where they are.

For tests of what capture makes of such logs. A native position is the number of records. What does not live here: tables,
a load, a target (`database.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.connectors.memory.database import Database, Image
from anabranch.connectors.memory.source.capture import POLL, MemoryLog, MemoryOrder, mark, number_of
from anabranch.contracts import Select
from anabranch.errors import LogLost
from anabranch.model.position import LogMark
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import Part
from anabranch.rows.log_items import LogIdle, LogItem
from anabranch.rows.uncommitted import LogChanges, LogEnded

FULL_RECORDS = 1000  # of one transaction in a row


@dataclass(frozen=True, slots=True)
class Record:
    """A change of the transaction `xid`, or its end."""

    xid: str
    image: Image | None = None
    is_committed: bool = False


class RedoOrder(MemoryOrder):
    """UncommittedOrder."""

    def since(self, mark: LogMark, low: LogMark) -> LogMark:
        return LogMark(mark.native, json.dumps({**json.loads(mark.resume), "low": _low(low)}), mark.commit_time)


class RedoLog(MemoryLog):
    """UncommittedReader of `records`, of tables of `database`. `began`: where each start began to read."""

    def __init__(self, database: Database, records: list[Record], full: int = FULL_RECORDS) -> None:
        super().__init__(database)
        self.order = RedoOrder()
        self.purged, self.began, self.next_read = 0, list[int](), 0
        self._records, self._full = records, full
        self._kept: dict[str, int] = {}
        self._ordinals: dict[str, int] = {}

    def end(self) -> LogMark:
        return self._place(len(self._records))

    def keep(self, kept: Mapping[str, LogMark]) -> None:
        self._kept = {xid: number_of(upto) for xid, upto in kept.items()}

    def start(self, after: LogMark, select: Select) -> None:
        self.next_read = _low(after)
        if json.loads(after.resume)["identity"] != self._database.identity or self.next_read < self.purged:
            raise LogLost("the log is another one, or does not reach to the mark", position=after.native)
        self.began.append(self.next_read)
        self._select, self._ordinals = select, {}
        self.reselect()

    def read(self, timeout: float) -> LogItem | None:
        until = time.monotonic() + timeout
        while self.next_read >= len(self._records):
            if time.monotonic() >= until:
                return None
            time.sleep(POLL)
        first = self._records[self.next_read]
        return self._changes(first.xid) if first.image else self._end(first)

    def _end(self, record: Record) -> LogEnded:
        self.next_read += 1
        self._ordinals.pop(record.xid, None)
        return LogEnded(record.xid, record.is_committed, self._place(self.next_read))

    def _changes(self, xid: str) -> LogChanges | LogIdle:
        """Read records of one transaction that stand together."""
        low, builder, left_out = self.next_read, ChunkBuilder(), set()
        while self.next_read < len(self._records) and builder.images < self._full:
            record = self._records[self.next_read]
            if record.xid != xid or record.image is None:
                break
            if self.next_read >= self._kept.get(xid, 0):
                if self._schema(record.image.table):
                    self._ordinal = self._ordinals.get(xid, 0)
                    self._add(builder, [record.image])
                    self._ordinals[xid] = self._ordinal
                else:
                    left_out.add(record.image.table)
            self.next_read += 1
        here = self._place(self.next_read)
        if not builder.images and not left_out:
            return LogIdle(here)
        chunk = builder.build("", Part.FRAGMENT)
        return LogChanges(xid, chunk, self._place(low), here, tuple(sorted(left_out)))

    def _place(self, number: int) -> LogMark:
        return mark(self._database.identity, number)


def _low(place: LogMark) -> int:
    facts = json.loads(place.resume)
    return int(facts.get("low", facts["number"]))
