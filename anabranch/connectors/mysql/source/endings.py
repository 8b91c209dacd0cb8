"""Ends of transactions and statements in a binary log, and what is ready then: chunks, statements, prepared rows.

What does not live here: the loop over events (`assemble.py`), the identity of the open transaction (`transactions.py`).
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source.log_tables import LogTables
from anabranch.connectors.mysql.source.snapshot import has_transactions
from anabranch.connectors.mysql.source.statements import MysqlDialect, shown
from anabranch.connectors.mysql.source.transactions import LogGroup
from anabranch.errors import UnknownLogEvent
from anabranch.model.markers import commented, origin_of
from anabranch.model.schema import TableSchema
from anabranch.rows.builder import ChunkBuilder
from anabranch.rows.chunk import Part
from anabranch.rows.log_items import LogAbandoned, LogDecided, LogItem, LogPrepared, LogStatement

T = TypeVar("T")
_TO_SAVEPOINT = re.compile(r"\s*ROLLBACK\s+(?:WORK\s+)?TO\s", re.IGNORECASE)
_NAME = re.compile(r"(?:`((?:[^`]|``)*)`|(\S+))\s*$")
FULL_IMAGES, FULL_BYTES = 20_000, 4 << 20  # a chunk is full from here on


@dataclass(slots=True)
class Cursor:
    """Place where the log is read: after the event read last, which was made by `server`. Events up to `skip_to` were read
    before. `own`: the id of the server that the log is read from, 0 where it is not known."""

    file: str
    offset: int
    skip_to: int = 0
    checksums: bool = False
    own: int = 0
    server: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    @property
    def origin(self) -> str | None:
        """The server that made the event, where that is another one: replicas write it down as it came."""
        return str(self.server) if self.server != self.own else None


class Endings:
    """Puts what is complete into `ready`, in log order."""

    def __init__(
        self, cursor: Cursor, group: LogGroup, builder: ChunkBuilder, tables: LogTables, ready: deque[LogItem]
    ) -> None:
        self._cursor, self._group, self._builder, self._tables, self._ready = cursor, group, builder, tables, ready
        self._held: list[LogStatement] = []  # statements inside a transaction that has rows
        group.on_xa = tables.begin_listing

    @property
    def holds_statements(self) -> bool:
        """True if there are statements of the open transaction, which are told before its rows."""
        return bool(self._held)

    def flush(self) -> None:
        """Make whole transactions that wait ready."""
        if self._builder.transaction:
            self._ready.append(self._builder.build(self._group.mark().resume))

    def full(self) -> None:
        """Make room: whole transactions leave first; if the open one alone is too large, a fragment of it."""
        self.flush()
        group = self._group
        if self._is_full():
            chunk = self._builder.build(group.mark().resume, Part.FRAGMENT)
            self._ready.append(LogPrepared(chunk, group.mark()) if group.is_xa else chunk)
            group.is_fragmented, group.fragmented, group.taken_back = True, group.ordinal, 0

    def prepare(self, body: bytes, seconds: int) -> None:
        """Complete an XA transaction's rows: it is prepared, or committed in one phase.

        Rows that left before did so as rows of a prepared transaction.
        """
        group = self._group
        found = self._readable(lambda: b.parse_prepare(body), "an XA_PREPARE event")
        if found.is_commit and not group.is_fragmented:
            self.commit(seconds)
            return
        self._tell_held()
        self.flush()
        before, left_out = group.mark(), self._tables.end_listing()
        self._builder.commit("", None, 0, group.waiting)
        gtid, _ = group.end(self._cursor.offset, seconds)
        mark = before if found.is_commit else group.mark()  # who stops in between reads all of it again
        self._ready.append(LogPrepared(self._builder.build(mark.resume, Part.LAST), mark, found.xid, left_out))
        if found.is_commit:
            self._ready.append(LogDecided(found.xid, True, group.mark(), gtid, self._cursor.origin))

    def commit(self, seconds: int) -> None:
        group, builder = self._group, self._builder
        if group.is_xa:
            self._tables.end_listing()
        self._tell_held()
        images, is_ours, is_fragmented = group.waiting, group.is_ours, group.is_fragmented
        origin = group.origin or self._cursor.origin
        gtid, time = group.end(self._cursor.offset, seconds)
        if is_ours:
            builder.commit(str(self._cursor), gtid, time, images, origin)
            if is_fragmented:
                self._ready.append(builder.build(group.mark().resume, Part.LAST))
            elif self._is_full():
                self.flush()

    def query(self, body: bytes, seconds: int) -> None:
        """Handle a statement's event, any but BEGIN."""
        query = self._readable(lambda: b.parse_query(body), "a statement")
        start = query.sql.lstrip()[:20].upper()
        if start.startswith("COMMIT"):
            self.commit(seconds)
        elif start.startswith("ROLLBACK"):
            self._rollback(query.sql, seconds)
        elif start.startswith("XA "):
            self._xa(query.sql, seconds)
        elif start.startswith("SAVEPOINT"):
            self._group.savepoints[_savepoint(query.sql)] = self._group.ordinal
        elif not start.startswith("RELEASE SAVEPOINT"):
            self._statement(query, seconds)

    def abandon(self) -> None:
        """Discard the open transaction, which never ended. Tables that were parked in it are asked for again."""
        was_fragmented = self._group.is_fragmented
        self._tables.end_listing()
        self._builder.abandon()
        self._group.abandon()
        self._group.move(self._cursor.file, self._cursor.offset)
        self._held = []
        self._tables.reselect()
        if was_fragmented:
            self._ready.append(LogAbandoned(self._group.mark()))

    def _tell_held(self) -> None:
        """Release statements of the transaction that ends, before its rows: capture that stops at one has not read the
        rows either, and reads both again.
        """
        if self._held:
            self.flush()
            self._ready.extend(self._held)
            self._held = []

    def _is_full(self) -> bool:
        return self._builder.images >= FULL_IMAGES or self._builder.size >= FULL_BYTES

    def _xa(self, sql: str, seconds: int) -> None:
        """Handle an XA statement: XA START (MySQL) and XA END around rows, later XA COMMIT or XA ROLLBACK."""
        verb = sql.split()[1].upper()
        if verb in ("START", "BEGIN"):
            self._group.begin_xa()
        elif verb in ("COMMIT", "ROLLBACK"):
            xid = self._readable(lambda: b.xid_of(sql), "an XA statement")
            if self._group.is_ours:
                message = f"a prepared transaction is decided inside another one: {shown(sql)}"
                raise UnknownLogEvent(message, position=str(self._cursor), hint=b.START_AGAIN)
            self.flush()
            gtid, _ = self._group.end(self._cursor.offset, seconds)
            self._ready.append(LogDecided(xid, verb == "COMMIT", self._group.mark(), gtid, self._cursor.origin))
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
        """Handle a ROLLBACK, which is logged where a table without transactions was changed in between.

        Rows of that table stay, as at the server; those of the others, from the savepoint or the beginning on, never
        happened.
        """
        group, builder = self._group, self._builder
        is_whole = _TO_SAVEPOINT.match(sql) is None
        first = 0 if is_whole else group.savepoints.get(_savepoint(sql), -1)
        keeps_some = builder.has_some(_keeps)
        if first < 0 or (group.fragmented > first and (keeps_some or not is_whole)):
            raise UnknownLogEvent(
                f"the log takes back rows that have left already: {shown(sql)}",
                position=str(self._cursor),
                hint="a table that is not transactional was changed in a large transaction: use InnoDB, then load again",
            )
        if is_whole:
            self._tell_held()
        if is_whole and group.is_fragmented:
            builder.abandon()
            group.end(self._cursor.offset, seconds)
            self._tables.reselect()
            self._ready.append(LogAbandoned(group.mark()))
            return
        group.taken_back += builder.take_back(first, _keeps)
        if is_whole and (group.waiting or group.has_barrier):
            self.commit(seconds)
        elif is_whole:
            group.end(self._cursor.offset, seconds)

    def _refuse_behind_fragments(self, query: b.Query) -> None:
        """Refuse a statement that matters inside a transaction whose first rows have left already: it would have to
        come before them.
        """
        if MysqlDialect().facts(query.sql, query.schema).kind != "harmless":
            raise UnknownLogEvent(
                f"a large transaction has a statement besides rows: {shown(query.sql)}",
                position=str(self._cursor),
                hint="let every session log rows (ROW format), then load again",
            )

    def _statement(self, query: b.Query, seconds: int) -> None:
        """Handle a statement. Alone it ends its group.

        Inside a transaction (temporary tables, MIXED format) `mark` stays before the transaction, so that a restart
        reads all of it; behind rows, the statement is held until they are complete.
        """
        group = self._group
        if group.in_transaction:
            mark = replace(group.mark(), commit_time=seconds * 1_000_000)
            statement = LogStatement(query.sql, query.schema, mark, is_inside=True)
            if group.is_fragmented:
                self._refuse_behind_fragments(query)
                return
            if group.is_ours:
                self._held.append(statement)
                return
            self.flush()
        else:
            self.flush()  # its resume is the place before the statement
            job = commented(query.sql)
            is_left_out = group.is_left_out or group.left_out.has(self._cursor.server) or job in group.left_out.jobs
            gtid, _ = group.end(self._cursor.offset, seconds)
            if is_left_out and MysqlDialect().facts(query.sql, query.schema).kind == "truncate":
                return
            origin = origin_of(job) if job else self._cursor.origin
            statement = LogStatement(query.sql, query.schema, group.mark(), gtid, origin)
        self._ready.append(statement)


def _keeps(table: TableSchema) -> bool:
    """Return whether the table's rows stay when a transaction is rolled back."""
    return not has_transactions(table)


def _savepoint(sql: str) -> str:
    """Return the name at the statement's end, as servers compare it."""
    found = _NAME.search(sql)
    return (found[1].replace("``", "`") if found[1] is not None else found[2]).casefold() if found else ""
