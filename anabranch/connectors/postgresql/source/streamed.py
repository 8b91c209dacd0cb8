"""Large transactions that pgoutput gives while they are open, in pieces: their rows as parts of open transactions (K6).

Pieces of several transactions, and whole ones, come one after another. Within a piece each message names its subtransaction,
relations are the transaction's own until it commits, and a savepoint that it goes back to takes back all that came since.
What does not live here: whole transactions (assemble.py, decode_pgoutput.py), what waits for the end (capture).
https://www.postgresql.org/docs/current/protocol-logical-replication.html
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from anabranch.connectors.postgresql.source.assemble import FULL_BYTES, FULL_IMAGES
from anabranch.connectors.postgresql.source.marker_rows import job_of
from anabranch.connectors.postgresql.source.message_buffer import MessageBuffer
from anabranch.connectors.postgresql.source.pgoutput import (
    ROWS,
    STREAMED_ROW_HEAD,
    Origin,
    Relation,
    StreamAbort,
    StreamStart,
    StreamStop,
    Truncate,
    TypeName,
    Written,
    parse,
)
from anabranch.connectors.postgresql.source.relations import ReaderOf, Relations, TypeText
from anabranch.connectors.postgresql.source.statement_notes import PREFIX
from anabranch.contracts import Select
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ids import TableId
from anabranch.model.markers import is_job, origin_of
from anabranch.model.position import LogMark
from anabranch.model.schema import Partition, TableSchema
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import BarrierKind, Part
from anabranch.rows.log_items import LogItem, SourceNote
from anabranch.rows.uncommitted import LogChanges, LogEnded, LogTakenBack

Undone = Callable[[Sequence[int]], bool]
"""Were some of these subtransactions, of a transaction that is committed, taken back, or can the server not say that?"""


class NeedsWhole(Exception):
    """The pieces of a transaction do not tell what it rolled back."""


class RedefinedWithin(NeedsWhole):
    """Rows of an open transaction come by other columns than those in force: what they are is told where it commits."""


class _Open:
    """`ordinal`: of what comes next; barriers have one of their own, so that a savepoint is before or behind them. `firsts`:
    where each subtransaction began, in their order; `parked`: tables whose rows cannot be read from there on; `parts`: tables
    with partitions that have rows from there on; `origin`: where it was made first, if not here."""

    def __init__(self, xid: int, relations: Relations) -> None:
        self.xid, self.relations = xid, relations
        self.ordinal = 0
        self.firsts: dict[bytes, int] = {}
        self.parked: dict[TableId, int] = {}
        self.parts: dict[tuple[TableId, Partition], int] = {}
        self.origin: str | None = None
        self.is_left_out = False


class StreamedTransactions:
    """Takes what is in pieces, and what becomes of their transactions. `give` is told what capture has to know, `mark` says
    where the log is; `make`: the buffer of a table. Raises ValueError for what cannot be."""

    def __init__(
        self,
        select: Select,
        type_text: TypeText,
        numbers: Iterator[int],
        give: Callable[[LogItem], None],
        mark: Callable[[], LogMark],
        reader: ReaderOf | None = None,
        undone: Undone = lambda subtransactions: False,
        make: Callable[[TableSchema], MessageBuffer] = MessageBuffer,
        leave_out: frozenset[str] = frozenset(),
        tells_columns: bool = False,
        by_notes: frozenset[ColumnChange] = frozenset(),
    ) -> None:
        self._by_notes = by_notes
        self._redefined = _redefined if tells_columns else None
        self._select, self._type_text, self._numbers, self._give, self._mark = select, type_text, numbers, give, mark
        self._reader, self._undone, self._leave_out = reader, undone, leave_out
        self._schemas: dict[TableId, TableSchema | None] = {}  # one object for all: rows of a table have one buffer
        self._builder = ChunkBuilder(make)
        self._has_barrier = False
        self._all: dict[int, _Open] = {}
        self._sub = b""  # the subtransaction whose messages come
        self.piece: _Open | None = None  # of which one comes at the moment

    def carry(self) -> None:
        """Go on at invalid values, as Assembler.carry."""
        self._builder.carries = True

    def begin(self, item: StreamStart) -> None:
        if item.is_first == (item.xid in self._all):
            raise ValueError(f"a piece of the transaction {item.xid} that is not the next one")
        if item.is_first:
            self._all[item.xid] = _Open(item.xid, self._relations(()))
        self.piece, self._sub = self._all[item.xid], b""

    def take(self, message: bytes) -> None:
        """Take a message inside a piece, its end among them."""
        piece = self.piece
        assert piece is not None, "a piece begins before its messages"
        if message[0] not in ROWS:
            self._other(piece, message)
            return
        if message[1:5] != self._sub:
            self._enter(piece, message[1:5])
        if piece.relations.waits:
            piece.relations.passed(message, STREAMED_ROW_HEAD)
        try:
            known = piece.relations.known[message[5:STREAMED_ROW_HEAD]]
        except KeyError:
            raise ValueError("rows of a relation that the log did not name") from None
        if known is None:
            if message[5:STREAMED_ROW_HEAD] in piece.relations.markers:
                self._marked(piece, job_of(message, STREAMED_ROW_HEAD))
            return
        if piece.is_left_out:
            return
        buffer, layout = known
        builder = self._builder
        images = buffer.add(layout, message, 0, piece.ordinal)
        piece.ordinal += images
        builder.images += images
        builder.size += len(message)
        if builder.images >= FULL_IMAGES or builder.size >= FULL_BYTES:
            self._leave(piece)

    def abort(self, item: StreamAbort) -> None:
        """Take back what a transaction, or a part of it, gave; nothing where it gave nothing."""
        one = self._all.get(item.xid)
        if one is None:
            return
        if item.subxid == item.xid:
            del self._all[item.xid]
            self._give(LogEnded(str(item.xid), False, self._mark()))
            return
        first = one.firsts.get(item.subxid.to_bytes(4))
        if first is not None:
            self._take_back(one, first)

    def commit(self, xid: int) -> tuple[Relations, str | None, list[tuple[TableId, Partition]]]:
        """Return the transaction's relations, which hold for all from here on, its origin, and partitions with rows of it.
        Raises NeedsWhole.

        PostgreSQL (seen: 18.4) does not tell that a subtransaction is rolled back if its rows lay in files of the
        server first, as many from before a start do.
        """
        one = self._all.pop(xid, None)
        if one is None:
            raise ValueError(f"the end of the transaction {xid}, which did not begin")
        subtransactions = [sub for name in one.firsts if (sub := int.from_bytes(name)) != xid]
        if subtransactions and not one.is_left_out and self._undone(subtransactions):
            raise NeedsWhole(f"the transaction {xid} took back what its pieces do not say")
        return one.relations, one.origin, list(one.parts)

    # --- within a piece -------------------------------------------------------------------------------------------

    def _other(self, piece: _Open, message: bytes) -> None:
        item, xid = parse(message, in_stream=True)
        if xid:
            self._enter(piece, xid.to_bytes(4))
        if not isinstance(item, Relation | TypeName):
            piece.relations.passed(message, STREAMED_ROW_HEAD)
        match item:
            case Relation():
                piece.relations.announce(item)
            case Truncate() if piece.is_left_out:
                pass
            case Truncate():
                found = (piece.relations.table(oid) for oid in item.relations)
                self._barrier(piece, BarrierKind.TRUNCATE, [table for table in found if table is not None])
            case StreamStop():
                self._leave(piece)
                self.piece = None
            case Origin():
                self._came_from(piece, item.name)
            case Written(prefix=prefix, transactional=True) if prefix == PREFIX:
                piece.relations.noted(item.content, is_first=False)
            case TypeName() | Written():
                pass
            case _:
                raise ValueError(f"a message that does not belong into a piece: {type(item).__name__}")

    def _came_from(self, piece: _Open, origin: str) -> None:
        piece.origin, piece.is_left_out = origin, piece.is_left_out or origin in self._leave_out

    def _marked(self, piece: _Open, job: str) -> None:
        """Note which job has written the transaction, if a row that says it is its first change (K21)."""
        if job and not (piece.ordinal or is_job(piece.origin)):
            self._came_from(piece, origin_of(job))

    def _enter(self, piece: _Open, sub: bytes) -> None:
        self._sub = sub
        piece.firsts.setdefault(sub, piece.ordinal)

    def _barrier(self, piece: _Open, kind: BarrierKind, tables: Sequence[TableId], reason: str = "") -> None:
        """Add a barrier. Tables that one statement emptied share one place."""
        for table in tables:
            self._builder.barrier(piece.ordinal, kind, table, reason)
            self._has_barrier = True
        piece.ordinal += 1

    def _park(self, table: TableId, reason: str) -> None:
        """Park a table where the transaction commits, unless this is rolled back: until then its lock keeps others away
        from the table.
        """
        assert self.piece is not None, "relations are announced in pieces"
        self.piece.parked[table] = self.piece.ordinal
        self._barrier(self.piece, BarrierKind.PARK, [table], reason)

    def _note_part(self, table: TableId, part: Partition) -> None:
        assert self.piece is not None, "relations are announced in pieces"
        self.piece.parts.setdefault((table, part), self.piece.ordinal)

    def _leave(self, piece: _Open) -> None:
        if not (self._builder.images or self._has_barrier):
            return
        self._has_barrier = False
        try:
            chunk = self._builder.build("", Part.FRAGMENT)
        except ValueError as error:
            raise ValueError(f"rows that cannot be read: {error}") from error
        self._give(LogChanges(str(piece.xid), chunk, self._mark(), self._mark()))

    def _take_back(self, one: _Open, first: int) -> None:
        """Take back the rows from ordinal `first` on, and the relations announced in them: the server names those again."""
        one.firsts = {sub: began for sub, began in one.firsts.items() if began < first}
        one.parked = {table: place for table, place in one.parked.items() if place < first}
        one.parts = {part: place for part, place in one.parts.items() if place < first}
        one.relations = self._relations(one.parked)
        if one.ordinal > first:
            self._give(LogTakenBack(str(one.xid), first, self._mark()))

    def _relations(self, parked: Collection[TableId]) -> Relations:
        return Relations(
            lambda table: None if table in parked else self._selected(table),
            self._type_text,
            lambda schema: self._buffer(schema),
            self._park,
            self._numbers,
            STREAMED_ROW_HEAD,
            self._reader,
            self._redefined,
            by_notes=self._by_notes,
            parted=self._note_part,
        )

    def _selected(self, table: TableId) -> TableSchema | None:
        if table not in self._schemas:
            self._schemas[table] = self._select(table)
        return self._schemas[table]

    def _buffer(self, schema: TableSchema) -> MessageBuffer:
        found = self._builder.table(schema)
        assert isinstance(found, MessageBuffer)
        return found


def _redefined(table: TableId, columns: tuple[tuple[str, str], ...], reason: str, note: SourceNote | None) -> None:
    raise RedefinedWithin(f"{table}: {reason}")
