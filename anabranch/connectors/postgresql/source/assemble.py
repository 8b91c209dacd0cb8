"""Assembly of a decoder's messages into chunks: follow transactions, keep rows where they wait. Pure but for what it is
given.

What does not live here: what is in a message (decode_pgoutput.py, decode_wal2json.py, decode_decoderbufs.py), the
connection and what a server is asked (capture.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from anabranch import pace
from anabranch.connectors.postgresql.source.message_buffer import MessageBuffer
from anabranch.connectors.postgresql.source.positions import Place, lsn_text
from anabranch.errors import UnknownLogEvent, ValueRefused
from anabranch.model.ids import TableId
from anabranch.model.markers import is_job, origin_of
from anabranch.model.position import LogMark
from anabranch.model.schema import Partition, TableSchema
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import BarrierKind, Chunk, Part
from anabranch.rows.log_items import LogItem
from anabranch.rows.uncommitted import LogEnded

FULL_IMAGES, FULL_BYTES = 20_000, 4 << 20  # a chunk is full from here on
_NEWER = "a newer version of anabranch may know it"


def full_images() -> int:
    """Return the number of row images after which a chunk is full, in this process."""
    return pace.current.log_images or FULL_IMAGES


class Assembler(ABC):
    """Follows one slot from `place` on: `take` messages, then what is `ready`. A decoder is one of these that knows what a
    plugin's messages mean.

    Delivery: everything committed after `place`, once, in the order of commits; nothing unknown is passed over."""

    def __init__(
        self, place: Place, builder: ChunkBuilder | None = None, leave_out: frozenset[str] = frozenset()
    ) -> None:
        """Set up the assembly. `leave_out`: origins whose rows are left out."""
        self.ready: deque[LogItem] = deque()
        self.parts: list[tuple[TableId, Partition]] = []  # as PartedReader.parts has them
        self._builder = builder or ChunkBuilder(MessageBuffer)
        self._xid: int | None = None  # of the open transaction
        self._origin: str | None = None  # and where it was made first, if not here
        self._leave_out, self._is_left_out = leave_out, False  # the latter: of the open transaction
        self._ordinal = self._fragmented = 0  # images of the open transaction, and how many of them left
        self._has_barrier = False
        self._place, self._time = place, 0

    def carry(self) -> None:
        """Go on at values that their type does not hold: from here on their rows come without them (ValueRules.carries)."""
        self._builder.carries = True

    @abstractmethod
    def take(self, message: bytes, lsn: int = 0) -> None:
        """Take the next message, which came with this place. Raises UnknownLogEvent."""

    def follow(self, frames: list[bytes], at: int) -> int:
        """Follow frames of the connection from number `at` on, as far as they can be taken together.

        Returns the number of the next one, which has to be taken for itself unless something is ready.
        """
        return at

    @abstractmethod
    def reselect(self) -> None:
        """Select tables again: definitions or selection changed."""

    @property
    def is_between(self) -> bool:
        return self._xid is None

    @property
    def is_waiting(self) -> bool:
        """True if there are whole transactions that `flush` would make ready."""
        return self._builder.transaction > 0

    def mark(self) -> LogMark:
        """Return the mark just after the last complete transaction."""
        return self._place.mark(self._time)

    def flush(self) -> None:
        """Make whole transactions that wait ready. Raises ValueRefused."""
        if self._builder.transaction:
            self.ready.append(self._build())

    def move(self, lsn: int) -> None:
        """Move the place on: there was nothing for us up to there, and nothing is open."""
        if self.is_between and not self._builder.transaction and lsn > self._place.lsn:
            self._place = self._place.at(lsn)

    def _beat(self, lsn: int, time: int) -> None:
        """Note a heartbeat of ours, which stands at this place and was written at this time."""
        if self.is_between and not self._builder.transaction and lsn >= self._place.lsn:
            self._place, self._time = self._place.at(lsn), time

    # --- what a decoder says --------------------------------------------------------------------------------------

    def _begin(self, xid: int) -> None:
        if self._xid is not None:
            raise self._unknown("a transaction that begins within another one")
        self._xid = xid

    def _came_from(self, origin: str) -> None:
        """Note where the open transaction was made first."""
        if self._xid is None:
            raise self._unknown("the origin of a transaction that did not begin")
        self._origin, self._is_left_out = origin, self._is_left_out or origin in self._leave_out

    def _marked(self, job: str) -> None:
        """Note which job has written the open transaction, if a row that says it is its first change (K21)."""
        if job and not (self._ordinal or self._has_barrier or is_job(self._origin)):
            self._came_from(origin_of(job))

    def _commit(self, end: int, time: int) -> None:
        """Complete the open transaction, which ended just before `end`, at `time` (microseconds since 1970)."""
        xid, builder = self._xid, self._builder
        if xid is None:
            raise self._unknown("the end of a transaction that did not begin")
        waiting, is_fragmented = self._ordinal - self._fragmented, self._fragmented > 0
        is_ours = self._ordinal > 0 or self._has_barrier
        origin, self._origin, self._is_left_out = self._origin, None, False
        self._xid, self._ordinal, self._fragmented, self._has_barrier = None, 0, 0, False
        self._place, self._time = self._place.at(end), time
        if not is_ours:
            return
        builder.commit(lsn_text(end), str(xid), time, waiting, origin)
        if is_fragmented:
            self.ready.append(self._build(Part.LAST))
        elif self._is_full():
            self.flush()

    def _give(self, item: LogItem) -> None:
        """Make an item ready, behind the whole transactions that wait."""
        self.flush()
        self.ready.append(item)

    def _streamed_commit(self, xid: int, end: int, time: int, origin: str | None) -> None:
        """Complete a transaction that came while it was open; it ended just before `end`."""
        self.flush()
        self._place, self._time = self._place.at(end), time
        self.ready.append(LogEnded(str(xid), True, self.mark(), str(xid), origin))

    def _added(self, images: int, size: int) -> None:
        """Note that images of the open transaction are in their buffer, made of so many bytes."""
        self._ordinal += images
        self._builder.images += images
        self._builder.size += size
        if self._is_full():
            self._full()

    def _truncate(self, table: TableId) -> None:
        self._builder.barrier(self._ordinal, BarrierKind.TRUNCATE, table)
        self._has_barrier = True

    def _park(self, table: TableId, reason: str) -> None:
        self._builder.barrier(self._ordinal, BarrierKind.PARK, table, reason)
        self._has_barrier = True

    def _unknown(self, what: str) -> UnknownLogEvent:
        return UnknownLogEvent(what, position=lsn_text(self._place.lsn), hint=_NEWER)

    # --- chunks ---------------------------------------------------------------------------------------------------

    def _buffer(self, schema: TableSchema) -> MessageBuffer:
        found = self._builder.table(schema)
        assert isinstance(found, MessageBuffer)
        return found

    def _is_full(self) -> bool:
        return self._builder.images >= full_images() or self._builder.size >= FULL_BYTES

    def _full(self) -> None:
        """Make room: whole transactions leave first; if the open one alone is too large, a fragment of it."""
        self.flush()
        if self._is_full():
            self.ready.append(self._build(Part.FRAGMENT))
            self._fragmented = self._ordinal

    def _build(self, part: Part = Part.WHOLE) -> Chunk:
        try:
            return self._builder.build(self.mark().resume, part)
        except ValueRefused as refusal:
            refusal.position = refusal.position or lsn_text(self._place.lsn)
            raise
        except ValueError as error:
            raise self._unknown(f"rows that cannot be read: {error}") from error
