"""Staging tables of the committing connection: temporary ones, kept from epoch to epoch.

A temporary table of InnoDB is made by a statement that does not commit, its rows come and go with the transaction, and a
server that logs rows does not log them. Before 8.0.13 a MySQL that enforces consistency of GTIDs makes
none inside a transaction: there the first epoch that needs one goes row by row, and it is made before the next one.
https://dev.mysql.com/doc/refman/8.0/en/create-temporary-table.html ·
https://dev.mysql.com/doc/refman/5.7/en/replication-gtids-restrictions.html
What does not live here: the tables that executors fill (`stage.py`), the statements that merge (`merge.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target import terms
from anabranch.connectors.mysql.target.known_columns import KnownColumns, KnownTable
from anabranch.connectors.mysql.target.load_data import FORM, Way, insert, send
from anabranch.connectors.mysql.target.local_lines import VALUE, NoRow, RowForm
from anabranch.connectors.mysql.target.merge import DIGEST, Stage
from anabranch.connectors.mysql.target.reading_in import ReadingIn, read_in
from anabranch.connectors.mysql.target.session import FED, Connection, ask, column_list, quoted, run, table_name, warned
from anabranch.connectors.sql.merge_pieces import MergePiece, StageColumn
from anabranch.contracts import Conflict
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.rows.lines import lines

BLOCK, BLOCK_BYTES = 20_000, 8 << 20  # rows that become one block of lines, and their bytes as Arrow
FEW_SENT = 50  # rows up to which an INSERT is quicker than LOAD DATA
FEW_LEFT = 500  # rows of an earlier epoch that are removed one by one; more go with the whole table
KEPT = 100  # tables
SCHEMA = "anabranch"
NUMBERED = "`_n` BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY"  # a key, for servers that want one in each table
OWN_TYPES = {Kind.TEXT: "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", Kind.INT64: "BIGINT"}
# Longer ones stand outside of the row, which may have 65,535 bytes: the target's row may need nearly all of them.
LONG, OUTSIDE = 1024, {"varchar": "LONGTEXT", "varbinary": "LONGBLOB"}
# https://dev.mysql.com/doc/mysql-errors/5.7/en/server-error-reference.html#error_er_gtid_unsafe_create_drop_temporary_table_in_transaction
NOT_INSIDE = (1787,)
HARMLESS = frozenset({1287, 1592})  # deprecated words; what would be unsafe if statements were logged
NOT_YET = "a staging table is made before the next transaction; until then rows go one by one"
NO_NULL = "NULL in a column which has none at the target"

Shape = tuple[KnownTable, tuple[StageColumn, ...]]


class StagingTables:
    """The temporary tables of one connection, by what they hold. Not for two threads."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.known = connection, KnownColumns(connection)
        self.reading_in = ReadingIn()
        self._free: dict[Shape, list[Stage]] = {}
        self._stands: dict[Stage, int] = {}  # rows that a commit has left
        self._now: dict[Stage, int] = {}  # rows of tables that this transaction used
        self._count = 0

    @contextmanager
    def filled(self, piece: MergePiece, arrays: Sequence[Any], nul: str) -> Iterator[Stage]:
        """Provide a staging table with these rows. Raises Conflict for what the server does not take as it is."""
        with self.empty(piece) as stage:
            stage_rows(self.connection, stage, piece.columns, arrays, nul, piece.table.source)
            self._now[stage] = len(arrays[0])
            yield stage

    @contextmanager
    def empty(self, piece: MergePiece) -> Iterator[Stage]:
        """Provide an empty staging table for this piece. An error leaves it to the rollback that follows."""
        shape = (self.known.of(piece.table.target), piece.columns)
        free = self._free.setdefault(shape, [])
        stage = free.pop() if free else self._make(shape, piece)
        try:
            if self._now.get(stage, self._stands.get(stage, 0)):
                run(self.connection, f"DELETE FROM {table_name(stage)}")
            self._now[stage] = 1  # whoever asked for it fills it
            yield stage
        finally:
            free.append(stage)

    def holds(self, stage: Stage, rows: int) -> None:
        """Note how many rows a table of this transaction has got: one with many is emptied whole, behind the commit."""
        self._now[stage] = max(1, rows)

    def before(self, pieces: Iterable[MergePiece]) -> None:
        """Make tables for these pieces, between two transactions: looking at their targets would begin one."""
        shapes = [((self.known.of(piece.table.target), piece.columns), piece) for piece in pieces]
        self.connection.commit()
        self.known.ended()
        with _outside(self.connection):
            for shape, piece in shapes:
                if not self._free.get(shape):
                    self._free.setdefault(shape, []).append(self._make(shape, piece))

    def committed(self) -> None:
        """Note a commit, and empty what holds many rows. Call it between transactions."""
        self._stands |= self._now
        self._ended()
        for stage, rows in self._stands.items():
            if rows > FEW_LEFT:
                run(self.connection, f"TRUNCATE TABLE {table_name(stage)}")
                self._stands[stage] = 0
        if wanted := self.reading_in.wanted():
            with _outside(self.connection):
                for table in wanted:
                    read_in(self.connection, table)
        if len(self._stands) > KEPT:
            names = ", ".join(table_name(stage) for stage in self._stands)
            with _outside(self.connection):
                run(self.connection, f"DROP TEMPORARY TABLE {names}")
            self._stands.clear()
            self._free.clear()

    def rolled_back(self) -> None:
        """Note a rollback: tables stay, their rows are those of the last commit."""
        self._stands |= dict.fromkeys(self._now.keys() - self._stands.keys(), 1)
        self._ended()

    def went_back(self) -> None:
        """Note a return to a savepoint: tables hold what they held there, whatever that was."""
        self._now = dict.fromkeys(self._now, 1)

    def _ended(self) -> None:
        self._now = {}
        self.known.ended()

    def _make(self, shape: Shape, piece: MergePiece) -> Stage:
        self._count += 1
        stage = TableId(SCHEMA, f"epoch_{self._count}")
        try:
            run(self.connection, create_stage("CREATE TEMPORARY TABLE", stage, shape[0], piece.columns))
        except pymysql.err.Error as error:
            if error.args[0] in NOT_INSIDE:
                raise NotInside(piece) from None
            raise
        return stage


