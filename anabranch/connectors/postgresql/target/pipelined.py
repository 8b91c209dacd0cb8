"""Many source transactions over one connection without waiting for each: libpq's pipeline mode, spoken directly.

Each is what stands between two Syncs, which the server carries out as one transaction: first the compare-and-set of the
checkpoint, then its row changes, each a prepared statement. A statement that hits another number of rows than one, or
columns of other types than it was prepared for, divides by zero: its transaction is undone, and none behind it finds the
checkpoint where it has to be. So what has been committed is always a beginning of what was sent, and the checkpoint row
says which (K9).

Parameters have the types that the columns had when their table was looked at (`pg_attribute`), each statement compares them
with those the columns have now: `pg_typeof` of a column is what the plan says, and an altered table has all its plans made
anew. No lock has to be held between two of the transactions for that (decision 113).

What does not live here: many in one statement (`do_block.py`), whose turn it is, what an error means (`apply.py`): a
transaction that is refused is done again alone. https://www.postgresql.org/docs/current/libpq-pipeline-mode.html
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.target.known_columns import KnownColumns, KnownTable, on_key, own_rows, sets
from anabranch.connectors.postgresql.target.store import TARGET
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import DELETE, INSERT, ChangeShape
from anabranch.rows.small import SmallTransactions, Values

WINDOW = 500  # transactions that are sent and not answered
BATCH = 20  # sent between two looks at what was answered
WAIT_MS = 1000
MOST_PREPARED = 1000  # statements that a session of the server keeps for us
# Whoever shares the connection gives all statements up where it rolls back (psycopg: DEALLOCATE ALL).
NAMES = b"SELECT name FROM pg_prepared_statements WHERE name LIKE 'anabranch%'"
# https://www.postgresql.org/docs/current/catalog-pg-type.html
INT8, TEXT = 20, 25
MOVE = b"anabranch_move"
MOVE_TYPES = (INT8, INT8, TEXT, INT8, INT8)
MOVE_SQL = """
WITH moved AS (
  UPDATE anabranch.checkpoint SET epoch = $1 + 1, sequence = $2, position = $3, commit_time = $4
   WHERE job = {job} AND target = {target} AND owner = {owner} AND epoch = $1 AND sequence = $5 RETURNING 1)
SELECT 1 / count(*) FROM moved
"""
# Readers of the log know by the first change of a transaction which job has written it (model/markers.py).
MARK, UNMARK = b"anabranch_mark", b"anabranch_unmark"
MARK_SQL = "INSERT INTO anabranch.checkpoint (job, target, sequence, position) VALUES ({job}, $1, 0, '')"
UNMARK_SQL = "DELETE FROM anabranch.checkpoint WHERE job = {job} AND target = $1"
# The share lock waits for whoever moves or claims the checkpoint, and they for it.
# https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS
NOTE = b"anabranch_note"
NOTE_TYPES = (INT8, TEXT, INT8, INT8)
NOTE_SQL = """
WITH here AS (
  SELECT job, target FROM anabranch.checkpoint
   WHERE job = {job} AND target = {target} AND owner = {owner} AND epoch = $3 AND sequence = $4 FOR SHARE),
