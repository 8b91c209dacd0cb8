"""Messages of pgoutput for the assembler: rows as they came, by relation.

What does not live here: transactions and chunks (assemble.py), what is in a message (pgoutput.py), relations and definitions
(relations.py), transactions that come while they are open (streamed.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TypeVar

from anabranch.connectors.postgresql.source import assemble
from anabranch.connectors.postgresql.source.assemble import Assembler
from anabranch.connectors.postgresql.source.heartbeat import written_at
from anabranch.connectors.postgresql.source.marker_rows import job_of
from anabranch.connectors.postgresql.source.message_buffer import MessageBuffer
from anabranch.connectors.postgresql.source.native_loop import FLUSH, FULL, NativeLoop
from anabranch.connectors.postgresql.source.native_rows import NativeMessageBuffer
from anabranch.connectors.postgresql.source.pgoutput import (
    ROW_HEAD,
    ROWS,
    Begin,
    Commit,
    Item,
    Origin,
    Relation,
    StreamAbort,
    StreamCommit,
    StreamStart,
    Truncate,
    TypeName,
    Written,
    parse,
)
from anabranch.connectors.postgresql.source.positions import Place, lsn_text
from anabranch.connectors.postgresql.source.relations import Former, ReaderOf, Relations, TypeText
from anabranch.connectors.postgresql.source.statement_notes import PREFIX
from anabranch.connectors.postgresql.source.streamed import StreamedTransactions, Undone
from anabranch.contracts import Select
from anabranch.errors import UnknownLogEvent
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ids import TableId
from anabranch.model.schema import Partition
from anabranch.rows.compiled import compiled
from anabranch.rows.log_items import LogAbandoned, LogRedefined, SourceNote

_What = TypeVar("_What")
_Made = TypeVar("_Made")


class PgoutputAssembler(Assembler):
    """Assembler of pgoutput's messages."""

    def __init__(
        self,
        place: Place,
        select: Select,
        type_text: TypeText,
        name: str,
        reader: ReaderOf | None = None,
        undone: Undone = lambda subtransactions: False,
        decoding: str = "python",
        leave_out: frozenset[str] = frozenset(),
        tells_columns: bool = False,
        former: Former | None = None,
        by_notes: frozenset[ColumnChange] = frozenset(),
    ) -> None:
        """Set up the assembly. Raises ConfigError where the compiled decoder is missing.

        `reader`: set where the server was asked for values in binary form; `undone`: where it was asked for large
        transactions while they are open; `decoding`: auto, python, native; `leave_out`: origins whose rows are left
        out; `tells_columns`: as LogOptions has it; `former`: as RedefinedReader.expect_former has them;
        `by_notes`: as Relations has it.
        """
        is_compiled = compiled(decoding) and reader is None
        self._native = NativeLoop(leave_out) if is_compiled else None
        super().__init__(place, self._native.builder if self._native is not None else None, leave_out)
        self._name = name  # of our own messages
        numbers = count()
        redefined = self._redefined if tells_columns else None
        told = select, type_text, self._buffer, self._park, numbers
        kept = former, by_notes, self._parted
        self._relations = Relations(*told, ROW_HEAD, reader, redefined, *kept)
        if self._native is not None:
            self._relations.tell = self._native.know
        make = NativeMessageBuffer if is_compiled else MessageBuffer
        tells = self._give, self.mark, reader, undone, make, leave_out, tells_columns, by_notes
        self._pieces = StreamedTransactions(select, type_text, numbers, *tells)
        self._begun = 0  # where the open transaction's commit is

    def carry(self) -> None:
        super().carry()
        self._pieces.carry()

    def reselect(self) -> None:
        self._relations.reselect()

    @property
    def is_between(self) -> bool:
        return self._xid is None and self._pieces.piece is None

    def follow(self, frames: list[bytes], at: int) -> int:
        if self._native is None or self._pieces.piece is not None or self._is_left_out:
            return at
        if self._relations.has_former or self._relations.waits:
            return at
        is_plain = not self._fragmented and not self._has_barrier
        opened = self._xid, self._begun, self._ordinal, self._origin
        found = self._native.follow(frames, at, opened, is_plain, (assemble.full_images(), assemble.FULL_BYTES))
        self._xid, self._begun, self._ordinal, self._origin = found.xid, found.begun, found.ordinal, found.origin
        if found.end is not None:
            end, self._time = found.end
            self._place = self._place.at(end)
        if found.next == FULL:
            self._full()
        elif found.next == FLUSH:
            self.flush()
        return found.at

    def take(self, message: bytes, lsn: int = 0) -> None:
        if self._pieces.piece is not None:
            self._streamed(self._pieces.take, message)
            return
        if message[0] not in ROWS:
            self._other(message)
            return
        if self._relations.waits:
            self._relations.passed(message)
        try:
            known = self._relations.known[message[1:5]]
        except KeyError:
            raise self._unknown("rows of a relation that the log did not name") from None
        if known is None:
            if message[1:5] in self._relations.markers:
                self._marked(job_of(message, ROW_HEAD))
            return
        if self._is_left_out:
            return
        buffer, layout = known
        images = buffer.add(layout, message, self._builder.transaction, self._ordinal)
        self._ordinal += images
        self._builder.images += images
        self._builder.size += len(message)
        if self._is_full():
            self._full()

    def _other(self, message: bytes) -> None:
        try:
            item, _ = parse(message)
        except ValueError as error:
            raise self._unknown(str(error)) from error
        if not isinstance(item, Relation | TypeName):
            self._relations.passed(message)
        match item:
            case Relation():
                self._relations.announce(item)
            case Begin():
                self._begin(item.xid)
                self._begun = item.lsn
            case Commit():
                if item.lsn != self._begun:
                    raise self._unknown("the end of a transaction that did not begin")
                self._commit(item.end, item.time)
                self._relations.ended()
            case Truncate():
                if not self._is_left_out:
                    self._truncated(item)
            case StreamStart() | StreamAbort() | StreamCommit() if self._xid is not None:
                raise self._unknown("a piece of another transaction within one")
            case StreamStart():
                self._streamed(self._pieces.begin, item)
            case StreamAbort():
                self._streamed(self._pieces.abort, item)
            case StreamCommit():
                relations, origin, parts = self._streamed(self._pieces.commit, item.xid)
                self.parts += ((table, replace(part, told_by=item.xid)) for table, part in parts)
                self._relations.adopt(relations)
                self._streamed_commit(item.xid, item.end, item.time, origin)
            case Written():
                self._written(item)
            case Origin():
                self._came_from(item.name)
            case TypeName():
                pass
            case _:
                raise self._unexpected(item)

    def _streamed(self, take: Callable[[_What], _Made], what: _What) -> _Made:
        try:
            return take(what)
        except ValueError as error:
            raise self._unknown(str(error)) from error

    def _redefined(
        self, table: TableId, columns: tuple[tuple[str, str], ...], reason: str, note: SourceNote | None
    ) -> None:
        """Stop before the open transaction, whatever it has given: it comes again, by the definition that holds then."""
        self.flush()
        if self._fragmented:
            self.ready.append(LogAbandoned(self.mark(), f"it comes again, behind a new definition of {table}"))
        at, xid = lsn_text(self._begun), str(self._xid)
        self.ready.append(LogRedefined(table, columns, reason, self.mark(), at, xid, note))

    def _parted(self, table: TableId, part: Partition) -> None:
        self.parts.append((table, replace(part, told_by=self._xid or 0)))

    def _truncated(self, item: Truncate) -> None:
        for oid in item.relations:
            table = self._relations.table(oid)
            if table is not None:
                self._truncate(table)

    def _written(self, item: Written) -> None:
        """Read a heartbeat of ours, or a note of a statement; messages that other sessions wrote are ignored."""
        if item.prefix == PREFIX and item.transactional:
            is_first = not (self._ordinal or self._has_barrier or self._is_left_out)
            self._relations.noted(item.content, is_first)
        if item.prefix == self._name and not item.transactional:
            try:
                self._beat(item.lsn, written_at(item.content))
            except ValueError as error:
                raise self._unknown(f"a heartbeat that cannot be read: {error}") from error

    def _unexpected(self, item: Item) -> UnknownLogEvent:
        return self._unknown(f"a message that was not asked for: {type(item).__name__}")
