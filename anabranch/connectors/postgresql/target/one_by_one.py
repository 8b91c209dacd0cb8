"""Many source transactions over one connection, each committed by itself: in blocks, or as a pipeline of statements.

Commits do not wait for the disk; the epoch that is committed behind them does, and with it all before (decision 114).
"""

from __future__ import annotations

import time

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.target.do_block import Block
from anabranch.connectors.postgresql.target.known_columns import KnownColumns
from anabranch.connectors.postgresql.target.pipelined import Pipeline, run
from anabranch.connectors.postgresql.target.store import READ_CHECKPOINT, TARGET
from anabranch.model.state import Checkpoint
from anabranch.rows.small import SmallTransactions

# https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT
ASYNC, SYNC = b"SET synchronous_commit = off", b"RESET synchronous_commit"
# Blocks themselves are not possible: no right to the language, a commit where none may be.
# https://www.postgresql.org/docs/current/errcodes-appendix.html
NOT_HERE = ("0A", "2D", "42")
AGAIN_S = 60.0  # a table that was altered says the same


class OneByOne:
    """The state of one connection: known columns and prepared statements. Not for two threads."""

    def __init__(self, connection: Connection, job: str, owner: str) -> None:
        self._connection, self._job = connection, job
        self._known = KnownColumns(connection)
        self._block = Block(connection, self._known, job, owner)
        self._pipeline = Pipeline(connection, self._known, job, owner)
        self._blocks_from = 0.0

    def carry_out(self, now: Checkpoint, transactions: SmallTransactions) -> None:
        """Carry out transactions one by one. The checkpoint row says afterwards how far it came.

        The connection is idle, before and afterwards. Psycopg errors pass: then it has to be closed.
        """
        pgconn = self._connection.pgconn
        run(pgconn, ASYNC)
        if not self._in_blocks(now, transactions) and psycopg.Pipeline.is_supported():  # a libpq from 14 on
            self._pipeline.carry_out(now, transactions)
        run(pgconn, SYNC)

    def _in_blocks(self, now: Checkpoint, transactions: SmallTransactions) -> bool:
        """Carry them out in blocks where that is quicker. Returns whether the checkpoint has moved."""
        if time.monotonic() < self._blocks_from or not self._block.takes(transactions):
            return False
        refused = self._block.carry_out(now, transactions)
        self._block.clear()
        if not refused:
            return True
        self._known.forget()
        row = self._connection.execute(READ_CHECKPOINT, [self._job, TARGET]).fetchone()
        self._connection.commit()
        has_moved = row is not None and row[1] != now.epoch
        if not has_moved and refused.startswith(NOT_HERE):
            self._blocks_from = time.monotonic() + AGAIN_S
        return has_moved
