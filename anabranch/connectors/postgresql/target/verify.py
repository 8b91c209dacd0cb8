"""Reads the target's rows for verification, in the text form of model/datatype.py, straight out of COPY.

What does not live here: comparing (verify/), the source's side. JSON text and floats are as PostgreSQL prints them; the
comparison makes both sides alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from anabranch.connectors.postgresql.connection import Connection, connect, table_name
from anabranch.connectors.postgresql.copy_out import MISCOUNTED, plain_lines
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.fingerprint import HASHINGS, fingerprint
from anabranch.connectors.postgresql.pages import SIZE, TID_RANGES_SINCE, page_edges
from anabranch.connectors.postgresql.target import applied, choices
from anabranch.connectors.postgresql.target.store import READ_CHECKPOINT, READ_TABLE, TARGET, checkpoint_of, state_of
from anabranch.connectors.sql.barriers import at_barrier
from anabranch.contracts import Bounds
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.counted import miscount
from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing
from anabranch.rows.net import TargetTable

WHOLE_TABLE = "true"
# Whoever shared a snapshot is gone: its file, what it says, its transaction.
GONE = (
    psycopg.errors.UndefinedObject,
    psycopg.errors.InvalidParameterValue,
    psycopg.errors.ObjectNotInPrerequisiteState,
)
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"  # its first query makes the snapshot

# Infinite and BC values have no six-decimal form: they keep PostgreSQL's own text, which no source value has.
_CLOCK = (
    "CASE WHEN isfinite({0}) AND {0} >= '0001-01-01' "
    "THEN to_char({0}, 'YYYY-MM-DD HH24:MI:SS.US'){1} ELSE {0}::text END"
)
# An index whose first columns are these, in this order.
INDEXED = """
SELECT count(*) FROM pg_index i
 WHERE i.indrelid = %s::regclass AND i.indisvalid AND i.indpred IS NULL AND %s::text[] =
       (SELECT array_agg(a.attname::text ORDER BY k.place)
          FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (number, place)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.place <= %s)
