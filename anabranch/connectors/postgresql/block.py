"""Many source transactions in one statement: a DO block, which the server runs and which commits each by itself.

The block's text depends on the shapes of the changes alone; values, and to which transaction each belongs, go ahead of it into
settings of the session. A prepared statement for each change and for each move of the checkpoint costs the server twice the
time: most of it is messages, and looking at a statement before it is carried out.

As in a pipeline each transaction begins with the compare-and-set of the checkpoint, and what hits another number of rows than
one, or columns of other types than those that were known, raises an error: its transaction is undone, those before it are
committed, none behind it is begun (K9).

What does not live here: whether a block is worth its while (`one_by_one.py`), a statement for each (`pipelined.py`).
https://www.postgresql.org/docs/current/plpgsql-transactions.html
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Sequence

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.known_columns import Known, KnownColumns, on_key, own_rows, sets
from anabranch.connectors.postgresql.store import TARGET
from anabranch.model.state import Checkpoint
from anabranch.rows.net import ChangeShape
from anabranch.rows.small import SmallChanges, SmallTransactions

# A block is planned anew each time it is sent, about 0.5 ms for each shape, and saves about 20 us for each change.
EACH = 30
WAIT_MS = 1000
MOST_BYTES = 16 << 20  # of values: larger ones gain nothing
LONG_S = 1.0  # what takes longer is cut into more blocks: each is one statement for a limit of time
MOST, LEAST = 2000, 10  # transactions
SETTINGS = ("rows", "kinds", "ends", "sequences", "positions", "times", "epoch", "sequence")
SET = ", ".join(f"set_config('anabranch.{name}', ${place}, false)" for place, name in enumerate(SETTINGS, 1))
CLEAR = "; ".join(f"RESET anabranch.{name}" for name in SETTINGS)
# Names of variables are never those of columns: each is written with the block's.
BLOCK = """
#variable_conflict use_column
<<anabranch_move>>
DECLARE
  v_rows text[] := current_setting('anabranch.rows')::text[];
  v_kinds int4[] := current_setting('anabranch.kinds')::int4[];
  v_ends int4[] := current_setting('anabranch.ends')::int4[];
  v_sequences int8[] := current_setting('anabranch.sequences')::int8[];
  v_positions text[] := current_setting('anabranch.positions')::text[];
  v_times int8[] := current_setting('anabranch.times')::int8[];
  v_epoch int8 := current_setting('anabranch.epoch')::int8;
  v_sequence int8 := current_setting('anabranch.sequence')::int8;
  v_last int4 := cardinality(v_sequences);
  v_number int4 := 0;
  v_change int4 := 0;
  v_at int4 := 0;
  v_hits int8 := 0;
BEGIN
  WHILE v_number < v_last LOOP
    v_number := v_number + 1;
    UPDATE anabranch.checkpoint AS c SET epoch = anabranch_move.v_epoch + 1,
           sequence = anabranch_move.v_sequences[anabranch_move.v_number],
           position = anabranch_move.v_positions[anabranch_move.v_number],
           commit_time = anabranch_move.v_times[anabranch_move.v_number]
     WHERE c.job = {job} AND c.target = {target} AND c.owner = {owner}
       AND c.epoch = anabranch_move.v_epoch AND c.sequence = anabranch_move.v_sequence;
    GET DIAGNOSTICS v_hits = ROW_COUNT;
    IF v_hits <> 1 THEN
      RAISE EXCEPTION 'the checkpoint is elsewhere';
    END IF;
    WHILE v_change < v_ends[v_number] LOOP
      v_change := v_change + 1;
      CASE v_kinds[v_change]
{changes}
      END CASE;
      IF v_hits <> 1 THEN
        RAISE EXCEPTION 'a row is not as it has to be';
      END IF;
    END LOOP;
    COMMIT;
    v_epoch := v_epoch + 1;
    v_sequence := v_sequences[v_number];
  END LOOP;
END
"""
CHANGE = """
      WHEN {kind} THEN
        {change};
        GET DIAGNOSTICS v_hits = ROW_COUNT;
        v_at := v_at + {width};
