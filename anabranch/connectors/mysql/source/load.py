"""SnapshotReader of MySQL and MariaDB: bounds, a consistent snapshot, rows as lines that the server builds.

What does not live here: how a table is cut (`chunks.py`), how a snapshot gets its place in the log (`snapshot.py`), how
values become text (`expressions.py`, `lines.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pymysql

from anabranch.connectors.mysql.connection import ask, connect, family
from anabranch.connectors.mysql.errors import translate
from anabranch.connectors.mysql.fingerprint import HASHINGS, outcome, statement
from anabranch.connectors.mysql.kept import BACK, LOST
from anabranch.connectors.mysql.packets import NO_LINE, Front, single, values
from anabranch.connectors.mysql.source import chunks, drawn_values, raw
from anabranch.connectors.mysql.source.expressions import (
    CODED,
    NULL,
    SEPARATOR,
    cell,
    code_of,
    equality,
    hashed,
    is_plain,
    is_told,
    is_words,
    mark,
    marker,
    name,
    text,
    width,
)
from anabranch.connectors.mysql.source.lines import Finisher
from anabranch.connectors.mysql.source.log_end import identity
from anabranch.connectors.mysql.source.native import compiled_columns, compiled_lines
from anabranch.connectors.mysql.source.packets import SourceRows
from anabranch.connectors.mysql.source.snapshot import has_transactions, keep_snapshot, open_snapshot
from anabranch.contracts import Bounds, Drawn, ValueRules
from anabranch.errors import SourceError, ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.counted import lines_in, miscount, piece_name
from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing
from anabranch.rows.refused import readable

# Text comes as it is stored. The rest is as in every session (settings.py).
SESSION = "SET SESSION character_set_results = NULL"
KEYS_AT_ONCE = 1000  # in one condition
# The server counts the rows that it finds, those beyond a limit, too: on a statement without one that costs nothing.
# https://dev.mysql.com/doc/refman/8.0/en/information-functions.html#function_found-rows
COUNTED, COUNT = "SQL_CALC_FOUND_ROWS", "SELECT FOUND_ROWS()"
MISCOUNTED = (
    "find what removes rows from results: a row limit set for sessions (sql_select_limit), a plug-in that rewrites"
    " statements, a proxy; point the URL at the server itself, then start again"
)


class MysqlSnapshot:
    """Rows of one source. `expected` is the identity of the server that capture follows: any other is refused (K29).

    Delivery: every row that a chunk's bounds contain in the snapshot, exactly once; a line that cannot be read or printed
    raises, it is never left out."""

    def __init__(self, endpoint: Endpoint, expected: str = "") -> None:
        self.endpoint, self.expected = endpoint, expected
        self._connection: pymysql.Connection | None = None
        self._limit, self._is_kept = 0, False

    def __getstate__(self) -> dict[str, Any]:
        usual = {"_connection": None, "_limit": 0, "_is_kept": False}
        return {"endpoint": self.endpoint, "expected": self.expected, **usual}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        with _about(table):
            return chunks.bounds(self._named, table, rows_per_chunk)

    def estimate(self, table: TableSchema) -> int:
        found = ask(
            self._session(),
            "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            table.id.schema,
            table.id.name,
        )
        return int(found[0][0] or 0) if found else 0

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        session = self._session()
        ask(session, "ROLLBACK")
        with _about(table):
            return open_snapshot(session, self.endpoint, table, lock)

    def keep(self, lock: str, seconds: float) -> LogMark | str:
        self._is_kept = False
        session = self._session()
        ask(session, "ROLLBACK")
        place = keep_snapshot(session, self.endpoint, lock, seconds)
        self._is_kept = not isinstance(place, str)
        return place

    def keeps(self, table: TableSchema) -> bool:
        return has_transactions(table)

    def release(self) -> None:
        ask(self._session(), BACK)

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        where = chunks.condition(chunks.key_columns(table), bounds) if bounds != Bounds() else ""
        return self._lines(table, columns, where, rules, piece_name(table.primary_key, bounds.lower, bounds.upper))

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        """Yield the rows that have one of these primary keys (source column -> text form), as `lines` gives them (K3). Raises
        ValueRefused for one that cannot be converted."""
        rules = replace(rules, carries=False)
        for start in range(0, len(keys), KEYS_AT_ONCE):
            where = " OR ".join(f"({_same_key(table, key)})" for key in keys[start : start + KEYS_AT_ONCE])
            yield from self._lines(table, columns, where, rules, "the rows of some keys")

    @property
    def hashings(self) -> frozenset[Hashing]:
        return HASHINGS

    def fingerprint(
        self, table: TableSchema, columns: Sequence[Hashed], bounds: Bounds, hashing: Hashing
    ) -> Fingerprint | None:
        """Sum up rows as they are stored. None where a column's text is not the server's to say (`lines.py` has it)."""
        own = [table.column(column.name) for column in columns]
        if hashing not in HASHINGS or any(code_of(column) and not is_told(column) for column in own):
            return None
        where = chunks.condition(chunks.key_columns(table), bounds) if bounds != Bounds() else ""
        rows = chunks.source(table, bool(where)) + (f" WHERE {where}" if where else "")
        with _about(table):
            session = self._session()
            if table.row_end:
                _refuse_past(session)
            (row,) = ask(session, statement(columns, [hashed(column, hashing) for column in own], rows))
            return outcome(row, session._result.warning_count)

    def raw_form(self, table: TableSchema, columns: Sequence[str]) -> str:
        return raw.form([table.column(column) for column in columns])

    def raw(self, table: TableSchema, columns: Sequence[str], bounds: Bounds) -> Generator[bytes, None, int]:
        wanted, front = raw.asked([table.column(column) for column in columns])
        where = chunks.condition(chunks.key_columns(table), bounds) if bounds != Bounds() else ""
        rows = chunks.source(table, bool(where)) + (f" WHERE {where}" if where else "")
        with _about(table):
            session = self._session()
            if table.row_end:
                _refuse_past(session)
            came = SourceRows(session, f"SELECT {COUNTED} {wanted} FROM {rows}").payloads(front)
            yield from raw.blocks(came, table.id)
            return int(ask(session, COUNT)[0][0])

    def draw(self, table: TableSchema, column: str, texts: Sequence[str]) -> Drawn:
        with _about(table):
            return drawn_values.draw(self._session(), table, column, texts)

    def natives(self) -> Sequence[str]:
        return drawn_values.natives()

    def draw_type(self, native: str, texts: Callable[[LogicalType], Sequence[str]]) -> Drawn | None:
        session = self._session()
        return drawn_values.draw_type(session, native, texts, family(session))

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _lines(
        self, table: TableSchema, columns: Sequence[str], where: str, rules: ValueRules, piece: str = "the whole table"
    ) -> Iterator[bytes]:
        finisher = Finisher(table, columns, rules)
        parts, front = self._asked([table.column(column) for column in columns], finisher)
        wanted = ", ".join(part.sql for part in parts)
        rows = chunks.source(table, bool(where)) + (f" WHERE {where}" if where else "")
        with _about(table):
            session = self._session()
            if table.row_end:
                _refuse_past(session)
            raw = SourceRows(session, f"SELECT {COUNTED} {wanted} FROM {rows}")
        return _told(table, _counted(session, finisher.blocks(_joined(raw, parts, front)), piece))

    def _asked(self, columns: Sequence[Column], finisher: Finisher) -> tuple[list[_Part], Front | None]:
        """Return what is asked for, and the compiled code that takes it as it comes, where it can.

        A server needs half the time for values as they are, which only compiled code joins as quickly.
        """
        if finisher.is_plain and all(map(is_plain, columns)) and (front := compiled_columns(_kinds(columns))):
            return [_Part(text(column), is_alone=True, mark=mark(column)) for column in columns], front
        parts = _parts(columns, self._longest())
        return parts, compiled_lines() if _is_line(parts) and finisher.is_plain else None

    def _session(self) -> pymysql.Connection:
        if self._connection is None or not self._connection.open:
            if self._is_kept:
                raise SourceError(LOST)
            self._connection = self._checked(connect(self.endpoint, read_timeout=None))
        return self._connection

    def _checked(self, connection: pymysql.Connection) -> pymysql.Connection:
        found = identity(connection)
        if self.expected and found != self.expected:
            connection.close()
            raise SourceError(
                f"the server at {self.endpoint.place} is {found}, capture follows {self.expected}",
                hint="let the URL name one server, not a proxy that chooses",
            )
        ask(connection, SESSION)
        return connection

    def _longest(self) -> int:
        """Return bytes that a string function of this session may return: beyond it the server gives NULL and a warning."""
        if not self._limit:
            self._limit = int(ask(self._session(), "SELECT @@SESSION.max_allowed_packet")[0][0])
        return self._limit

    def _named(self, sql: str) -> list[dict[str, Any]]:
        try:
            with self._session().cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except (pymysql.err.Error, OSError) as error:
            raise translate(error) from error
        except UnicodeDecodeError as error:
            hint = "correct it at the source: the column holds bytes that its character set does not have"
            raise ValueRefused(f"the key {readable(error.object)} of a row is no text in UTF-8", hint=hint) from error


@contextmanager
def _about(table: TableSchema) -> Iterator[None]:
    """Add the table's name to errors of the source."""
    try:
        yield
    except SourceError as error:
        error.table = error.table or str(table.id)
        raise