"""
_SIZE = "to_char(make_interval(secs => abs(extract(epoch FROM {0}))::float8), 'HH24:MI:SS.US')"

# Kind -> expression of the column, where COPY's own text is not the text form already.
TEXT_FORMS: dict[Kind, str] = {
    Kind.TIMESTAMP: _CLOCK.replace("{1}", ""),
    Kind.INSTANT: _CLOCK.replace("{1}", " || '+00'"),
    Kind.DURATION: "CASE WHEN {0} < interval '0' THEN '-' ELSE '' END || " + _SIZE,
}


class PostgresReader:
    """Reads over one connection of its own; every piece is one statement and sees one moment.

    Delivery: each row that was committed before a piece is read and stays, exactly once over all pieces."""

    def __init__(self, endpoint: Endpoint, connection: Connection | None = None) -> None:
        """Set up the reader. `connection`: read in this session, which has tables that no other sees."""
        self._endpoint = endpoint
        self._connection = connection

    def pieces(self, table: TargetTable, rows_per_piece: int) -> list[str]:
        with translated(f"measure {table.target}"):
            found = self._session().execute(SIZE, [table.target.schema, table.target.name]).fetchone()
        if found is None:
            raise TargetError(f"the target table {table.target} does not exist", table=str(table.source))
        pages, rows, version = found
        if version < TID_RANGES_SINCE:
            return [WHOLE_TABLE]
        return page_ranges(pages, rows, rows_per_piece)

    def ranges(self, table: TargetTable, columns: Sequence[str], bounds: Sequence[Bounds]) -> list[str]:
        name = table_name(table.target).as_string(None)
        with translated(f"read the keys of {table.target}"):
            found = self._session().execute(INDEXED, [name, list(columns), len(columns)]).fetchone()
        return [_inside(columns, one) for one in bounds] if found and found[0] else []

    def lines(self, table: TargetTable, piece: str) -> Iterator[bytes]:
        place = "the whole table" if piece == WHOLE_TABLE else f"the piece {piece}"
        yield from self._lines(table, sql.SQL(piece), place)

    def _lines(self, table: TargetTable, condition: sql.Composable, place: str) -> Iterator[bytes]:
        def refusal(told: int, came: int) -> TargetError:
            message = f"read {table.target}: {miscount(place, told, came)}"
            return TargetError(message, table=str(table.source), hint=MISCOUNTED)

        with translated(f"read {table.target}"):
            yield from plain_lines(self._session(), select(table, condition), refusal)

    def place(self, job: str, table: TableId) -> tuple[Checkpoint, TableState] | None:
        with translated("read the checkpoint"):
            session, at = self._at_barrier(job)
            state = session.execute(READ_TABLE, [job, str(table)]).fetchone()
        return None if at is None or state is None else (at, state_of(state, whole=False))

    def _at_barrier(self, job: str) -> tuple[Connection, Checkpoint | None]:
        """Open a snapshot, and return where the job is in it."""

        def look() -> tuple[Connection, Checkpoint | None]:
            session = self._session()
            session.execute(BEGIN)
            at = session.execute(READ_CHECKPOINT, [job, TARGET]).fetchone()
            return session, None if at is None else checkpoint_of(at)

        def is_between(found: tuple[Connection, Checkpoint | None]) -> bool:
            session, at = found
            return at is not None and applied.is_beyond(session, job, TARGET, at.position.sequence)

        self.leave()
        return at_barrier(look, is_between, self.leave)

    def share(self, job: str) -> tuple[str, Checkpoint] | None:
        self.leave()
        with translated("share a snapshot"):
            self._session().execute("SET idle_in_transaction_session_timeout = 0")
            session, at = self._at_barrier(job)
            name = session.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()
        return None if at is None or name is None else (str(name[0]), at)

    def open_shared(self, shared: str) -> bool:
        self.leave()
        with translated("open a shared snapshot"):
            session = self._session()
            session.execute(BEGIN)
            try:
                session.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(shared)))
            except GONE:
                session.execute("ROLLBACK")
                return False
        return True

    def finds(self, table: TargetTable) -> bool:
        return bool(table.key)

    def lines_of(self, table: TargetTable, keys: Sequence[Sequence[str | None]]) -> Iterator[bytes]:
        if keys:
            rows = (sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, key))) for key in keys)
            names = sql.SQL(", ").join(map(sql.Identifier, table.key))
            condition = sql.SQL("({}) IN ({})").format(names, sql.SQL(", ").join(rows))
            yield from self._lines(table, condition, "the rows of some keys")

    def leave(self) -> None:
        if self._connection is not None and not self._connection.closed:
            with translated("end a snapshot"):
                if self._connection.info.transaction_status is not TransactionStatus.IDLE:
                    self._connection.execute("ROLLBACK")

    @property
    def hashings(self) -> frozenset[Hashing]:
        return HASHINGS

    def fingerprint(
        self, table: TargetTable, columns: Sequence[Hashed], piece: str, hashing: Hashing = Hashing.LOOKUP3
    ) -> Fingerprint | None:
        with translated(f"sum up {table.target}"):
            return fingerprint(self._session(), table.target, columns, sql.SQL(piece), hashing=hashing)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _session(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._endpoint, "anabranch-verify", autocommit=True)
        return self._connection


def page_ranges(pages: int, rows: int, rows_per_piece: int) -> list[str]:
    """Return ranges of ctid with about `rows_per_piece` rows each; the last one is open, for rows added meanwhile."""
    edges = page_edges(pages, rows, rows_per_piece)
    if not edges:
        return [WHOLE_TABLE]
    starts, ends = [0, *edges], [f"ctid < '({edge},0)'" for edge in edges] + [""]
    return [
        " AND ".join(filter(None, (f"ctid >= '({start},0)'", end))) for start, end in zip(starts, ends, strict=True)
    ]


def _inside(columns: Sequence[str], bounds: Bounds) -> str:
    """Return `lower < columns <= upper` as SQL."""
    row = "(" + ", ".join(sql.Identifier(name).as_string(None) for name in columns) + ")"
    ends = ((">", bounds.lower), ("<=", bounds.upper))
    parts = [f"{row} {sign} ({', '.join(str(int(value)) for value in end)})" for sign, end in ends if end is not None]
    return " AND ".join(parts) or WHOLE_TABLE


def _form(logical: LogicalType) -> str:
    """Return SQL for a column's text form, with {0} for the column."""
    if logical.kind is Kind.GEOMETRY and logical.target == "geometry":
        return "lower({0}::text)"
    chosen = choices.choice(logical) if logical.target else None
    return (chosen.form if chosen else "") or TEXT_FORMS.get(logical.carried, "{0}")


def select(table: TargetTable, condition: sql.Composable) -> sql.Composed:
    columns = [
        sql.SQL(_form(logical)).format(sql.Identifier(name))
        for name, logical in zip(table.columns, table.types, strict=True)
    ]
    return sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT").format(
        sql.SQL(", ").join(columns), table_name(table.target), condition
    )
