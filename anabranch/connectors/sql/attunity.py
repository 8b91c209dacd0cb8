"""Attunity's tables beside change tables, whatever SQL database has them: statements, and what an epoch counts.

The row of the state has two writers: an epoch adds what it has written as the last of its statements, and the service says the
rest in one statement that commits by itself. So neither waits for the other for longer than a commit takes.
https://learn.microsoft.com/sql/integration-services/change-data-capture/working-with-the-oracle-cdc-service
What does not live here: making the tables (a database's `target/change_tables/attunity.py`), when what is said
(`job/attunity.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np

from anabranch.connectors.sql.change_tables import utc
from anabranch.model.attunity import DATAERROR, TRACE, ConfigRow, KnownState, StagedRow, StateRow, TraceRow
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.chunk import Op

NODE, PLACE = 256, 255  # characters of the columns
CONFIG = """
SELECT connect_string, username, transaction_staging_timeout, memory_limit, COALESCE(options, ''), version,
       use_windows_authentication, password IS NOT NULL FROM cdc.xdbcdc_config
"""
INSTANCES = "SELECT capture_instance FROM cdc.change_tables WHERE end_lsn IS NULL ORDER BY capture_instance"
COUNT = """
UPDATE cdc.xdbcdc_config SET version = version + 1
 WHERE version = %s AND connect_string = %s AND COALESCE(username, '') = %s AND transaction_staging_timeout = %s
   AND memory_limit = %s AND COALESCE(options, '') = %s
"""
FIRST_CONFIG = """
INSERT INTO cdc.xdbcdc_config (version, connect_string, use_windows_authentication, username, password,
                               transaction_staging_timeout, memory_limit, options)
VALUES (1, %s, %s, %s, NULL, %s, %s, %s)
"""
FIRST_STATE = """
INSERT INTO cdc.xdbcdc_state (status, sub_status, active, error, completed_transactions, written_changes, read_changes,
                              staged_transactions)
VALUES ('STOPPED', '', %s, %s, 0, 0, 0, 0)
"""
STATE = "SELECT status, active, timestamp, completed_transactions, written_changes FROM cdc.xdbcdc_state"
NEWEST = """
SELECT status, sub_status FROM cdc.xdbcdc_trace WHERE status <> %s AND type <> %s ORDER BY timestamp DESC LIMIT 1
"""
NEWEST_VALUE = "SELECT status_message FROM cdc.xdbcdc_trace WHERE status = %s ORDER BY timestamp DESC LIMIT 1"
SAVE = """
UPDATE cdc.xdbcdc_state
   SET status = %s, sub_status = %s, active = %s, error = %s, status_message = %s, timestamp = {now}, active_capture_node = %s,
       last_change_timestamp = COALESCE(%s, last_change_timestamp),
       transaction_log_head_cn = COALESCE(%s, transaction_log_head_cn),
       transaction_log_tail_cn = COALESCE(%s, transaction_log_tail_cn), current_cn = COALESCE(%s, current_cn),
       software_version = %s, read_changes = %s, staged_transactions = %s
"""
# By the epoch that has written them, in its transaction.
WRITTEN = """
UPDATE cdc.xdbcdc_state SET completed_transactions = completed_transactions + %s, written_changes = written_changes + %s,
                            last_transaction_timestamp = COALESCE(%s, last_transaction_timestamp)
