"""LogReader of the twin. A native position is the number of commits; a mark adds the database's identity."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from itertools import islice

from anabranch.connectors.memory.database import Commit, Database, Image, Row
from anabranch.contracts import Select
from anabranch.errors import LogLost
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.builder import ChunkBuilder, TableBuffer
from anabranch.rows.chunk import Chunk, Op, Part
from anabranch.rows.log_items import LogIdle, LogItem, LogStatement
from anabranch.rows.raw import parse_text

FULL_IMAGES = 20_000  # a chunk is full from here on
POLL = 0.005


def mark(identity: str, number: int, commit_time: int = 0) -> LogMark:
    return LogMark(str(number), json.dumps({"identity": identity, "number": number}), commit_time)


def number_of(mark: LogMark) -> int:
    return int(json.loads(mark.resume)["number"])


class MemoryOrder:
    def mark(self, resume: str) -> LogMark:
        return LogMark(str(json.loads(resume)["number"]), resume)

    def place(self, text: str, now: LogMark) -> LogMark:
        if not text.isdecimal() or int(text) > number_of(now):
            raise ValueError(f"{text!r} is no number of commits up to {now.native}")
        return mark(self.server(now), int(text))

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        return int(native) <= number_of(mark)

    def server(self, mark: LogMark) -> str:
        return str(json.loads(mark.resume)["identity"])

    def is_set(self, mark: LogMark) -> bool:
        return False

    def lacks(self, mark: LogMark, begun: LogMark) -> str:
        return ""

    def bytes_between(self, native: str, later: LogMark, sizes: Mapping[str, int] | None = None) -> int | None:
        return number_of(later) - int(native)


class MemoryLog:
    """Follows the log of one database.

    Delivery: everything committed after the start mark, once per start, in log order."""

    decoder = "memory"

    def __init__(self, database: Database, leave_out: frozenset[str] = frozenset()) -> None:
        self._database, self._leave_out = database, leave_out
        self._schemas: dict[TableId, TableSchema | None] = {}
        self._read = 0  # commits
        self._images: list[Image] = []  # of a large transaction: what is left of it
        self._ordinal = 0

    def identity(self) -> str:
        return self._database.identity

    def end(self) -> LogMark:
        with self._database.lock:
            last = self._database.log[-1].time if self._database.log else 0
            return mark(self._database.identity, len(self._database.log), last)

    def start(self, after: LogMark, select: Select) -> None:
        facts = json.loads(after.resume)
        reaches = self._database.purged <= facts["number"] <= len(self._database.log)
        if facts["identity"] != self._database.identity or not reaches:
            raise LogLost("the log is another one, or does not reach to the mark", position=after.native)
        self._read, self._images, self._ordinal = facts["number"], [], 0
        self._select = select
        self.reselect()

    def reselect(self) -> None:
        self._schemas.clear()

    def read(self, timeout: float) -> LogItem | None:
        until = time.monotonic() + timeout
        while self._read >= len(self._database.log):
            if time.monotonic() >= until:
                return None
            time.sleep(POLL)
        first = self._database.log[self._read]
        if first.statement:
            self._read += 1
            return LogStatement(first.statement, first.schema, self._mark())
        return self._chunk()

    def confirm(self, durable: LogMark) -> None:
        pass

    def close(self) -> None:
        pass

    # --- chunks -----------------------------------------------------------------------------------------------------

    def _chunk(self) -> Chunk | LogIdle:
        """Read whole transactions up to a statement or until the chunk is full; of one that is too large the next fragment."""
        builder = ChunkBuilder()
        for commit in self._database.log[self._read :]:
            images = self._images or self._selected(commit)
            if commit.statement or (builder.transaction and builder.images + len(images) > FULL_IMAGES):
                break
            self._add(builder, images[:FULL_IMAGES])
            if len(images) > FULL_IMAGES:
                self._images = images[FULL_IMAGES:]
                return builder.build(self._mark().resume, Part.FRAGMENT)
            self._read = commit.number
            if images:
                builder.commit(str(commit.number), None, commit.time, len(images), commit.origin)
            if self._images:
                self._images, self._ordinal = [], 0
                return builder.build(self._mark().resume, Part.LAST)
            self._ordinal = 0
        return builder.build(self._mark().resume) if builder.transaction else LogIdle(self._mark())

    def _selected(self, commit: Commit) -> list[Image]:
        if commit.origin in self._leave_out:
            return []
        return [image for image in commit.images if self._schema(image.table)]

    def _schema(self, table: TableId) -> TableSchema | None:
        if table not in self._schemas:
            self._schemas[table] = self._select(table)
        return self._schemas[table]

    def _add(self, builder: ChunkBuilder, images: list[Image]) -> None:
        for image in images:
            schema = self._schema(image.table)
            assert schema is not None
            buffer = builder.table(schema)
            rows = [row for row in (image.before, image.after) if row is not None]
            for row in rows:
                _append(buffer, row)
            op = Op.INSERT if image.before is None else Op.DELETE if image.after is None else Op.BEFORE
            shape = buffer.shape((True,) * len(schema.columns))
            buffer.runs.append((op, builder.transaction, self._ordinal, shape, shape, len(rows)))
            self._ordinal += len(rows)
            builder.images += len(rows)

    def _mark(self) -> LogMark:
        times = [commit.time for commit in islice(self._database.log, max(0, self._read - 1), self._read)]
        return mark(self._database.identity, self._read, times[0] if times else 0)


def _append(buffer: TableBuffer, row: Row) -> None:
    for column, values, text in zip(buffer.schema.columns, buffer.columns, row, strict=True):
        values.append(None if text is None or column.type is None else parse_text(column.type, text))