def _told(table: TableSchema, blocks: Iterator[bytes]) -> Iterator[bytes]:
    with _about(table):
        yield from blocks


def _counted(session: pymysql.Connection, blocks: Iterator[bytes], piece: str) -> Iterator[bytes]:
    """Pass blocks on. Raises SourceError behind the last one if the server has found more rows, or fewer."""
    came = 0
    for block in blocks:
        came += lines_in(block)
        yield block
    told = int(ask(session, COUNT)[0][0])
    if told != came:
        raise SourceError(f"read rows: {miscount(piece, told, came)}", hint=MISCOUNTED)


def _refuse_past(session: pymysql.Connection) -> None:
    """Refuse a session that reads versioned tables as they were.

    https://mariadb.com/kb/en/system-versioned-tables/#system_versioning_asof
    """
    if ask(session, "SELECT @@SESSION.system_versioning_asof")[0][0] != "DEFAULT":
        hint = "SET GLOBAL system_versioning_asof = DEFAULT at the source"
        raise SourceError("a new session at the source reads its versioned tables as they were", hint=hint)


@dataclass(frozen=True, slots=True)
class _Part:
    """A result column: neighbouring values that the server joins, or one value that is too long for that."""

    sql: str
    is_alone: bool = False
    is_binary: bool = False
    code: str = ""  # in which a value that is alone comes
    mark: bytes = b""  # in front of it

    def finish(self, value: bytes | None) -> bytes:
        if value is None:
            if self.is_alone:
                return NULL
            raise SourceError(
                "the source could not build a line: it is longer than max_allowed_packet",
                hint="SET GLOBAL max_allowed_packet = 1073741824 at the source",
            )
        if self.code:
            return CODED + f"{self.code}:{value.hex().upper()}".encode()
        return self.mark + (b"\\x" + value.hex().encode() if self.is_binary else value)


