"""The compiled half of the loop over events: it goes on while everything is plain, and says how far it came."""

from __future__ import annotations

from anabranch.connectors.mysql.source import endings
from anabranch.connectors.mysql.source.endings import Cursor, Endings
from anabranch.connectors.mysql.source.log_tables import LogTables
from anabranch.connectors.mysql.source.native import CompiledParts
from anabranch.connectors.mysql.source.rows_decode import TableDecoders
from anabranch.connectors.mysql.source.transactions import NO_MARKER, LogGroup
from anabranch.rows.builder import ChunkBuilder

_FULL, _FLUSH = 1, 2  # what is to be done next


class NativeLoop:
    """Takes what is known and plain: table maps that Python has read, rows of columns seen before, begins and commits. At
    anything else it stops, and Python looks."""

    def __init__(
        self,
        native: CompiledParts,
        cursor: Cursor,
        group: LogGroup,
        builder: ChunkBuilder,
        tables: LogTables,
        endings: Endings,
    ) -> None:
        self._log, self._cursor, self._group, self._builder = native.log, cursor, group, builder
        self._tables, self._endings = tables, endings
        tables.on_change = self._log.forget

    def know(self, raw: bytes, number: int, decoders: TableDecoders | None) -> None:
        """Register a table map that Python has read."""
        self._log.know(raw, number, decoders, getattr(decoders, "layout", None))

    def follow(self, data: bytes, at: int) -> tuple[int, bool]:
        """Follow events from `at` on. Returns where it stopped, and whether Python has to look at what stands there."""
        cursor, group, builder = self._cursor, self._group, self._builder
        is_ahead = bool(cursor.skip_to) and cursor.offset <= cursor.skip_to
        if group.is_left_out or group.marker != NO_MARKER or is_ahead:
            return at, True
        is_plain, *state = group.state()
        following, position, opened, passed = self._log.follow(
            data,
            at,
            cursor.file,
            cursor.offset,
            cursor.checksums,
            (is_plain and not self._endings.holds_statements, *state),
            (builder.transaction, builder.images, builder.size),
            (endings.FULL_IMAGES, endings.FULL_BYTES),
        )
        at, cursor.offset, ordinal, builder.transaction, builder.images, builder.size = position
        last, is_anonymous, mariadb, mysql, moved = passed
        group.went_on(opened, ordinal)
        group.ended(last, is_anonymous, mariadb, mysql)
        self._tables.by_number.update(moved)
        if following == _FULL:
            self._endings.full()
        elif following == _FLUSH:
            self._endings.flush()
        return at, not following