@contextmanager
def _outside(connection: Connection) -> Iterator[None]:
    """Let each statement commit: one without that setting is inside a transaction to a server that asks."""
    run(connection, "SET SESSION autocommit = 1")
    try:
        yield
    finally:
        if connection.open:
            run(connection, "SET SESSION autocommit = 0")


class NotInside(Conflict):
    """A staging table that cannot be made now; `piece` is what it is for."""

    def __init__(self, piece: MergePiece) -> None:
        super().__init__(piece.table.source, NOT_YET)
        self.piece = piece


def create_stage(head: str, stage: Stage, known: KnownTable, columns: Sequence[StageColumn]) -> str:
    """Return the statement that makes a staging table: the target's own types and collations, every column may be NULL."""
    parts = [NUMBERED, *(f"{quoted(column.name)} {_type(known, column)} NULL DEFAULT NULL" for column in columns)]
    parts += [f"KEY ({column.name})" for column in columns if column == DIGEST]
    return f"{head} {table_name(stage)} ({', '.join(parts)}) ENGINE=InnoDB"


def _type(known: KnownTable, column: StageColumn) -> str:
    if not column.like:
        return OWN_TYPES[column.type.kind]
    found = known.column(column.like)
    if found.type in OUTSIDE and found.octets > LONG and not column.name.startswith("k"):
        charset = f" CHARACTER SET {found.charset} COLLATE {found.collation}" if found.charset else ""
        return OUTSIDE[found.type] + charset
    return found.spelled


