"""From messages of pgoutput to chunks: follows transactions, keeps rows where they wait. Pure but for what it is given.

What does not live here: the connection and what a server is asked (capture.py), what is in a message (pgoutput.py), relations
and definitions (relations.py).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from anabranch.abc import LogItem, Select
from anabranch.connectors.postgresql.message_buffer import MessageBuffer
from anabranch.connectors.postgresql.pgoutput import (
    ROWS,
    Begin,
    Commit,
    Item,
    Origin,
    Relation,
    Truncate,
    TypeName,
    Written,
    parse,
)
from anabranch.connectors.postgresql.positions import Place, lsn_text
from anabranch.connectors.postgresql.relations import Relations, TypeText
from anabranch.errors import UnknownLogEvent
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import BarrierKind, Chunk, Part

FULL_IMAGES, FULL_BYTES = 20_000, 4 << 20  # a chunk is full from here on
_NEWER = "a newer version of anabranch may know it"


class Assembler:
    """Follows one slot from `place` on: `take` messages, then what is `ready`.

    Delivery: everything committed after `place`, once, in the order of commits; nothing unknown is passed over."""

    def __init__(self, place: Place, select: Select, type_text: TypeText) -> None:
        self.ready: deque[LogItem] = deque()
        self._builder = ChunkBuilder(MessageBuffer)
        self._relations = Relations(select, type_text, self._buffer, self._park)
        self._begun: Begin | None = None
        self._ordinal = self._fragmented = 0  # images of the open transaction, and how many of them left
        self._has_barrier = False
        self._place, self._time = place, 0

    @property
    def is_between(self) -> bool:
        return self._begun is None

    @property
    def is_waiting(self) -> bool:
        """Are there whole transactions that `flush` would make ready?"""
        return self._builder.transaction > 0

    def mark(self) -> LogMark:
        """Just after the last transaction that is complete."""
        return self._place.mark(self._time)

    def reselect(self) -> None:
        """Definitions or selection changed."""
        self._relations.reselect()

    def take(self, message: bytes) -> None:
        """The next message. Raises UnknownLogEvent."""
        if message[0] not in ROWS:
            self._other(message)
            return
        try:
            known = self._relations.known[message[1:5]]
        except KeyError:
            raise self._unknown("rows of a relation that the log did not name") from None
        if known is None:
            return
        buffer, layout = known
        images = buffer.add(layout, message, self._builder.transaction, self._ordinal)
        self._ordinal += images
        self._builder.images += images
        self._builder.size += len(message)
        if self._is_full():
            self._full()

    def flush(self) -> None:
        """Whole transactions that wait become ready. Raises ValueRefused."""
        if self._builder.transaction:
            self.ready.append(self._build())

    def move(self, lsn: int) -> None:
        """Nothing for us up to there, and nothing is open."""
        if self._begun is None and not self._builder.transaction and lsn > self._place.lsn:
            self._place = replace(self._place, lsn=lsn)

    # --- messages that are not about rows -------------------------------------------------------------------------

    def _other(self, message: bytes) -> None:
        try:
            item, _ = parse(message)
        except ValueError as error:
            raise self._unknown(str(error)) from error
        match item:
            case Relation():
                self._relations.announce(item)
            case Begin():
                self._begun = item
            case Commit():
                self._commit(item)
            case Truncate():
                self._truncate(item)
            case TypeName() | Origin() | Written():
                pass
            case _:
                raise self._unexpected(item)

    def _commit(self, commit: Commit) -> None:
        begun, builder = self._begun, self._builder
        if begun is None or begun.lsn != commit.lsn:
            raise self._unknown("the end of a transaction that did not begin")
        waiting, is_fragmented = self._ordinal - self._fragmented, self._fragmented > 0
        is_ours = self._ordinal > 0 or self._has_barrier
        self._begun, self._ordinal, self._fragmented, self._has_barrier = None, 0, 0, False
        self._place, self._time = replace(self._place, lsn=commit.end), commit.time
        if not is_ours:
            return
        builder.commit(lsn_text(commit.end), str(begun.xid), commit.time, waiting)
        if is_fragmented:
            self.ready.append(self._build(Part.LAST))
        elif self._is_full():
            self.flush()

    def _truncate(self, item: Truncate) -> None:
        for oid in item.relations:
            table = self._relations.table(oid)
            if table is not None:
                self._builder.barrier(self._ordinal, BarrierKind.TRUNCATE, table)
                self._has_barrier = True

    def _park(self, table: TableId, reason: str) -> None:
        self._builder.barrier(self._ordinal, BarrierKind.PARK, table, reason)
        self._has_barrier = True

    # --- chunks ---------------------------------------------------------------------------------------------------

    def _buffer(self, schema: TableSchema) -> MessageBuffer:
        found = self._builder.table(schema)
        assert isinstance(found, MessageBuffer)
        return found

    def _is_full(self) -> bool:
        return self._builder.images >= FULL_IMAGES or self._builder.size >= FULL_BYTES

    def _full(self) -> None:
        """What is whole leaves first; if the open transaction alone is too large, a fragment of it."""
        self.flush()
        if self._is_full():
            self.ready.append(self._build(Part.FRAGMENT))
            self._fragmented = self._ordinal

    def _build(self, part: Part = Part.WHOLE) -> Chunk:
        try:
            return self._builder.build(self.mark().resume, part)
        except ValueError as error:
            raise self._unknown(f"rows that cannot be read: {error}") from error

    def _unknown(self, what: str) -> UnknownLogEvent:
        return UnknownLogEvent(what, position=lsn_text(self._place.lsn), hint=_NEWER)

    def _unexpected(self, item: Item) -> UnknownLogEvent:
        return self._unknown(f"a message that was not asked for: {type(item).__name__}")