noted AS (INSERT INTO anabranch.applied (job, target, sequence, position) SELECT job, target, $1, $2 FROM here RETURNING 1)
SELECT 1 / count(*) FROM noted
"""
CHANGE_SQL = """
WITH changed AS ({change} RETURNING {same} AS same)
SELECT 1 / (count(*) = 1 AND bool_and(same))::int FROM changed
"""


class NotPrepared(Exception):
    """The server refuses a statement before anything was sent."""


class Pipeline:
    """The statements that one connection has prepared, and the pipeline over it. Not for two threads."""

    def __init__(self, connection: Connection, known: KnownColumns, job: str, owner: str) -> None:
        self._connection, self._known, self._job, self._owner = connection, known, job, owner
        self._names: dict[ChangeShape, bytes] = {}
        self._has_move = self._has_mark = self._has_note = False
        self._number = 0

    def carry_out(self, now: Checkpoint, transactions: SmallTransactions) -> None:
        """Carry out transactions in a pipeline. The checkpoint row says afterwards how far it came.

        The connection is idle, before and afterwards. Psycopg errors pass: then it has to be closed.
        """
        shapes = {id(one.shape): one.shape for one in transactions.changes}
        pgconn = self._connection.pgconn
        self._keep(run(pgconn, NAMES))
        if len(self._names) > MOST_PREPARED:
            self.forget()
        try:
            names = {at: self._prepared(shape) for at, shape in shapes.items()}
        except NotPrepared:
            is_well = False
        else:
            is_well = _in_pipeline(pgconn, _sent(pgconn, now, transactions, names))
        if not is_well:
            self.forget()

    # --- one transaction, in two parts --------------------------------------------------------------------------------

    def begin(self, changes: Sequence[tuple[ChangeShape, Values]], mark: str) -> bool:
        """Open a transaction and carry out the changes of one source transaction, behind a row of this name in the job's
        checkpoints that comes and goes. Returns False where one is refused; then it is for the caller to roll back, and to
        forget statements.

        The connection commits by itself, and has nothing open. Psycopg errors pass: then it has to be closed."""
        if len(self._names) > MOST_PREPARED:
            self.forget()
        try:
            names = [self._prepared(shape) for shape, _ in changes]
            self._prepare_mark()
        except NotPrepared:
            return False

        def sent() -> Iterator[int]:
            pgconn.send_query_params(b"BEGIN", None)
            for name in (MARK, UNMARK):
                pgconn.send_query_prepared(name, [mark.encode()])
            for name, (_, values) in zip(names, changes, strict=True):
                pgconn.send_query_prepared(name, values)
            pgconn.pipeline_sync()
            yield 1

        pgconn = self._connection.pgconn
        return _in_pipeline(pgconn, sent())

    def end(self, now: Checkpoint, then: Checkpoint) -> bool:
        """Move the checkpoint in the open transaction, and commit it. Returns False where the checkpoint is elsewhere, or the
        commit is refused; then it is for the caller to roll back."""
        place = [b"%d" % now.epoch, b"%d" % then.position.sequence, then.position.native.encode()]
        place += [b"%d" % then.commit_time, b"%d" % now.position.sequence]

        def sent() -> Iterator[int]:
            pgconn.send_query_prepared(MOVE, place)
            pgconn.send_query_params(b"COMMIT", None)
            pgconn.pipeline_sync()
            yield 1

        pgconn = self._connection.pgconn
        return _in_pipeline(pgconn, sent())

    def end_ahead(self, now: Checkpoint, at: Position) -> bool:
        """Note in the open transaction that it is applied beyond the checkpoint, which is at `now`, and commit it. Returns
        False as `end`."""

        def sent() -> Iterator[int]:
            native, there = at.native.encode(), (now.epoch, now.position.sequence)
            pgconn.send_query_prepared(NOTE, [b"%d" % at.sequence, native, *(b"%d" % one for one in there)])
            pgconn.send_query_params(b"COMMIT", None)
            pgconn.pipeline_sync()
            yield 1

        try:
            self._prepare_note()
        except NotPrepared:
            return False
        pgconn = self._connection.pgconn
        return _in_pipeline(pgconn, sent())

    def _keep(self, found: PGresult) -> None:
        """Keep those statements that the server still has."""
        there = {found.get_value(row, 0) for row in range(found.ntuples)}
        self._has_move = MOVE in there
        self._names = {shape: name for shape, name in self._names.items() if name in there}

    # --- statements -------------------------------------------------------------------------------------------------

    def _prepared(self, shape: ChangeShape) -> bytes:
        if not self._has_move:
            self._prepare(MOVE, self._of_owner(MOVE_SQL), MOVE_TYPES)
            self._has_move = True
        if shape not in self._names:
            known = self._known.of(shape.table.target)
            if not known.types.keys() >= set(shape.columns):
                raise NotPrepared
            self._number += 1
            name = f"anabranch_{self._number}".encode()
            self._prepare(name, _statement(shape, known), [known.types[column] for column in shape.columns])
            self._names[shape] = name
        return self._names[shape]

    def _of_owner(self, text: LiteralString) -> sql.Composed:
        parts = {"job": self._job, "target": TARGET, "owner": self._owner}
        return sql.SQL(text).format(**{name: sql.Literal(value) for name, value in parts.items()})

    def _prepare_note(self) -> None:
        if not self._has_note:
            self._prepare(NOTE, self._of_owner(NOTE_SQL), NOTE_TYPES)
            self._has_note = True

    def _prepare_mark(self) -> None:
        if not self._has_mark:
            for name, text in ((MARK, MARK_SQL), (UNMARK, UNMARK_SQL)):
                self._prepare(name, sql.SQL(text).format(job=sql.Literal(self._job)), [TEXT])
            self._has_mark = True

    def _prepare(self, name: bytes, query: sql.Composed, types: Sequence[int]) -> None:
        result = self._connection.pgconn.prepare(name, query.as_bytes(self._connection), types)
        if result.status != ExecStatus.COMMAND_OK:
            raise NotPrepared

    def forget(self) -> None:
        """Forget prepared statements: something was refused, perhaps because a table has other columns by now."""
        if self._names:
            run(self._connection.pgconn, b"; ".join(b"DEALLOCATE " + name for name in self._names.values()))
        self._names.clear()
        self._known.forget()


def _statement(shape: ChangeShape, known: KnownTable) -> sql.Composed:
    places = [sql.Composed([sql.SQL(f"${number}")]) for number in range(1, len(shape.columns) + 1)]
    own = own_rows(shape, known)
    if shape.operation == INSERT:
        query = sql.SQL("INSERT INTO {} AS t ({}) OVERRIDING SYSTEM VALUE VALUES ({})")
        listed = sql.SQL(", ").join(places)
        change = query.format(table_name(shape.table.target), column_list(shape.sets), listed)
    elif shape.operation == DELETE:
        change = sql.SQL("DELETE FROM {} WHERE {}").format(own, on_key(shape, places))
    else:
        change = sql.SQL("UPDATE {} SET {} WHERE {}").format(own, sets(shape, places), on_key(shape, places))
    same = sql.SQL(" AND ").join(
        sql.SQL("pg_typeof({}) = {}::regtype").format(sql.Identifier("t", name), sql.Literal(str(known.types[name])))
        for name in dict.fromkeys(shape.columns)
    )
    return sql.SQL(CHANGE_SQL).format(change=change, same=same)


# --- the line -----------------------------------------------------------------------------------------------------------


def _sent(pgconn: PGconn, now: Checkpoint, transactions: SmallTransactions, names: dict[int, bytes]) -> Iterator[int]:
    """Send some transactions each time; how many."""
    epoch, sequence = now.epoch, now.position.sequence
    send, sync = pgconn.send_query_prepared, pgconn.pipeline_sync
    for first in range(0, len(transactions), BATCH):
        some = transactions.part(first, first + BATCH)
        heads = zip(some.sequences, some.natives, some.commit_times, strict=True)
        for (at, native, commit_time), changes in zip(heads, some.each(), strict=True):
            place = [b"%d" % epoch, b"%d" % at, native.encode(), b"%d" % commit_time, b"%d" % sequence]
            send(MOVE, place)
            for shape, values in changes:
                send(names[id(shape)], values)
            sync()
            epoch, sequence = epoch + 1, at
        yield len(some)


def _in_pipeline(pgconn: PGconn, sent: Iterator[int]) -> bool:
    """Send all in pipeline mode. Was every answer a yes?"""
    pgconn.enter_pipeline_mode()
    is_well = _talk(pgconn, sent)
    pgconn.exit_pipeline_mode()
    return is_well


def _talk(pgconn: PGconn, sent: Iterator[int]) -> bool:
    """Send all and read all answers, in turns, so that neither side waits for the other with full buffers. Was every one a
    yes? Nothing more is sent behind a no."""
    poll = select.poll()
    waiting, is_well, has_more = 0, True, True
    while has_more or waiting:
        if has_more and waiting < WINDOW:
            some = next(sent, 0) if is_well else 0
            has_more, waiting = some > 0, waiting + some
        is_sending = pgconn.flush() == 1
        may_send = has_more and is_well and not is_sending and waiting < WINDOW
        poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if is_sending else 0))
        found = poll.poll(0 if may_send or not waiting else WAIT_MS)
        if any(events & ~select.POLLOUT for _, events in found):
            pgconn.consume_input()
            answered, no_error = _answers(pgconn, waiting)
            waiting, is_well = waiting - answered, is_well and no_error
        elif found == [] and pgconn.status != psycopg.pq.ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")
    return is_well


def _answers(pgconn: PGconn, most: int) -> tuple[int, bool]:
    """Return how many transactions are answered by what has been read, and whether all answers were a yes."""
    answered, is_well, was_end = 0, True, False
    while answered < most and not pgconn.is_busy():
        result = pgconn.get_result()
        if result is None:
            if was_end:
                break
            was_end = True
            continue
        was_end = False
        if result.status == ExecStatus.PIPELINE_SYNC:
            answered += 1
        elif result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            is_well = False
    return answered, is_well


def run(pgconn: PGconn, statement: bytes) -> PGresult:
    """Run one statement, or several without an answer. Raises psycopg.OperationalError."""
    result = pgconn.exec_(statement)
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        raise psycopg.OperationalError(f"{statement.decode()} was refused")
    return result
