"""The tables of a log: table maps name them by numbers, the definitions in force say how their rows are read.

What does not live here: the order of events and transactions (`assemble.py`), the bytes of a table map (`tablemap.py`),
the decoding of rows (`rows_decode.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from anabranch.connectors.mysql.charsets import BadValue
from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source.carried import carry_on
from anabranch.connectors.mysql.source.fields import Unfit
from anabranch.connectors.mysql.source.hashed import HashedDecoders, may_be_hashed
from anabranch.connectors.mysql.source.json_partial import NoBefore
from anabranch.connectors.mysql.source.rows_decode import ROW_EVENTS, Decoder, TableDecoders
from anabranch.connectors.mysql.source.tablemap import TableMap, parse_table_map, table_of
from anabranch.connectors.mysql.source.transactions import LogGroup
from anabranch.connectors.mysql.source.versioned import VersionedDecoders
from anabranch.contracts import Select, ValueRules
from anabranch.errors import SchemaError, SourceError, UnknownLogEvent
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS
from anabranch.model.schema import TableSchema
from anabranch.rows.builder import ChunkBuilder, TableBuffer
from anabranch.rows.chunk import BarrierKind, Op
from anabranch.rows.refused import refused

Read = TypeVar("Read")
MAPS = 10_000  # table maps that are remembered
NO_TABLE = (0xFFFFFF, 0xFFFFFFFFFFFF)
STATEMENTS = {Op.INSERT: "an INSERT", Op.BEFORE: "an UPDATE", Op.DELETE: "a DELETE"}


class LogTables:
    """Decoders by a table map's bytes and by its number; None where the table's rows are left out."""

    def __init__(
        self,
        select: Select,
        rules: ValueRules,
        family: str,
        builder: ChunkBuilder,
        group: LogGroup,
        here: Callable[[], str],
        decoders: Callable[..., TableDecoders] = TableDecoders,
    ) -> None:
        self.maps: dict[bytes, tuple[int, TableDecoders | None]] = {}
        self.by_number: dict[int, TableDecoders | None] = {}
        self._select, self._rules, self._family = select, rules, family
        self._builder, self._group, self._here, self._make = builder, group, here, decoders
        self._schemas: dict[TableId, TableSchema | None] = {}
        self._kept: dict[bytes, tuple[int, TableDecoders | None]] = {}  # while a transaction's tables are listed
        self._left_out: set[TableId] | None = None
        self.on_change: Callable[[], None] = lambda: None  # what was remembered of these tables elsewhere is old

    def begin_listing(self) -> None:
        """Begin to remember whose rows are left out: every table map is asked for anew."""
        self.end_listing()
        self._kept, self._left_out = dict(self.maps), set()
        self.maps.clear()
        self.on_change()

    def end_listing(self) -> tuple[TableId, ...]:
        """Return the tables whose rows were left out since `begin_listing`."""
        found, self._left_out = sorted(self._left_out or ()), None
        for raw, known in self._kept.items():
            self.maps.setdefault(raw, known)
        self._kept = {}
        return tuple(found)

    def ask_again(self) -> None:
        """Ask for the definitions in force, and forget the tables that have another one by now, or none: their next table map
        asks again. Others keep their decoders, which cost more than to ask."""
        if self._left_out is not None:
            self.reselect()
            return
        changed = {table for table, known in self._schemas.items() if self._select(table) is not known}
        for table in changed:
            del self._schemas[table]
        for raw, (_, decoders) in list(self.maps.items()):
            if (decoders.buffer.schema.id if decoders is not None else self._read(table_of, raw)) in changed:
                del self.maps[raw]
        self._kept.clear()
        self.on_change()

    def reselect(self) -> None:
        """Forget definitions and selection; the next table map asks again."""
        self._schemas.clear()
        self.maps.clear()
        self._kept.clear()
        self.on_change()

    def leaves_out(self, number: int) -> bool:
        if self._group.is_left_out:
            return True
        return number != self._group.marker and number in self.by_number and self.by_number[number] is None

    def table_map(self, raw: bytes) -> tuple[int, TableDecoders | None]:
        """Read a table map that was not seen before: its number, and decoders unless the table's rows are left out."""
        number, table = int.from_bytes(raw[:6], "little"), self._read(table_of, raw)
        if table in MARKERS:
            return self._marker(number)
        if table not in self._schemas:
            self._schemas[table] = self._select(table)
        schema = self._schemas[table]
        decoders = None
        if raw in self._kept and schema is not None:
            self.maps[raw] = known = self._kept[raw]
            self.by_number[number] = known[1]
            return known
        if schema is None and self._left_out is not None:
            self._left_out.add(table)
        if schema is not None:
            try:
                seen = self._read(parse_table_map, raw, str(table))
                decoders = self._decoders(seen, self._builder.table(schema))
            except Unfit as unfit:
                self._park(table, str(unfit))
        if len(self.maps) >= MAPS:
            self.maps.clear()
        self.maps[raw] = number, decoders
        self.by_number[number] = decoders
        return number, decoders

    def _marker(self, number: int) -> tuple[int, None]:
        """Let the group look at the next rows of a table that says whose a transaction is. It is asked for each time."""
        if self._group.may_be_marked():
            self._group.marker = number
        self.by_number[number] = None
        return number, None

    def _decoders(self, seen: TableMap, buffer: TableBuffer) -> TableDecoders:
        if buffer.schema.row_end:
            return VersionedDecoders(seen, buffer, self._rules, self._family, self._builder, self._group)
        make = HashedDecoders if may_be_hashed(buffer.schema) else self._make
        return make(seen, buffer, self._rules, self._family)

    def _read(self, parse: Callable[[bytes], Read], raw: bytes, table: str | None = None) -> Read:
        """Parse a table map, or a part of it. One that cannot be read may be newer than this version."""
        try:
            return parse(raw)
        except (ValueError, LookupError, struct.error) as error:
            raise UnknownLogEvent(
                f"what the log says about a table's columns cannot be read: {error}",
                table=table,
                position=self._here(),
                hint="this version does not know it: a newer one may",
            ) from error

    def unannounced(self, number: int) -> TableDecoders | None:
        """Handle rows without a table map: some servers end a statement with an event of no table."""
        if number in NO_TABLE:
            return None
        raise UnknownLogEvent("rows of a table that the log does not name", position=self._here(), hint=b.START_AGAIN)

    def decoder(self, found: TableDecoders, kind: int, head: bytes, keys_off: bool) -> Decoder | None:
        """Return the decoder for a set of columns not seen before; None when the table has to be parked for it."""
        try:
            return found.decoder(kind, head, keys_off)
        except Unfit as unfit:
            self._park(found.buffer.schema.id, str(unfit))
            return None

    def _park(self, table: TableId, reason: str) -> None:
        """Leave the table's rows out from here on, until its definition is asked for again."""
        self._builder.barrier(self._group.ordinal, BarrierKind.PARK, table, reason)
        self._group.has_barrier = True
        self._schemas[table] = None
        self.on_change()
        if self._left_out is not None:
            self._left_out.add(table)
            self._kept.clear()
        for raw, (number, decoders) in list(self.maps.items()):
            if decoders is not None and decoders.buffer.schema.id == table:
                self.maps[raw] = number, None
        for number, decoders in self.by_number.items():
            if decoders is not None and decoders.buffer.schema.id == table:
                self.by_number[number] = None

    def carried(
        self,
        found: TableDecoders,
        kind: int,
        error: Exception,
        decoder: Decoder,
        data: bytes,
        head: int,
        at: int,
        end: int,
    ) -> int:
        """Return the rows of an event that have bad values, without these values, where the job wants that
        (ValueRules.carries). Returns how many images were added. Raises SourceError.
        """
        if not (self._rules.carries and isinstance(error, BadValue)) or isinstance(found, VersionedDecoders):
            raise self._undecodable(found, kind, error, data[head:at], data, at, end) from error
        ordinal = self._group.ordinal
        try:
            lists = found.with_bad_values(kind, data[head:at], data, at, end)
        except (ValueError, LookupError, struct.error) as other:  # of another row: bytes and definition do not match
            raise self._undecodable(found, kind, other, data[head:at], data, at, end) from other
        for op, shape, second_shape, images in carry_on(found, decoder, lists):
            found.buffer.runs.append((op, self._builder.transaction, ordinal, shape, second_shape, images))
            ordinal += images
        return ordinal - self._group.ordinal

    def _undecodable(
        self, found: TableDecoders, kind: int, error: Exception, head: bytes, data: bytes, at: int, end: int
    ) -> SourceError:
        """Return the error for a bad value, with its row; any other failure means that bytes and definition do not match."""
        table = str(found.buffer.schema.id)
        if isinstance(error, NoBefore):
            return UnknownLogEvent(str(error), table=table, position=self._here(), hint=b.WHOLE_DOCUMENTS)
        if not isinstance(error, BadValue):
            return SchemaError(
                f"the rows of {STATEMENTS[ROW_EVENTS[kind]]} in the log do not fit the definition: {error}",
                table=table,
                position=self._here(),
                hint=f"{b.LOAD_AGAIN}; if it comes back, exclude the table",
            )
        column, key = found.refused_value(kind, head, data, at, end)
        return refused(found.buffer.schema.id, column, key, str(error), error.hint, self._here())