"""


class Block:
    """Blocks over one connection. Not for two threads."""

    def __init__(self, connection: Connection, known: KnownColumns, job: str, owner: str) -> None:
        self._connection, self._known = connection, known
        self._who = {"job": job, "target": TARGET, "owner": owner}
        self._texts: dict[ChangeShape, str] = {}
        self._most = MOST

    def takes(self, transactions: SmallTransactions) -> bool:
        """Is a block quicker than a statement for each, and would it read the values as a statement reads them?"""
        if transactions.change_count < EACH * (1 + len(transactions.changes)) or transactions.bytes > MOST_BYTES:
            return False
        return all(self._reads(one.shape) for one in transactions.changes)

    def _reads(self, shape: ChangeShape) -> bool:
        known = self._known.of(shape.table.target)
        return known.casts.keys() >= set(shape.columns) and not known.has_rules

    def carry_out(self, now: Checkpoint, transactions: SmallTransactions) -> str:
        """The SQLSTATE with which the first transaction was refused, "" if none was. No transaction is open, before and
        afterwards. Psycopg errors pass: then the connection has to be closed."""
        epoch, sequence, first = now.epoch, now.position.sequence, 0
        while first < len(transactions):
            some = transactions.part(first, first + self._most)
            begin = time.monotonic()
            if refused := self._send(epoch, sequence, some):
                self._texts.clear()
                self._most = max(LEAST, self._most // 2)  # it may have been a limit of time
                return refused
            self._adapt(time.monotonic() - begin)
            epoch, sequence, first = epoch + len(some), some.positions[-1].sequence, first + len(some)
        return ""

    def _adapt(self, seconds: float) -> None:
        if seconds > LONG_S:
            self._most = max(LEAST, self._most // 2)
        elif seconds < LONG_S / 4:
            self._most = min(MOST, self._most * 2)

    def _send(self, epoch: int, sequence: int, transactions: SmallTransactions) -> str:
        pgconn = self._connection.pgconn
        places = transactions.order()
        counts = np.bincount(
            np.concatenate([one.transactions for one in transactions.changes]), minlength=len(transactions)
        )
        kinds = np.repeat(np.arange(len(transactions.changes)), [len(one) for one in transactions.changes])
        rows = pa.concat_arrays([_rows(one) for one in transactions.changes]).take(pa.array(places))
        values = [
            _array(rows.to_pylist()),
            _array(kinds[places].tolist()),
            _array(np.cumsum(counts).tolist()),
            _array(at.sequence for at in transactions.positions),
            _array(_quoted(pa.array([at.native for at in transactions.positions])).to_pylist()),
            _array(transactions.commit_times),
            b"%d" % epoch,
            b"%d" % sequence,
        ]
        pgconn.send_query_params(f"SELECT {SET}".encode(), values)
        if refused := _answer(pgconn):
            return refused
        pgconn.send_query(self._text([one.shape for one in transactions.changes]).encode())
        return _answer(pgconn)

    # --- the block's text -------------------------------------------------------------------------------------------

    def _text(self, shapes: Sequence[ChangeShape]) -> str:
        changes = "".join(
            CHANGE.format(kind=kind, change=self._change(shape), width=len(shape.columns))
            for kind, shape in enumerate(shapes)
        )
        who = {name: sql.Literal(value).as_string(self._connection) for name, value in self._who.items()}
        block = sql.Literal(BLOCK.format(changes=changes, **who))
        return f"DO LANGUAGE plpgsql {block.as_string(self._connection)}"

    def _change(self, shape: ChangeShape) -> str:
        if shape not in self._texts:
            known = self._known.of(shape.table.target)
            self._texts[shape] = _statement(shape, known).as_string(self._connection)
        return self._texts[shape]


def _statement(shape: ChangeShape, known: Known) -> sql.Composed:
    values = [
        sql.SQL("anabranch_move.v_rows[anabranch_move.v_at + {}]::{}").format(
            sql.Literal(place), sql.SQL(known.casts[name])
        )
        for place, name in enumerate(shape.columns, 1)
    ]
    same = _same(shape, known)
    if shape.operation == "insert":
        query = sql.SQL("INSERT INTO {} AS t ({}) OVERRIDING SYSTEM VALUE SELECT {} WHERE {}")
        listed = sql.SQL(", ").join(values)
        return query.format(table_name(shape.table.target), column_list(shape.sets), listed, same)
    own, where = own_rows(shape, known), on_key(shape, values)
    if shape.operation == "delete":
        return sql.SQL("DELETE FROM {} WHERE {} AND {}").format(own, where, same)
    return sql.SQL("UPDATE {} SET {} WHERE {} AND {}").format(own, sets(shape, values), where, same)


def _same(shape: ChangeShape, known: Known) -> sql.Composed:
    """Do the columns have the types, and the types the names, that they had? It does not depend on a row: asked once before
    there is any, again whenever the table was altered, as the statement is planned anew then."""
    query = "pg_typeof((NULL::{table}).{column}) = {type}::regtype AND {name}::regtype = {type}::regtype"
    return sql.SQL(" AND ").join(
        sql.SQL(query).format(
            table=table_name(shape.table.target),
            column=sql.Identifier(name),
            type=sql.Literal(str(known.types[name])),
            name=sql.Literal(known.casts[name]),
        )
        for name in dict.fromkeys(shape.columns)
    )


# --- values and answers --------------------------------------------------------------------------------------------------


def _rows(one: SmallChanges) -> pa.Array:
    """Of each row its values as elements of an array in text form."""
    cells = [_quoted(column) for column in one.columns]
    return pc.binary_join_element_wise(*cells, _large(","), null_handling="replace", null_replacement="NULL")


def _quoted(column: pa.Array) -> pa.Array:
    text = column.cast(pa.large_string())
    for special in ("\\", '"'):
        text = pc.replace_substring(text, special, "\\" + special)
    return pc.binary_join_element_wise(_large('"'), text, _large('"'), _large(""))


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _array(elements: Iterable[object]) -> bytes:
    return f"{{{','.join(map(str, elements))}}}".encode()


def _answer(pgconn: PGconn) -> str:
    """Waits until the server has carried out what was sent: the SQLSTATE of its error, "" where there was none."""
    refused, poll = "", select.poll()
    while True:
        is_sending = pgconn.flush() == 1
        if not is_sending and not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                break
            if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
                refused = (result.error_field(DiagnosticField.SQLSTATE) or b"XX000").decode()
            continue
        poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if is_sending else 0))
        found = poll.poll(WAIT_MS)
        if any(events & ~select.POLLOUT for _, events in found):
            pgconn.consume_input()
    if pgconn.status != ConnStatus.OK:
        raise psycopg.OperationalError("the connection is lost")
    return refused
