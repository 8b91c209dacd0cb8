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
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn

from anabranch import pace
from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.target.known_columns import (
    ArrayForm,
    KnownColumns,
    KnownTable,
    on_key,
    own_rows,
    sets,
)
from anabranch.connectors.postgresql.target.store import TARGET
from anabranch.model.state import Checkpoint
from anabranch.rows.net import DELETE, INSERT, ChangeShape
from anabranch.rows.small import SmallTransactions

# A block is planned anew each time it is sent, about 0.5 ms for each shape, and saves about 20 us for each change.
EACH = 30
WAIT_MS = 1000
MOST_BYTES = 16 << 20  # of values: larger ones gain nothing
LONG_S = 1.0  # what takes longer is cut into more blocks: each is one statement for a limit of time
MOST, LEAST = 2000, 10  # transactions
MOST_COLUMNS = 1000  # of all shapes: a variable and a setting for each
SETTINGS = ("kinds", "ends", "sequences", "positions", "times", "epoch", "sequence")
# Names of variables are never those of columns: in statements each is written with the block's.
BLOCK = """
#variable_conflict use_column
<<anabranch_move>>
DECLARE
  v_kinds int4[] := current_setting('anabranch.kinds')::int4[];
  v_ends int4[] := current_setting('anabranch.ends')::int4[];
  v_sequences int8[] := current_setting('anabranch.sequences')::int8[];
  v_positions text[] := current_setting('anabranch.positions')::text[];
  v_times int8[] := current_setting('anabranch.times')::int8[];
  v_epoch int8 := current_setting('anabranch.epoch')::int8;
  v_sequence int8 := current_setting('anabranch.sequence')::int8;
  v_change int4 := 0;
  v_hits int8 := 0;
{variables}
BEGIN
  <<anabranch_each>>
  FOR v_number IN 1 .. cardinality(v_sequences) LOOP
    UPDATE anabranch.checkpoint AS c SET epoch = anabranch_move.v_epoch + 1,
           sequence = anabranch_move.v_sequences[anabranch_each.v_number],
           position = anabranch_move.v_positions[anabranch_each.v_number],
           commit_time = anabranch_move.v_times[anabranch_each.v_number]
     WHERE c.job = {job} AND c.target = {target} AND c.owner = {owner}
       AND c.epoch = anabranch_move.v_epoch AND c.sequence = anabranch_move.v_sequence;
    GET DIAGNOSTICS v_hits = ROW_COUNT;
    IF v_hits <> 1 THEN
      RAISE EXCEPTION 'the checkpoint is elsewhere';
    END IF;
    WHILE v_change < v_ends[v_number] LOOP
      v_change := v_change + 1;
{changes}
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
        v_at_{kind} := v_at_{kind} + 1;
        {change};
        GET DIAGNOSTICS v_hits = ROW_COUNT;
"""