def way_into(
    connection: Connection,
    table: TableId,
    columns: Sequence[StageColumn],
    names: Sequence[str] = (),
    counted: Collection[str] = (),
) -> Way:
    """Return the statements by which rows are sent into a table whose columns are called `names`.

    `counted`: those with AUTO_INCREMENT. MariaDB (seen in 10.11) gives a 0 there the next number where another column is SET,
    unless this one is SET, too (pitfall 49).
    """
    kind, called = family(connection), names or [column.name for column in columns]
    are_plain = [terms.is_plain(column.type, kind) for column in columns]
    if not all(are_plain):
        are_plain = [one and name not in counted for one, name in zip(are_plain, called, strict=True)]
    targets, sets = [], []
    for number, (name, column, is_plain) in enumerate(zip(map(quoted, called), columns, are_plain, strict=True)):
        variable = f"@c{number}"
        targets.append(name if is_plain else variable)
        if not is_plain:
            sets.append(f"{name} = {terms.assignment(column.type, variable, kind)}")
    place, values = table_name(table), [terms.assignment(column.type, VALUE, kind) for column in columns]
    load = f"LOAD DATA LOCAL INFILE '{FED}' INTO TABLE {place} CHARACTER SET utf8mb4 {FORM} ({', '.join(targets)})"
    load += f" SET {', '.join(sets)}" if sets else ""
    return Way(load, f"INSERT INTO {place} ({column_list(called)}) VALUES ".encode(), RowForm.of(values))


def send_rows(
    connection: Connection, way: Way, columns: Sequence[StageColumn], arrays: Sequence[Any], nul: str, source: TableId
) -> int:
    """Send arrays block by block. Returns the rows that the server took. Raises Conflict where it took one otherwise than it
    was given: with LOAD DATA LOCAL errors are warnings."""
    types = [column.type for column in columns]
    rows = _block(arrays)
    blocks = (
        lines(types, [array.slice(start, rows) for array in arrays], nul=nul)
        for start in range(0, len(arrays[0]), rows)
    )
    try:
        sent = (insert if len(arrays[0]) <= FEW_SENT else send)(connection, way, blocks)
    except NoRow as error:
        raise Conflict(source, str(error)) from None
    refuse_warnings(connection, source)
    return sent.rows


def stage_rows(
    connection: Connection,
    stage: Stage,
    columns: Sequence[StageColumn],
    arrays: Sequence[Any],
    nul: str,
    source: TableId,
) -> None:
    """Send all arrays into a staging table."""
    taken = send_rows(connection, way_into(connection, stage, columns), columns, arrays, nul, source)
    if taken != len(arrays[0]):
        raise Conflict(source, f"staged {len(arrays[0])} rows, the server took {taken}")


def refuse_warnings(connection: Connection, source: TableId, key: dict[str, str | None] | None = None) -> None:
    """Raise Conflict where the statement before has stored a value otherwise than it was given: digits behind the last one that
    a column has are cut with no more than a note. Warnings that the server counts and does not keep (max_error_count, which
    an ordinary user of MySQL 8.0 may not set) may be of that kind, too."""
    if not (count := int(connection._result.warning_count)):
        return
    said = warned(connection)
    if (numbers := sorted({one.number for one in said} - HARMLESS)) or len(said) < count:
        told = ", ".join(map(str, numbers)) or "that it does not tell"
        raise Conflict(source, f"the server took values otherwise than they were given (warnings {told})", key)


def refuse_replaced_nulls(
    stages: StagingTables, piece: MergePiece, stage: Stage, key: dict[str, str | None] | None = None
) -> None:
    """Raise Conflict for a staged NULL that the server would replace by a value of its own. Keys have none."""
    known, explicit = stages.known.of(piece.table.target), stages.connection.explicit_timestamps
    values = [(place, name) for place, name in enumerate(piece.values) if name not in piece.table.key]
    nulls = [f"v{place} IS NULL" for place, name in values if known.column(name).replaces_null(explicit)]
    if nulls and ask(stages.connection, f"SELECT 1 FROM {table_name(stage)} WHERE {' OR '.join(nulls)} LIMIT 1"):
        raise Conflict(piece.table.source, NO_NULL, key)


def _block(arrays: Sequence[Any]) -> int:
    """Return how many of these rows become one block; each of very wide ones does."""
    width = int(sum(array.nbytes for array in arrays)) // max(1, len(arrays[0]))
    return max(1, min(BLOCK, BLOCK_BYTES // max(1, width)))
