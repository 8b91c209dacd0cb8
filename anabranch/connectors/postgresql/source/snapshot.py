"""Rows of a PostgreSQL in snapshots that say which transactions they have (K14), as COPY gives them: SnapshotReader,
SharingReader, RawReader.

What does not live here: which of the log's transactions a snapshot has (positions.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.binary_forms import binary_forms
from anabranch.connectors.postgresql.connection import Connection, column_list, one, table_name
from anabranch.connectors.postgresql.copy_out import MISCOUNTED, copied, plain_lines
from anabranch.connectors.postgresql.fingerprint import HASHINGS, fingerprint
from anabranch.connectors.postgresql.pages import SIZE, TID_RANGES_SINCE, page_edges
from anabranch.connectors.postgresql.row_security import policies_named
from anabranch.connectors.postgresql.source import drawn_values
from anabranch.connectors.postgresql.source.connection import (
    identity,
    log_end,
    open_session,
    own_rows,
    refuse_other,
    snapshot_text,
)
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.key_order import Operators, compared, may_have_own, operators
from anabranch.connectors.postgresql.source.large_objects import NUMBERS, REMEDY, may_name, named_in
from anabranch.connectors.postgresql.source.options import USUAL, PostgresSourceOptions
from anabranch.connectors.postgresql.source.positions import Place, place_of
from anabranch.connectors.postgresql.source.stored_text import named
from anabranch.contracts import Bounds, Drawn, ValueRules
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.datatype import LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows import json_texts
from anabranch.rows.counted import miscount, piece_name
from anabranch.rows.fingerprint import Fingerprint, Hashed, Hashing
from anabranch.rows.lines import escaped_cell, unescape
from anabranch.rows.refused import NO_KEY

PLACE = "ctid"  # the name of no column
KEYS_AT_ONCE = 200  # in one condition: each is a search in the index, whatever statistics say of the table
_TREES = 120_000  # pg_partition_tree
# Rows by the server's own count from which on a sample says where to cut, and rows of the sample for each chunk. They come by
# whole pages of some 60: the chunks differ by a tenth or two.
SAMPLED_FROM, SAMPLED_ROWS = 1_000_000, 4_000
# Whoever shared it is gone: its file, what it says, its transaction.
GONE = (
    psycopg.errors.UndefinedObject,
    psycopg.errors.InvalidParameterValue,
    psycopg.errors.ObjectNotInPrerequisiteState,
)
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_ESTIMATE = "SELECT greatest(reltuples, 0)::bigint FROM pg_catalog.pg_class WHERE oid = %s::regclass"


class PostgresSnapshot:
    """SnapshotReader. Every snapshot is exact: the log's transactions tell whether it has them."""

    def __init__(self, endpoint: Endpoint, expected: str = "", options: PostgresSourceOptions = USUAL) -> None:
        self._endpoint, self._expected, self._options = endpoint, expected, options
        self._connection: Connection | None = None
        self._own: dict[tuple[TableId, tuple[str, ...]], Operators] = {}  # of keys' types

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        if not table.primary_key:
            return [Bounds()]
        doing = f"cut {table.id} into chunks"
        with self._about(table, doing), named(self._endpoint, table, table.primary_key, sql.SQL("true"), doing):
            edges = list(self._edges(table, rows_per_chunk))
        return [Bounds(lower, upper) for lower, upper in zip([None, *edges], [*edges, None], strict=True)]

    def _edges(self, table: TableSchema, rows: int) -> Iterator[tuple[str, ...]]:
        """Yield keys behind which to cut, in their order: to walk through the index of a large table takes as long as
        to read it.
        """
        is_large = rows > 2 * SAMPLED_ROWS and self.estimate(table) >= SAMPLED_FROM
        return self._sampled(table, rows) if is_large else self._walked(table, rows)

    def _sampled(self, table: TableSchema, rows: int) -> Iterator[tuple[str, ...]]:
        """Yield edges from a sample of the table, the same ones as long as its pages are the same.

        https://www.postgresql.org/docs/current/sql-select.html#SQL-FROM
        """
        query = sql.SQL(
            "SELECT {texts} FROM (SELECT {key}, row_number() OVER (ORDER BY {key}) AS {place}, count(*) OVER () AS {all}"
            " FROM {table} TABLESAMPLE SYSTEM ({percent}) REPEATABLE (1)) AS t"
            " CROSS JOIN LATERAL ceil({all} / {sampled}) AS {chunks}"
            " WHERE floor({place} * {chunks} / {all}) > floor(({place} - 1) * {chunks} / {all}) AND {place} < {all}"
            " ORDER BY {order}"
        )
        names = {name: sql.Identifier(f"anabranch {name}") for name in ("place", "all", "chunks")}
        percent, sampled = 100 * SAMPLED_ROWS / rows, sql.SQL("{}::float8").format(sql.Literal(SAMPLED_ROWS))
        step = query.format(**self._terms(table), **names, percent=sql.Literal(percent), sampled=sampled)
        return (tuple(map(str, row)) for row in self._session().execute(step).fetchall())

    def _walked(self, table: TableSchema, rows: int) -> Iterator[tuple[str, ...]]:
        """Yield the key of every row that has `rows` - 1 before it and another behind it.

        The index is walked, and only the keys that are found become text.
        """
        query = sql.SQL(
            "SELECT {texts} FROM (SELECT {key} FROM {table} WHERE {beyond} ORDER BY {key} OFFSET {skip} LIMIT 2) AS t"
            " ORDER BY {order}"
        )
        last: tuple[str, ...] | None = None
        while True:
            beyond = self._inside(table, Bounds(lower=last))
            step = query.format(**self._terms(table), beyond=beyond, skip=sql.Literal(rows - 1))
            found = self._session().execute(step).fetchall()
            if len(found) < 2:
                return
            last = tuple(map(str, found[0]))
            yield last

    @staticmethod
    def _terms(table: TableSchema) -> dict[str, sql.Composable]:
        return {
            "texts": sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(c)) for c in table.primary_key),
            "key": column_list(table.primary_key),
            "table": own_rows(table),
            "order": sql.SQL(", ").join(sql.Identifier("t", c) for c in table.primary_key),  # of t: here it is text
        }

    def estimate(self, table: TableSchema) -> int:
        with translated(f"ask for the size of {table.id}"):
            return int(one(self._session(), _ESTIMATE, [table_name(table.id).as_string(None)]) or 0)

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        """Open a snapshot. (low, high) are the same: the snapshot's own word.

        The lock comes before it: a snapshot older than a TRUNCATE, or a rewrite, would find the table empty.
        https://www.postgresql.org/docs/current/mvcc-caveats.html
        """
        connection = self._session()
        with translated("open a snapshot"):
            _begin(connection)
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(own_rows(table)))
            mark = _mark(connection)
        return mark, mark

    def share(self, tables: Sequence[TableSchema]) -> str:
        """Open a shared snapshot, under locks: at that moment nothing is being truncated or rewritten."""
        connection, names = self._session(), [own_rows(table) for table in tables]
        try:
            with (
                open_session(self._endpoint, limited=False) as holder,
                translated("open a snapshot"),
                holder.transaction(),
            ):
                lock = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.SQL(", ").join(names))
                holder.execute(lock)
                files = {str(table.id): _files(holder, table) for table in tables}
                connection.execute("SET idle_in_transaction_session_timeout = 0")
                _begin(connection)
                mark = _mark(connection)
                name = str(one(connection, "SELECT pg_catalog.pg_export_snapshot()"))
        except SourceUnavailable:  # a lock that is not given in time: each chunk has a snapshot of its own then
            return ""
        return json.dumps({"name": name, "mark": mark.resume, "files": files})

    def open_shared(self, table: TableSchema, shared: str) -> LogMark | None:
        found, connection = json.loads(shared), self._session()
        if str(table.id) not in found["files"]:
            return None
        with translated("open a shared snapshot"):
            _begin(connection)
            try:
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(own_rows(table)))
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(found["name"])))
                if _files(connection, table) == found["files"][str(table.id)]:
                    return place_of(found["mark"]).mark()
            except GONE:
                pass
            connection.execute("ROLLBACK")
        return None

    def places(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        """Cut a table by pages; each piece of a partitioned table has the same pages of every partition.

        A server that has no range scan would read the whole table for each piece, and gets one piece.
        """
        if self._session().info.server_version < TID_RANGES_SINCE:
            return [Bounds()]
        with translated(f"ask for the size of {table.id}"):
            found = self._session().execute(SIZE, [table.id.schema, table.id.name]).fetchone()
        pages, rows, _ = found or (0, 0, 0)
        edges = [(f"({page},0)",) for page in page_edges(pages, rows, rows_per_chunk)]  # no row has the number 0
        return [Bounds(lower, upper) for lower, upper in zip([None, *edges], [*edges, None], strict=True)]

    def refuse_loose_ends(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> None:
        if self._options.large_objects == NUMBERS or not any(may_name(column) for column in table.columns):
            return
        with self._about(table, "look for large objects"):
            found = named_in(self._session(), table, columns, self._inside(table, bounds))
        if found is not None:
            column, key = found
            row = ", ".join(f"{name}={value}" for name, value in key.items()) or NO_KEY
            what = f"column {column.name} ({column.native}) of the row with {row} names a large object"
            why = "the number would arrive, the object is in no log"
            raise SourceError(f"{what}: {why}", table=str(table.id), hint=REMEDY)

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        found = self._copy(table, columns, self._inside(table, bounds), _piece(table, bounds))
        yield from _as_wanted(found, table, columns, rules)

    def raw_form(self, table: TableSchema, columns: Sequence[str]) -> str:
        """Return the form of the rows without decoding. The lock of `open` keeps the types as they are."""
        with translated(f"read the types of {table.id}"):
            return binary_forms(self._session(), [(table.id, columns)])[0]

    def raw(self, table: TableSchema, columns: Sequence[str], bounds: Bounds) -> Generator[bytes, None, int]:
        condition = self._inside(table, bounds)
        query = _query(table, columns, condition, " (FORMAT binary)")
        with self._about(table), named(self._endpoint, table, columns, condition, "read rows"):
            return (yield from copied(self._session(), query))

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = [sql.SQL("({})").format(self._same_key(table, key)) for key in keys[start : start + KEYS_AT_ONCE]]
            found = self._copy(
                table, columns, sql.SQL("({})").format(sql.SQL(" OR ").join(some)), "the rows of some keys"
            )
            yield from _as_wanted(found, table, columns, rules)

    def _same_key(self, table: TableSchema, key: Mapping[str, str | None]) -> sql.Composable:
        names = [name for name in table.primary_key if name in key]
        return sql.SQL(" AND ").join(self._compared(table, [name], "=", [key[name]]) for name in names)

    @property
    def hashings(self) -> frozenset[Hashing]:
        return HASHINGS

    def fingerprint(
        self, table: TableSchema, columns: Sequence[Hashed], bounds: Bounds, hashing: Hashing = Hashing.LOOKUP3
    ) -> Fingerprint | None:
        inside = self._inside(table, bounds)
        with self._about(table, f"sum up {table.id}"):
            return fingerprint(self._session(), table.id, columns, inside, own_rows(table), hashing)

    def draw(self, table: TableSchema, column: str, texts: Sequence[str]) -> Drawn:
        return drawn_values.draw(self._session(), table, column, texts)

    def natives(self) -> Sequence[str]:
        return drawn_values.natives(self._session())

    def draw_type(self, native: str, texts: Callable[[LogicalType], Sequence[str]]) -> Drawn | None:
        return drawn_values.draw_type(self._session(), native, texts)

    def _inside(self, table: TableSchema, bounds: Bounds) -> sql.Composable:
        parts = [
            self._compared(table, table.primary_key or [PLACE], operator, values)
            for operator, values in ((">", bounds.lower), ("<=", bounds.upper))
            if values is not None
        ]
        return sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")

    def _compared(
        self, table: TableSchema, names: Sequence[str], operator: str, values: Sequence[str | None]
    ) -> sql.Composable:
        """Return a comparison by the column types' own order."""
        typed = [
            sql.SQL("{}::{}").format(
                sql.Literal(value),
                sql.SQL("tid" if name == PLACE else table.column(name).native),  # as format_type spells it
            )
            for name, value in zip(names, values, strict=True)
        ]
        return compared(names, operator, typed, self._operators(table))

    def _operators(self, table: TableSchema) -> Operators:
        names = table.primary_key
        if (table.id, names) not in self._own:
            own = operators(self._session(), table, names) if may_have_own(table, names) else {}
            self._own[table.id, names] = own
        return self._own[table.id, names]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _session(self) -> Connection:
        if self._connection is None:
            self._connection = open_session(self._endpoint, limited=False)
            with translated("ask the source who it is"):
                refuse_other(self._connection, self._expected)
        return self._connection

    @contextmanager
    def _about(self, table: TableSchema, doing: str = "read rows") -> Iterator[None]:
        """Add the table's name, and the policies that would hide rows of it, to errors of the source."""
        try:
            with policies_named(lambda: open_session(self._endpoint)), translated(doing):
                yield
        except SourceError as error:
            error.table = error.table or str(table.id)
            raise

    def _copy(
        self, table: TableSchema, columns: Sequence[str], condition: sql.Composable, piece: str
    ) -> Iterator[bytes]:
        def refusal(told: int, came: int) -> SourceError:
            return SourceError(f"read rows: {miscount(piece, told, came)}", hint=MISCOUNTED)

        with self._about(table), named(self._endpoint, table, columns, condition, "read rows"):
            yield from plain_lines(self._session(), _query(table, columns, condition), refusal)


def _as_wanted(
    blocks: Iterator[bytes], table: TableSchema, columns: Sequence[str], rules: ValueRules
) -> Iterator[bytes]:
    """Write arrays and composites as the target wants them, which no COPY does."""
    types = json_texts.columns_of(table, columns, rules)
    if not types:
        return blocks
    return (json_texts.rewritten(block, types.items(), unescape, escaped_cell) for block in blocks)


def _begin(connection: Connection) -> None:
    """Begin a transaction, after ending that of another snapshot."""
    if connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
        connection.execute("COMMIT")
    connection.execute(BEGIN)


def _query(table: TableSchema, columns: Sequence[str], condition: sql.Composable, form: str = "") -> sql.Composed:
    return sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT{}").format(
        column_list(list(columns)), own_rows(table), condition, sql.SQL(form)
    )


def _piece(table: TableSchema, bounds: Bounds) -> str:
    return piece_name(table.primary_key, bounds.lower, bounds.upper)


def _mark(connection: Connection) -> LogMark:
    """Take the transaction's snapshot."""
    seen = snapshot_text(connection)
    return Place(identity(connection), log_end(connection), seen).mark()


def _files(connection: Connection, table: TableSchema) -> list[int]:
    """Ask where the rows of a table and its partitions are now, whatever the transaction's snapshot: another place after a
    TRUNCATE or a rewrite. https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-ADMIN-DBLOCATION"""
    leaves = " UNION SELECT relid FROM pg_catalog.pg_partition_tree(%(table)s::regclass)"
    parts = leaves if connection.info.server_version >= _TREES else ""
    query = f"SELECT pg_catalog.pg_relation_filenode(p.relid) FROM (SELECT %(table)s::regclass AS relid{parts}) AS p"
    name = table_name(table.id).as_string(None)
    return sorted(int(file or 0) for (file,) in connection.execute(query.encode(), {"table": name}).fetchall())