class Block:
    """Blocks over one connection. Not for two threads."""

    def __init__(self, connection: Connection, known: KnownColumns, job: str, owner: str) -> None:
        self._connection, self._known = connection, known
        self._who = {"job": job, "target": TARGET, "owner": owner}
        self._used: set[str] = set()  # settings
        self._most = MOST

    def takes(self, transactions: SmallTransactions) -> bool:
        """Return whether a block is quicker than a statement for each change, and reads the values as a statement does."""
        is_small = transactions.change_count < (pace.current.block_changes or EACH) * (1 + len(transactions.changes))
        width = sum(len(one.columns) for one in transactions.changes)
        if is_small or transactions.bytes > MOST_BYTES or width > MOST_COLUMNS:
            return False
        return all(self._reads(one.shape) for one in transactions.changes)

    def _reads(self, shape: ChangeShape) -> bool:
        known = self._known.of(shape.table.target)
        return known.forms.keys() >= set(shape.columns) and not known.has_rules

    def carry_out(self, now: Checkpoint, transactions: SmallTransactions) -> str:
        """Return the SQLSTATE with which the first transaction was refused, "" if none was. No transaction is open, before and
        afterwards. Psycopg errors pass: then the connection has to be closed."""
        epoch, sequence, left = now.epoch, now.position.sequence, transactions
        some, left = self._cut(left)
        settings = self._settings(epoch, sequence, some)
        while len(some):
            begin, done = time.monotonic(), some
            refused = self._send(some, settings)
            epoch, sequence = epoch + len(some), some.sequences[-1]
            some, left = self._cut(left)
            if not refused and len(some):
                settings = self._settings(epoch, sequence, some)  # while the server is at those before
            if refused := refused or _answer(self._connection.pgconn):
                self._most = max(LEAST, len(done) // 2)  # it may have been a limit of time
                return refused
            self._adapt(time.monotonic() - begin)
        return ""

    def _cut(self, left: SmallTransactions) -> tuple[SmallTransactions, SmallTransactions]:
        return left.part(0, self._most), left.part(self._most, len(left))

    def _adapt(self, seconds: float) -> None:
        if seconds > LONG_S:
            self._most = max(LEAST, self._most // 2)
        elif seconds < LONG_S / 4:
            self._most = min(MOST, self._most * 2)

    def _send(self, transactions: SmallTransactions, settings: Mapping[str, bytes]) -> str:
        """Send a block. Returns the error of its values, if they were refused; else the answer is still to come."""
        self._used |= settings.keys()
        refused = self._set(settings)
        if not refused:
            self._connection.pgconn.send_query(self._text([one.shape for one in transactions.changes]).encode())
            self._connection.pgconn.flush()
        return refused

    def clear(self) -> None:
        """Take the values out of the session: settings go to every process that works for it."""
        if refused := self._set(dict.fromkeys(self._used, b"")):
            raise psycopg.OperationalError(f"settings of the session were refused: {refused}")

    def _set(self, settings: Mapping[str, bytes]) -> str:
        names = enumerate(settings, 1)
        query = ", ".join(f"set_config('anabranch.{name}', ${place}, false)" for place, name in names)
        self._connection.pgconn.send_query_params(f"SELECT {query}".encode(), list(settings.values()))
        return _answer(self._connection.pgconn)

    def _settings(self, epoch: int, sequence: int, transactions: SmallTransactions) -> dict[str, bytes]:
        changes = transactions.changes
        places = transactions.order()
        counts = np.bincount(np.concatenate([one.transactions for one in changes]), minlength=len(transactions))
        kinds = np.repeat(np.arange(len(changes)), [len(one) for one in changes])
        found = [
            _numbers(kinds[places].tolist()),
            _numbers(np.cumsum(counts).tolist()),
            _numbers(transactions.sequences),
            _elements(pa.array(transactions.natives), ","),
            _numbers(transactions.commit_times),
            b"%d" % epoch,
            b"%d" % sequence,
        ]
        settings = dict(zip(SETTINGS, found, strict=True))
        for kind, one in enumerate(changes):
            forms = self._known.of(one.shape.table.target).forms
            for place, (name, column) in enumerate(zip(one.shape.columns, one.columns, strict=True)):
                settings[f"v_{kind}_{place}"] = _elements(column, forms[name].delimiter)
        return settings

    # --- the block's text -------------------------------------------------------------------------------------------

    def _text(self, shapes: Sequence[ChangeShape]) -> str:
        changes, variables = "", ""
        for kind, shape in enumerate(shapes):
            known = self._known.of(shape.table.target)
            change = CHANGE.format(kind=kind, change=_statement(kind, shape, known).as_string(self._connection))
            changes += f"      WHEN {kind} THEN{change}" if len(shapes) > 1 else change
            variables += f"  v_at_{kind} int4 := 0;\n"
            for place, name in enumerate(shape.columns):
                variable, array = f"v_{kind}_{place}", known.forms[name].array
                variables += f"  {variable} {array} := current_setting('anabranch.{variable}')::{array};\n"
        if len(shapes) > 1:
            changes = f"      CASE v_kinds[v_change]\n{changes}\n      END CASE;"
        who = {name: sql.Literal(value).as_string(self._connection) for name, value in self._who.items()}
        block = sql.Literal(BLOCK.format(changes=changes, variables=variables, **who))
        return f"DO LANGUAGE plpgsql {block.as_string(self._connection)}"


def _statement(kind: int, shape: ChangeShape, known: KnownTable) -> sql.Composed:
    values = [
        sql.Composed(
            [sql.SQL(f"anabranch_move.v_{kind}_{place}[anabranch_move.v_at_{kind}]{_cast(known.forms[name])}")]
        )
        for place, name in enumerate(shape.columns)
    ]
    same = _same(shape, known)
    if shape.operation == INSERT:
        query = sql.SQL("INSERT INTO {} AS t ({}) OVERRIDING SYSTEM VALUE SELECT {} WHERE {}")
        listed = sql.SQL(", ").join(values)
        return query.format(table_name(shape.table.target), column_list(shape.sets), listed, same)
    own, where = own_rows(shape, known), on_key(shape, values)
    if shape.operation == DELETE:
        return sql.SQL("DELETE FROM {} WHERE {} AND {}").format(own, where, same)
    return sql.SQL("UPDATE {} SET {} WHERE {} AND {}").format(own, sets(shape, values), where, same)


def _cast(form: ArrayForm) -> str:
    return f"::{form.cast}" if form.cast else ""


def _same(shape: ChangeShape, known: KnownTable) -> sql.Composed:
    """Return SQL that fails unless the columns still have the types of the values; ALTER TABLE makes the server plan it
    anew.

    An array of the values' type compares with one of the column only if both have one type; else the statement is
    refused. It compares with NULL, so the planner knows the answer and nothing is left to do for a row.
    """
    conditions = []
    for name in dict.fromkeys(shape.columns):
        form, table, column = known.forms[name], table_name(shape.table.target), sql.Identifier(name)
        query = "pg_typeof((NULL::{}).{}) = {}::regtype" if form.cast else "({} = ARRAY[(NULL::{}).{}]) IS NULL"
        if form.cast:
            conditions.append(sql.SQL(query).format(table, column, sql.Literal(form.cast)))
        else:
            conditions.append(sql.SQL(query).format(sql.SQL("NULL::{}").format(sql.SQL(form.array)), table, column))
    return sql.SQL(" AND ").join(conditions)


# --- values and answers --------------------------------------------------------------------------------------------------


def _numbers(numbers: Iterable[int]) -> bytes:
    return f"{{{','.join(map(str, numbers))}}}".encode()


def _elements(column: pa.Array, delimiter: str) -> bytes:
    """Return the values as an array in text form."""
    text = column.cast(pa.large_string())
    for special in ("\\", '"'):
        text = pc.replace_substring(text, special, "\\" + special)
    mark, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
    quoted = pc.fill_null(pc.binary_join_element_wise(mark, text, mark, nothing), "NULL")
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(quoted)], pa.int64()), quoted)
    return b"{%s}" % pc.binary_join(whole, pa.scalar(delimiter, pa.large_string()))[0].as_buffer().to_pybytes()


def _answer(pgconn: PGconn) -> str:
    """Wait until the server has carried out what was sent: the SQLSTATE of its error, "" where there was none."""
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
