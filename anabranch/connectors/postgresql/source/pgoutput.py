"""Messages of pgoutput that are not about rows (row_images.py): transactions, relations, TRUNCATE, what a session wrote. Pure.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Microseconds from 1970 to 2000, where PostgreSQL's clock begins.
EPOCH = 946_684_800 * 1_000_000
LATEST = (1 << 63) - 1 - EPOCH  # of a time that the trail can hold, counted from 2000
ROWS = frozenset(b"IUD")
ROW_HEAD, STREAMED_ROW_HEAD = 5, 9  # bytes before a row message's first tuple
STREAMABLE = frozenset(b"RYTMIUD")  # messages that begin with their (sub)transaction where they are streamed
IDENTITIES = {"d": "default", "n": "nothing", "f": "full", "i": "index"}
_BEGIN, _COMMIT = struct.Struct(">QqI"), struct.Struct(">xQQq")  # flags of a commit: none of them is used yet
_CASCADE, _RESTART_IDENTITY, _TRANSACTIONAL, _IN_KEY = 1, 2, 1, 1


@dataclass(frozen=True, slots=True)
class Begin:
    """`lsn`: of the commit record; `time`: microseconds since 1970."""

    lsn: int
    time: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """`end`: just behind the transaction."""

    lsn: int
    end: int
    time: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The transaction came here by replication, from `lsn` of the origin `name`."""

    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """`type`: oid of the type, `modifier`: its typmod, -1 for none; `in_identity`: is it a part of the replica identity?"""

    name: str
    type: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """The layout of rows of `oid` from here on. `identity`: one of IDENTITIES. Generated columns are not among
    `columns`, unless the publication has them.
    """

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class TypeName:
    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class Written:
    """pg_logical_emit_message. `transactional`: it is a part of the transaction, else it stands alone."""

    lsn: int
    prefix: str
    content: bytes
    transactional: bool


@dataclass(frozen=True, slots=True)
class StreamStart:
    """A piece of a transaction that is still open; up to StreamStop all is its own, or of its subtransactions."""

    xid: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    lsn: int
    end: int
    time: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """`subxid` is taken back; all of it where it is `xid` itself."""

    xid: int
    subxid: int


@dataclass(frozen=True, slots=True)
class _OfTwoPhases:
    """`gid`: under which the transaction `xid` is prepared."""

    lsn: int
    end: int
    time: int
    xid: int
    gid: str


class BeginPrepare(_OfTwoPhases):
    """The rows of a transaction follow that is prepared."""


@dataclass(frozen=True, slots=True)
class Prepare(_OfTwoPhases):
    """The transaction is prepared; `is_streamed`: it came in pieces."""

    is_streamed: bool = False


class CommitPrepared(_OfTwoPhases):
    """The prepared transaction is committed."""


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    """`prepared_at`: where its Prepare ended."""

    prepared_at: int
    end: int
    time: int
    xid: int
    gid: str


Item = (
    Begin | Commit | Origin | Relation | TypeName | Truncate | Written | StreamStart | StreamStop | StreamCommit
    | StreamAbort | BeginPrepare | Prepare | CommitPrepared | RollbackPrepared
)  # fmt: skip


def parse(message: bytes, in_stream: bool = False) -> tuple[Item, int]:
    """Parse a message, and return the (sub)transaction that it names; 0 outside StreamStart and StreamStop
    (`in_stream`).

    Raises ValueError for a kind that is not known, and for bytes that are too few or too many.
    """
    body = _Body(message)
    try:
        kind = body.byte()
        make = _KINDS.get(kind)
        if make is None:
            raise ValueError(f"a message of unknown kind {bytes((kind,))!r}")
        xid = body.take("I") if in_stream and kind in STREAMABLE else 0
        made = make(body)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"a message {message[:1]!r} that cannot be read: {error}") from error
    if body.at != len(message):
        raise ValueError(f"a message {message[:1]!r} with {len(message) - body.at} bytes too many")
    return made, xid