"""
NOTE = """
INSERT INTO cdc.xdbcdc_trace (timestamp, type, node, status, sub_status, status_message, data)
VALUES ({now}, %s, %s, %s, %s, %s, %s)
"""
OLD = "DELETE FROM cdc.xdbcdc_trace WHERE timestamp < {past}"
UNSTAGE = "DELETE FROM cdc.xdbcdc_staged_transactions"
STAGE = """
INSERT INTO cdc.xdbcdc_staged_transactions (transaction_id, seq_num, data_start_cn, data_end_cn, data)
VALUES (%s, %s, %s, %s, NULL)
"""


@dataclass
class EpochCount:
    """Counts what one epoch writes: `transactions`, `changes` (an update is one, in however many instances it is), and the
    `latest` time of a commit. A large transaction comes in several batches and counts once."""

    transactions: int = 0
    changes: int = 0
    latest: datetime | None = None
    _last: int = -1

    def add(self, batch: ChangeBatch) -> None:
        new = [one for one in batch.transactions if one.sequence > self._last]
        self.changes += sum(int(np.count_nonzero(one.op != int(Op.BEFORE))) for one in batch.tables)
        if new:
            self.transactions, self._last = self.transactions + len(new), new[-1].sequence
            times = [utc(one.commit_time) for one in new]
            self.latest = max(times if self.latest is None else [*times, self.latest])

    @property
    def values(self) -> tuple[int, int, datetime | None]:
        """Return the values of WRITTEN."""
        return self.transactions, self.changes, self.latest


class Session(Protocol):
    """A session that commits each statement by itself, but for those of a transaction. Statements have `%s` for values.
    `now`: the time in UTC as an expression, `past`: that of so many hours ago."""

    now: str
    past: str

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]: ...

    def run(self, sql: str, *values: object) -> int:
        """Carry out a statement, and return how many rows it has found."""

    def transaction(self) -> AbstractContextManager[None]: ...

    def make(self, first: ConfigRow) -> bool:
        """Make what is missing of the tables, as AttunityTables.prepare says."""

    def translated(self, doing: str) -> AbstractContextManager[None]:
        """Turn the driver's errors into ours."""

    def close(self) -> None: ...


class SqlAttunity:
    """`AttunityTables` by SQL."""

    def __init__(self, session: Session) -> None:
        self._at = session

    def prepare(self, first: ConfigRow) -> bool:
        with self._at.translated("make Attunity's tables"):
            return self._at.make(first)

    def config(self) -> list[ConfigRow]:
        with self._at.translated("read cdc.xdbcdc_config"):
            names = tuple(str(name) for (name,) in self._at.ask(INSTANCES))
            rows = self._at.ask(CONFIG)
        return [
            ConfigRow(str(to), str(user or ""), int(timeout), int(limit), str(said), int(version), bool(os), bool(has), names)
            for to, user, timeout, limit, said, version, os, has in rows
        ]  # fmt: skip

    def count(self, seen: ConfigRow) -> bool:
        said = (seen.version, seen.connect_string, seen.username, seen.transaction_staging_timeout, seen.memory_limit)
        with self._at.translated("count a version of cdc.xdbcdc_config"):
            return self._at.run(COUNT, *said, seen.options) == 1

    def known(self) -> KnownState:
        with self._at.translated("read cdc.xdbcdc_state"):
            row = next(iter(self._at.ask(STATE)), ("STOPPED", False, None, 0, 0))
            traced = next(iter(self._at.ask(NEWEST, DATAERROR, TRACE)), None)
            value = next(iter(self._at.ask(NEWEST_VALUE, DATAERROR)), None)
        status, active, timestamp, transactions, changes = row
        newest = (str(traced[0]), str(traced[1])) if traced else None
        return KnownState(
            str(status), bool(active), timestamp, int(transactions), int(changes), newest, str(value[0]) if value else None
        )  # fmt: skip

    def save(self, state: StateRow) -> None:
        said, places = state.condition, state.places
        with self._at.translated("write cdc.xdbcdc_state"):
            self._at.run(
                SAVE.format(now=self._at.now),
                *(said.status, said.sub_status, said.active, said.error, said.status_message),
                state.node[:NODE],
                state.last_change,
                *(place and place[:PLACE] for place in (places.head, places.tail, places.current)),
                *(state.software_version, state.read_changes, state.staged_transactions),
            )

    def stage(self, rows: Sequence[StagedRow]) -> None:
        with self._at.translated("write cdc.xdbcdc_staged_transactions"), self._at.transaction():
            self._at.run(UNSTAGE)
            for row in rows:
                places = (place[:PLACE] for place in (row.start, row.end))
                self._at.run(STAGE, row.transaction_id[:PLACE], row.seq_num, *places)

    def note(self, node: str, rows: Sequence[TraceRow], keep_hours: int) -> None:
        with self._at.translated("write cdc.xdbcdc_trace"):
            if rows:
                with self._at.transaction():
                    for row in rows:
                        said = (row.status, row.sub_status, row.status_message, row.data)
                        self._at.run(NOTE.format(now=self._at.now), row.type, node[:NODE], *said)
            self._at.run(OLD.format(past=self._at.past), keep_hours)

    def close(self) -> None:
        self._at.close()
