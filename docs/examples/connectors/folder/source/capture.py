"""LogReader of the folder."""

from __future__ import annotations

import json
import time
from typing import Any

from anabranch.connectors.folder.files import Folder, Row
from anabranch.connectors.folder.source.options import FolderOptions
from anabranch.connectors.folder.source.positions import mark

from anabranch.contracts import Select
from anabranch.errors import LogLost
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import Chunk, Op, Part
from anabranch.rows.log_items import LogIdle, LogItem, LogStatement
from anabranch.rows.raw import parse_text

FULL = 20_000  # images of one chunk


class FolderLog:
    """Delivery: everything committed after the start mark, once per start, in the order of the files."""

    decoder = "folder"

    def __init__(self, folder: Folder, options: FolderOptions) -> None:
        self._folder, self._pause = folder, options.poll_ms / 1000

    def identity(self) -> str:
        return self._folder.identity()

    def end(self) -> LogMark:
        return mark(self.identity(), self._folder.end())

    def start(self, after: LogMark, select: Select) -> None:
        identity, number = self.identity(), int(after.native)
        if json.loads(after.resume)["identity"] != identity or not self._folder.begin() <= number <= self._folder.end():
            raise LogLost("the log is another one, or does not reach to the mark", position=after.native)
        self._identity, self._select, self._read = identity, select, number
        self._rest: list[Any] | None = None  # changes of a large transaction that were not given yet
        self._ordinal = 0
        self.reselect()

    def reselect(self) -> None:
        self._schemas = dict[TableId, TableSchema | None]()

    def read(self, timeout: float) -> LogItem | None:
        until = time.monotonic() + timeout
        while self._read >= self._folder.end():
            if time.monotonic() >= until:
                return None
            time.sleep(min(self._pause, timeout))
        done = self._folder.transaction(self._read + 1)
        if table := done.get("truncate"):
            self._read += 1
            return LogStatement(f"TRUNCATE {table}", "", self._mark(done))
        return self._chunk(done)

    def confirm(self, durable: LogMark) -> None:
        """Nothing is kept for a reader."""

    def close(self) -> None:
        """Nothing is open."""

    def _chunk(self, done: dict[str, Any]) -> Chunk | LogIdle:
        """One transaction; of a large one the next fragment."""
        builder, is_first = ChunkBuilder(), self._rest is None
        rest = [one for one in done["changes"] if self._schema(one)] if self._rest is None else self._rest
        for change in rest[:FULL]:
            self._add(builder, change)
        if len(rest) > FULL:
            self._rest = rest[FULL:]
            return builder.build(mark(self._identity, self._read).resume, Part.FRAGMENT)
        self._read, self._rest = self._read + 1, None
        images, self._ordinal = self._ordinal, 0
        here = self._mark(done)
        if not images:
            return LogIdle(here)
        builder.commit(here.native, None, done["at"], images if is_first else builder.images, None)
        return builder.build(here.resume) if is_first else builder.build(here.resume, Part.LAST)

    def _schema(self, change: dict[str, Any]) -> TableSchema | None:
        table = TableId.parse(change["table"])
        if table not in self._schemas:
            self._schemas[table] = self._select(table)
        return self._schemas[table]

    def _add(self, builder: ChunkBuilder, change: dict[str, Any]) -> None:
        schema = self._schema(change)
        assert schema is not None
        buffer, rows = builder.table(schema), [row for row in (change["before"], change["after"]) if row is not None]
        for row in rows:
            for column, values in zip(schema.columns, buffer.columns, strict=True):
                values.append(_raw(column.type, row, column.name))
        op = Op.INSERT if change["before"] is None else Op.DELETE if change["after"] is None else Op.BEFORE
        shape = buffer.shape((True,) * len(schema.columns))
        buffer.runs.append((op, builder.transaction, self._ordinal, shape, shape, len(rows)))
        self._ordinal += len(rows)
        builder.images += len(rows)

    def _mark(self, done: dict[str, Any]) -> LogMark:
        return mark(self._identity, self._read, done["at"])


def _raw(type: Any, row: Row, column: str) -> Any:
    text = row[column]
    return None if text is None else parse_text(type, text)