def _parts(columns: Sequence[Column], longest: int) -> list[_Part]:
    """Return as few result columns as `max_allowed_packet` allows, for any value that the types admit.

    https://dev.mysql.com/doc/refman/8.0/en/string-functions.html: a longer result is NULL
    """
    parts: list[_Part] = []
    near: list[Column] = []
    for column in columns:
        if sum(map(_space, [*near, column])) > longest:
            parts += _together(near)
            near = []
        if _space(column) > longest:
            parts.append(_alone(column))
        else:
            near.append(column)
    return parts + _together(near)


def _kinds(columns: Sequence[Column]) -> bytes:
    """Return the kinds of columns as compiled_columns() reads them."""
    return b"".join(b"d" if mark(column) else b"w" if is_words(column) else b"n" for column in columns)


def _space(column: Column) -> int:
    return width(column) + 1


def _together(columns: Sequence[Column]) -> list[_Part]:
    if not columns:
        return []
    return [_Part(f"CONCAT_WS({marker(SEPARATOR)}, {', '.join(map(cell, columns))})")]


def _alone(column: Column) -> _Part:
    """Return the bare column: a cast, too, would give NULL beyond the limit."""
    is_binary = column.type is not None and column.type.kind is Kind.BINARY
    return _Part(name(column.name), True, is_binary, code_of(column))


def _is_line(parts: Sequence[_Part]) -> bool:
    """Return whether a whole row is one value."""
    return len(parts) == 1 and not parts[0].is_alone


def _joined(raw: SourceRows, parts: Sequence[_Part], front: Front | None = None) -> Iterator[bytes | list[bytes]]:
    """Yield rows as marked bytes, in the lists in which they came, and as lines where `front` took them."""
    for some in raw.payloads(front):
        if isinstance(some, bytes):
            yield some
        elif _is_line(parts) and NO_LINE not in some:
            yield [single(payload) for payload in some]
        else:
            yield [
                SEPARATOR.join(
                    part.finish(value) for part, value in zip(parts, values(payload, raw.width), strict=True)
                )
                for payload in some
            ]


def _same_key(table: TableSchema, key: Mapping[str, str | None]) -> str:
    return " AND ".join(equality(column, key[column.name] or "") for column in chunks.key_columns(table))
