"""Sessions beside the writer's own that carry out source transactions at once and commit them in turn (`[apply] appliers`).

All have the name of their owner, so whoever claims the job ends them with the writer's. Their commits do not wait for the
disk; the epoch behind them does, and with it all before (decision 114). What does not live here: whose turn it is
(`apply/appliers.py`), the statements (`pipelined.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import psycopg
from psycopg.pq import TransactionStatus

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target.known_columns import KnownColumns
from anabranch.connectors.postgresql.target.pipelined import Pipeline, run
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import ChangeShape
from anabranch.rows.small import Values

# A later transaction that waits for its turn may have what an earlier one waits for: the earlier one gives up (K22).
# https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-LOCK-TIMEOUT
SETTINGS = b"SET synchronous_commit = off; SET lock_timeout = '500ms'"
PLANS_S, NEW_PLANS = 10.0, b"DISCARD PLANS"
# Triggers and rules may read what other transactions have written, which no lock tells.
# https://www.postgresql.org/docs/current/catalog-pg-trigger.html
REACTS = """
WITH RECURSIVE family (oid) AS (
  SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS name
  UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN family ON inhparent = family.oid)
SELECT EXISTS (SELECT FROM family JOIN pg_catalog.pg_trigger ON tgrelid = family.oid
                WHERE NOT tgisinternal AND tgenabled::text = ANY (%s))
    OR EXISTS (SELECT FROM family f JOIN pg_catalog.pg_class c ON c.oid = f.oid WHERE c.relhasrules)
"""
FIRES, FIRES_AS_REPLICA = ["O", "A"], ["R", "A"]


class PostgresApplier:
    """An `ApplierSession` of an owner. Not for two threads.

    Delivery: a transaction and the checkpoint behind it, or the note of its place, commit together or not at all."""

    def __init__(self, connect: Callable[[], Connection], job: str, owner: str, number: int) -> None:
        self._connect, self._job, self._owner, self._mark = connect, job, owner, f"{owner}.{number}"
        self._open: Connection | None = None
        self._planned = 0.0

    def ready(self) -> None:
        """Connect, if that has to be, and undo what is open. Plans are made anew now and then, as the writer does."""
        if self._open is None or self._open.closed or self._open.pgconn.status != psycopg.pq.ConnStatus.OK:
            self.close()
            connection = self._connect()
            with translated("open a session of an applier"):
                connection.autocommit = True
                run(connection.pgconn, SETTINGS)
            self._open = connection
            self._pipeline = Pipeline(connection, KnownColumns(connection), self._job, self._owner)
        self.rollback()
        if (now := time.monotonic()) - self._planned >= PLANS_S:
            self._planned = now
            with translated("make plans anew"):
                run(self._connection.pgconn, NEW_PLANS)

    @property
    def _connection(self) -> Connection:
        assert self._open is not None
        return self._open

    def carry_out(self, changes: Sequence[tuple[ChangeShape, Values]]) -> bool:
        with translated("carry out a transaction"):
            if self._pipeline.begin(changes, self._mark):
                return True
        self.rollback()
        with translated("forget statements"):
            self._pipeline.forget()
        return False

    def commit(self, now: Checkpoint, then: Checkpoint) -> bool:
        with translated("commit a transaction"):
            return self._pipeline.end(now, then)

    def commit_ahead(self, now: Checkpoint, at: Position) -> bool:
        with translated("commit a transaction"):
            return self._pipeline.end_ahead(now, at)

    def rollback(self) -> None:
        if self._open is None or self._open.pgconn.transaction_status == TransactionStatus.IDLE:
            return
        with translated("undo a transaction"):
            run(self._open.pgconn, b"ROLLBACK")

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None


def reacts(connection: Connection, tables: Sequence[TableId], is_off: bool) -> bool:
    """Return whether triggers or rules of the tables do anything on what we write; `is_off`: in the session only those fire
    that fire for a replica, too."""
    names = [table_name(table).as_string(connection) for table in tables]
    row = connection.execute(REACTS, [names, FIRES_AS_REPLICA if is_off else FIRES]).fetchone()
    return row is not None and bool(row[0])
