"""How transactions and statements of a binary log end, and what then is ready: chunks, statements, prepared rows.

What does not live here: the loop over events (`assemble.py`), the identity of the open transaction (`transactions.py`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from anabranch.abc import LogAbandoned, LogDecided, LogItem, LogPrepared, LogStatement
from anabranch.connectors.mysql import binlog as b
from anabranch.connectors.mysql.ddl import shown
from anabranch.connectors.mysql.log_tables import LogTables
from anabranch.connectors.mysql.transactions import Group
from anabranch.errors import UnknownLogEvent
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import Part

T = TypeVar("T")
FULL_IMAGES, FULL_BYTES = 20_000, 4 << 20  # a chunk is full from here on


@dataclass(slots=True)
class Cursor:
    """Where the log is read: after the event read last. Events up to `skip_to` were read before."""

    file: str
    offset: int
    skip_to: int = 0
    checksums: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


class Endings:
    """Puts what is complete into `ready`, in log order."""

    def __init__(
        self, cursor: Cursor, group: Group, builder: ChunkBuilder, tables: LogTables, ready: deque[LogItem]
    ) -> None:
        self._cursor, self._group, self._builder, self._tables, self._ready = cursor, group, builder, tables, ready
        self._held: list[LogStatement] = []  # statements inside a transaction that has rows
        group.on_xa = tables.begin_listing

    def flush(self) -> None:
        """Whole transactions that wait become ready."""
        if self._builder.transaction:
            self._ready.append(self._builder.build(self._group.mark().resume))

    def full(self) -> None:
        """What is whole leaves first; if the open transaction alone is too large, a fragment of it."""
        self.flush()
        group = self._group
        if self._is_full():
            chunk = self._builder.build(group.mark().resume, Part.FRAGMENT)
            self._ready.append(LogPrepared(chunk, group.mark()) if group.is_xa else chunk)
            group.is_fragmented, group.fragmented = True, group.ordinal

    def prepare(self, body: bytes, seconds: int) -> None:
        """An XA transaction's rows are complete: it is prepared, or committed in one phase. Rows that left already left as
        rows of a prepared one."""
        group = self._group
        found = self._readable(lambda: b.parse_prepare(body), "an XA_PREPARE event")
        if found.is_commit and not group.is_fragmented:
            self.commit(seconds)
            return
        self.flush()
        before, left_out = group.mark(), self._tables.end_listing()
        self._builder.commit("", None, 0, group.ordinal - group.fragmented)
        gtid, _ = group.end(self._cursor.offset, seconds)
        mark = before if found.is_commit else group.mark()  # who stops in between reads all of it again
        self._ready.append(LogPrepared(self._builder.build(mark.resume, Part.LAST), mark, found.xid, left_out))
        if found.is_commit:
            self._ready.append(LogDecided(found.xid, True, group.mark(), gtid))

    def commit(self, seconds: int) -> None:
        group, builder = self._group, self._builder
        if group.is_xa:
            self._tables.end_listing()
        images, is_ours, is_fragmented = group.ordinal - group.fragmented, group.is_ours, group.is_fragmented
        gtid, time = group.end(self._cursor.offset, seconds)
        if is_ours:
            builder.commit(str(self._cursor), gtid, time, images)
            if is_fragmented:
                self._ready.append(builder.build(group.mark().resume, Part.LAST))
            elif self._is_full():
                self.flush()
        if self._held:
            self.flush()
            self._ready.extend(replace(statement, mark=group.mark()) for statement in self._held)
            self._held = []

    def query(self, body: bytes, seconds: int) -> None:
        """A statement's event, any but BEGIN."""
        query = self._readable(lambda: b.parse_query(body), "a statement")
        start = query.sql.lstrip()[:20].upper()
        if start.startswith("COMMIT"):
            self.commit(seconds)
        elif start.startswith("ROLLBACK"):
            self._rollback(query.sql, seconds)
        elif start.startswith("XA "):
            self._xa(query.sql, seconds)
        elif not start.startswith(("SAVEPOINT", "RELEASE SAVEPOINT")):
            self._statement(query, seconds)

    def abandon(self) -> None:
        """What is open never ended. Tables that were parked in it are asked for again."""
        was_fragmented = self._group.is_fragmented
        self._tables.end_listing()
        self._builder.abandon()
        self._group.abandon()
        self._group.move(self._cursor.file, self._cursor.offset)
        self._held = []
        self._tables.reselect()
        if was_fragmented:
            self._ready.append(LogAbandoned(self._group.mark()))

    def _is_full(self) -> bool:
        return self._builder.images >= FULL_IMAGES or self._builder.size >= FULL_BYTES

    def _xa(self, sql: str, seconds: int) -> None:
        """What the log has of XA besides rows: XA START (MySQL) and XA END around them, later XA COMMIT or XA ROLLBACK."""
        verb = sql.split()[1].upper()
        if verb in ("START", "BEGIN"):
            self._group.begin_xa()
        elif verb in ("COMMIT", "ROLLBACK"):
            xid = self._readable(lambda: b.xid_of(sql), "an XA statement")
            self.flush()
            gtid, _ = self._group.end(self._cursor.offset, seconds)
            self._ready.append(LogDecided(xid, verb == "COMMIT", self._group.mark(), gtid))
        elif verb != "END":
            message = f"the log has an XA statement of an unknown kind: {shown(sql)}"
            raise UnknownLogEvent(message, position=str(self._cursor), hint=b.START_AGAIN)

    def _readable(self, parse: Callable[[], T], what: str) -> T:
        try:
            return parse()
        except (ValueError, LookupError, struct.error) as error:
            message = f"{what} in the log cannot be read: {error}"
            raise UnknownLogEvent(message, position=str(self._cursor), hint=b.START_AGAIN) from error

    def _rollback(self, sql: str, seconds: int) -> None:
        """A server logs what it rolls back only when a table without transactions was changed in between."""
        if self._group.is_ours:
            raise UnknownLogEvent(
                f"the log takes back rows that it has logged: {shown(sql)}",
                position=str(self._cursor),
                hint="a table that is not transactional was changed in a transaction: use InnoDB, then load again",
            )
        if " TO " not in sql.upper():
            self._group.end(self._cursor.offset, seconds)

    def _statement(self, query: b.Query, seconds: int) -> None:
        """Alone: it ends its group. Inside a transaction: `mark` stays before the transaction, so that a restart reads
        all of it; when rows came before it (temporary tables only), it is told after them."""
        group = self._group
        if group.in_transaction:
            statement = LogStatement(query.sql, query.schema, replace(group.mark(), commit_time=seconds * 1_000_000))
            if group.is_ours:
                self._held.append(statement)
                return
            self.flush()
        else:
            self.flush()  # its resume is the place before the statement
            gtid, _ = group.end(self._cursor.offset, seconds)
            statement = LogStatement(query.sql, query.schema, group.mark(), gtid)
        self._ready.append(statement)
