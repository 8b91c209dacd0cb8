"""Reads the target's rows for verification, in the text form of model/datatype.py, in one statement per piece.

The server has each value as its text form; rows stream, and nobody keeps more of them than one read of the socket. What does
not live here: how a table is cut (`pieces.py`), which text a column has (`terms.py`), what is hashed of it
(`hashed.py`), comparing (verify/).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.fingerprint import HASHINGS, outcome, statement
from anabranch.connectors.mysql.kept import BACK, LOST, SAVED, why_held
from anabranch.connectors.mysql.packets import Front, RawRows, joined, values
from anabranch.connectors.mysql.target import hashed, pieces, terms
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.jobs import READ_CHECKPOINT, TARGET, checkpoint_of, is_beyond
from anabranch.connectors.mysql.target.known_columns import KnownColumns
from anabranch.connectors.mysql.target.literals import Literals, comparable
from anabranch.connectors.mysql.target.session import Connection, ask, connect, quoted, run, table_name
from anabranch.connectors.mysql.target.states import READ_TABLE, state_of
from anabranch.connectors.mysql.target.words import bare
from anabranch.connectors.sql.barriers import at_barrier
from anabranch.contracts import Bounds
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows import compiled
from anabranch.rows.counted import lines_in, miscount
from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing
from anabranch.rows.net import TargetTable

# The server counts what it finds; on a statement without a limit that costs nothing.
# https://dev.mysql.com/doc/refman/8.0/en/information-functions.html#function_found-rows
COUNTED, COUNT = "SQL_CALC_FOUND_ROWS", "SELECT FOUND_ROWS()"
# Sessions at a target read what others have committed; this is for the next transaction alone.
ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
KEYS_AT_ONCE = 200  # of a statement
COLUMNS = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
MISCOUNTED = "let the URL lead to the server itself, with nothing in between that changes results, then start again"
WORDS = b"w"  # native/src/lines.rs: a value with characters that are escaped
_ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r"))  # the backslash first


class MysqlTargetReader:
    """Reads over one connection of its own; every piece is one statement and sees one moment.

    Delivery: each row that was committed before a piece is read and stays, exactly once over all pieces."""

    def __init__(self, endpoint: Endpoint, connection: Connection | None = None) -> None:
        """Set up the reader. `connection`: read in this session, which has tables that no other sees."""
        self._endpoint = endpoint
        self._connection = connection
        self._is_kept = False

    def pieces(self, table: TargetTable, rows_per_piece: int) -> list[str]:
        with translated(f"measure {table.target}"):
            try:
                return pieces.pieces(self._session(), table.target, rows_per_piece)
            except TargetError as error:
                error.table = error.table or str(table.source)
                raise

    def ranges(self, table: TargetTable, columns: Sequence[str], bounds: Sequence[Bounds]) -> list[str]:
        with translated(f"read the keys of {table.target}"):
            return pieces.ranges(self._session(), table.target, columns, bounds)

    def lines(self, table: TargetTable, piece: str) -> Iterator[bytes]:
        place = "the whole table" if piece == pieces.WHOLE else f"the piece {piece}"
        return self._lines(table, pieces.source(table.target, piece), place)

    def _lines(self, table: TargetTable, source: str, place: str) -> Iterator[bytes]:
        """Yield the rows of `source`: what stands behind FROM."""
        came = 0
        with translated(f"read {table.target}"):
            session = self._session()
            long = long_bytes(table, session.packet)
            rows = RawRows(session, select(table, source, family(session), long))
            front = None if long else _front(rows.width)
            for block in joined(rows, partial(_line, width=rows.width, raw=long), front):
                came += lines_in(block)
                yield block
            told = int(ask(session, COUNT)[0][0])
        if told != came:
            message = f"read {table.target}: {miscount(place, told, came)}"
            raise TargetError(message, table=str(table.source), hint=MISCOUNTED)

    def place(self, job: str, table: TableId) -> tuple[Checkpoint, TableState] | None:
        self.leave()
        with translated("read the checkpoint"):
            session, at = self._at_barrier(job)
            state = ask(session, READ_TABLE, job, str(table))
        return (at, state_of(state[0], None)) if at and state else None

    def _at_barrier(self, job: str, keeps: bool = False) -> tuple[Connection, Checkpoint | None]:
        """Open a snapshot, and return where the job is in it. `keeps`: with a savepoint before anything is read."""

        def look() -> tuple[Connection, Checkpoint | None]:
            session = self._begun()
            if keeps:
                run(session, SAVED)
            rows = ask(session, READ_CHECKPOINT, job, TARGET)
            return session, checkpoint_of(rows[0]) if rows else None

        def is_between(found: tuple[Connection, Checkpoint | None]) -> bool:
            session, at = found
            return at is not None and is_beyond(session, job, at.position.sequence)

        return at_barrier(look, is_between, self.leave)

    def keep(self, job: str) -> Checkpoint | None:
        self._is_kept = False
        self.leave()
        with translated("open a snapshot"):
            if why := why_held(self._session()):
                raise TargetError(why)
            session, at = self._at_barrier(job, keeps=True)
            run(session, BACK)
        self._is_kept = True
        return at

    def release(self) -> None:
        with translated("go back in a snapshot"):
            run(self._session(), BACK)

    def finds(self, table: TargetTable) -> bool:
        with translated(f"read the columns of {table.target}"):
            return bool(table.key) and comparable(KnownColumns(self._session()).of(table.target), table)

    def lines_of(self, table: TargetTable, keys: Sequence[Sequence[str | None]]) -> Iterator[bytes]:
        with translated(f"read the columns of {table.target}"):
            session = self._session()
            literals = Literals(session, table, KnownColumns(session).of(table.target), "stop")
        for start in range(0, len(keys), KEYS_AT_ONCE):
            found = " OR ".join(f"({literals.key(key)})" for key in keys[start : start + KEYS_AT_ONCE])
            yield from self._lines(table, f"{table_name(table.target)} WHERE {found}", "the rows of some keys")

    def leave(self) -> None:
        if self._connection is not None and self._connection.open:
            with translated("end a snapshot"):
                run(self._connection, "ROLLBACK")

    def computed(self, table: TargetTable) -> frozenset[str]:
        with translated(f"read the columns of {table.target}"):
            found = ask(self._session(), COLUMNS, table.target.schema, table.target.name)
        there = {str(name).lower() for (name,) in found}
        return frozenset(name for _, name in table.computed if name.lower() in there)

    @property
    def hashings(self) -> frozenset[Hashing]:
        return HASHINGS

    def fingerprint(
        self, table: TargetTable, columns: Sequence[Hashed], piece: str, hashing: Hashing = Hashing.SHA256
    ) -> Fingerprint | None:
        if hashing not in HASHINGS:
            return None
        with translated(f"sum up {table.target}"):
            session = self._session()
            texts = hashed.texts(session, table.target, columns, hashing)
            (row,) = ask(session, statement(columns, texts, pieces.source(table.target, piece)))
            return outcome(row, session._result.warning_count)

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _begun(self) -> Connection:
        """Open a snapshot."""
        session = self._session()
        run(session, ONE_MOMENT)
        run(session, BEGIN)
        return session

    def _session(self) -> Connection:
        if self._connection is None or not self._connection.open:
            if self._is_kept:
                raise TargetError(LOST)
            self._connection = connect(self._endpoint, "anabranch-verify", autocommit=True)
        return self._connection


def select(table: TargetTable, source: str, family: str, raw: frozenset[int] = frozenset()) -> str:
    """Return the query for the text forms of rows. `source`: what stands behind FROM; `raw`: places of columns that come as
    they are."""
    columns = enumerate(zip(table.columns, table.types, strict=True))
    wanted = ", ".join(
        quoted(name) if place in raw else terms.read_term(type, quoted(name), family) for place, (name, type) in columns
    )
    return f"SELECT {COUNTED} {wanted} FROM {source}"


def long_bytes(table: TargetTable, packet: int) -> frozenset[int]:
    """Return the places of bytes whose digits may be longer than a function of SQL returns: NULL would come, with a warning.

    https://dev.mysql.com/doc/refman/8.0/en/string-functions.html
    """
    most = packet // 2 - 1
    return frozenset(n for n, type in enumerate(table.types) if _is_bytes(type) and not 0 < (type.length or 0) <= most)


def _is_bytes(type: LogicalType) -> bool:
    return type.kind is Kind.BINARY and bare(type.target) not in terms.TEXT_TYPES  # those have the text form itself


def _front(width: int) -> Front | None:
    """Return compiled code that makes lines of rows, where it is installed; what is not plain it leaves to `_line`."""
    if compiled.NATIVE is None:
        return None
    of_columns = compiled.NATIVE.lines_of_columns
    return lambda buffer: of_columns(buffer, WORDS * width)


def _line(payload: bytes, width: int, raw: frozenset[int] = frozenset()) -> bytes:
    cells = values(payload, width)
    for place in raw:
        if (cell := cells[place]) is not None:
            cells[place] = b"\\x" + cell.hex().encode()
    return b"\t".join(b"\\N" if cell is None else _escaped(cell) for cell in cells) + b"\n"


def _escaped(cell: bytes) -> bytes:
    for character, written in _ESCAPES:
        cell = cell.replace(character, written)
    return cell