class _Body:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self, form: struct.Struct) -> tuple[Any, ...]:
        begin, self.at = self.at, self.at + form.size
        return form.unpack_from(self.data, begin)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, code: str) -> Any:
        (value,) = struct.unpack_from(">" + code, self.data, self.at)
        self.at += struct.calcsize(">" + code)
        return value

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise IndexError("a name without an end")
        begin, self.at = self.at, end + 1
        return self.data[begin:end].decode()

    def time(self) -> int:
        return _since_1970(self.take("q"))

    def bytes(self) -> bytes:
        length = self.take("I")
        begin, self.at = self.at, self.at + length
        if self.at > len(self.data):
            raise IndexError("fewer bytes than it says")
        return self.data[begin : self.at]


def _since_1970(time: int) -> int:
    if time > LATEST:
        raise ValueError("a time that is none")
    return time + EPOCH


def _begin(b: _Body) -> Begin:
    lsn, time, xid = b.fields(_BEGIN)
    return Begin(lsn, _since_1970(time), xid)


def _commit(b: _Body) -> Commit:
    lsn, end, time = b.fields(_COMMIT)
    return Commit(lsn, end, _since_1970(time))


def _origin(b: _Body) -> Origin:
    return Origin(b.take("Q"), b.text())


def _relation(b: _Body) -> Relation:
    oid, schema, name, identity = b.take("I"), b.text(), b.text(), chr(b.byte())
    columns = tuple(_column(b) for _ in range(b.take("H")))
    if identity not in IDENTITIES:
        raise ValueError(f"a relation of unknown replica identity {identity!r}")
    return Relation(oid, schema or "pg_catalog", name, IDENTITIES[identity], columns)


def _column(b: _Body) -> RelationColumn:
    flags, name, type, modifier = b.byte(), b.text(), b.take("I"), b.take("i")
    return RelationColumn(name, type, modifier, bool(flags & _IN_KEY))


def _type(b: _Body) -> TypeName:
    return TypeName(b.take("I"), b.text() or "pg_catalog", b.text())


def _truncate(b: _Body) -> Truncate:
    count, options = b.take("I"), b.byte()
    relations = tuple(b.take("I") for _ in range(count))
    return Truncate(relations, bool(options & _CASCADE), bool(options & _RESTART_IDENTITY))


def _written(b: _Body) -> Written:
    flags, lsn, prefix = b.byte(), b.take("Q"), b.text()
    return Written(lsn, prefix, b.bytes(), bool(flags & _TRANSACTIONAL))


def _stream_start(b: _Body) -> StreamStart:
    return StreamStart(b.take("I"), b.byte() == 1)


def _stream_commit(b: _Body) -> StreamCommit:
    xid, _ = b.take("I"), b.byte()
    return StreamCommit(xid, b.take("Q"), b.take("Q"), b.time())


def _stream_abort(b: _Body) -> StreamAbort:
    return StreamAbort(b.take("I"), b.take("I"))


def _begin_prepare(b: _Body) -> BeginPrepare:
    return BeginPrepare(b.take("Q"), b.take("Q"), b.time(), b.take("I"), b.text())


def _prepare(b: _Body, is_streamed: bool = False) -> Prepare:
    b.byte()
    return Prepare(b.take("Q"), b.take("Q"), b.time(), b.take("I"), b.text(), is_streamed)


def _commit_prepared(b: _Body) -> CommitPrepared:
    b.byte()
    return CommitPrepared(b.take("Q"), b.take("Q"), b.time(), b.take("I"), b.text())


def _rollback_prepared(b: _Body) -> RollbackPrepared:
    b.byte()
    prepared_at, end, _ = b.take("Q"), b.take("Q"), b.time()
    return RollbackPrepared(prepared_at, end, b.time(), b.take("I"), b.text())


_KINDS: dict[int, Callable[[_Body], Item]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("T"): _truncate,
    ord("M"): _written,
    ord("S"): _stream_start,
    ord("E"): lambda _: StreamStop(),
    ord("c"): _stream_commit,
    ord("A"): _stream_abort,
    ord("b"): _begin_prepare,
    ord("P"): _prepare,
    ord("p"): lambda b: _prepare(b, is_streamed=True),
    ord("K"): _commit_prepared,
    ord("r"): _rollback_prepared,
}
