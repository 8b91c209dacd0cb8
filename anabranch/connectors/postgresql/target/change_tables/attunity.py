"""Attunity's tables in schema `cdc` of a PostgreSQL.

What does not live here: what stands in them (`connectors/sql/attunity.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target.begin import ONE_CREATES
from anabranch.connectors.postgresql.target.change_tables.instances import HAS_INSTANCES
from anabranch.connectors.sql.attunity import FIRST_CONFIG, FIRST_STATE, SqlAttunity
from anabranch.model.attunity import ConfigRow
from anabranch.model.endpoint import Endpoint

HAS_STATE = "SELECT to_regclass('cdc.xdbcdc_state') IS NOT NULL"
# A table of one row has an index over the same value for each of them.
TABLES = (
    """
CREATE TABLE IF NOT EXISTS cdc.xdbcdc_config (
  version bigint NOT NULL DEFAULT 1, connect_string varchar(2000) NOT NULL,
  use_windows_authentication boolean NOT NULL DEFAULT false, username varchar(128), password bytea,
  transaction_staging_timeout integer NOT NULL DEFAULT 120, memory_limit integer NOT NULL DEFAULT 50,
  options text DEFAULT '')
""",
    "CREATE UNIQUE INDEX IF NOT EXISTS xdbcdc_config_one_row ON cdc.xdbcdc_config ((true))",
    """
CREATE TABLE IF NOT EXISTS cdc.xdbcdc_state (
  status varchar(16) NOT NULL, sub_status varchar(64) NOT NULL, active boolean NOT NULL, error boolean NOT NULL,
  status_message text, "timestamp" timestamp, active_capture_node varchar(256), last_transaction_timestamp timestamp,
  last_change_timestamp timestamp, transaction_log_head_cn varchar(255), transaction_log_tail_cn varchar(255),
  current_cn varchar(255), software_version varchar(64), completed_transactions bigint NOT NULL,
  written_changes bigint NOT NULL, read_changes bigint NOT NULL, staged_transactions integer NOT NULL)
""",
    "CREATE UNIQUE INDEX IF NOT EXISTS xdbcdc_state_one_row ON cdc.xdbcdc_state ((true))",
    """
CREATE TABLE IF NOT EXISTS cdc.xdbcdc_trace (
  "timestamp" timestamp NOT NULL, type varchar(8) NOT NULL, node varchar(256) NOT NULL, status varchar(16) NOT NULL,
  sub_status varchar(64) NOT NULL, status_message text, data bytea)
""",
    'CREATE INDEX IF NOT EXISTS xdbcdc_trace_idx ON cdc.xdbcdc_trace ("timestamp")',
    """
CREATE TABLE IF NOT EXISTS cdc.xdbcdc_staged_transactions (
  transaction_id varchar(255) NOT NULL, seq_num integer NOT NULL, data_start_cn varchar(255), data_end_cn varchar(255),
  data bytea, PRIMARY KEY (transaction_id, seq_num))
""",
)


class PostgresAttunitySession:
    """`Session` of a PostgreSQL, opened when it is used, and again after it was lost."""

    now = "clock_timestamp() AT TIME ZONE 'UTC'"
    past = "clock_timestamp() AT TIME ZONE 'UTC' - make_interval(hours => %s)"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._open = endpoint, None

    _open: Connection | None

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._session().execute(sql.encode(), values).fetchall()

    def run(self, sql: str, *values: object) -> int:
        return self._session().execute(sql.encode(), values).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._session().transaction():
            yield

    def make(self, first: ConfigRow) -> bool:
        connection = self._session()
        with connection.transaction():
            connection.execute(ONE_CREATES)
            (has_instances,) = connection.execute(HAS_INSTANCES).fetchone() or (False,)
            if not has_instances:
                return False
            for statement in TABLES:
                connection.execute(statement.encode())
            if not self.ask("SELECT 1 FROM cdc.xdbcdc_config"):
                said = (first.connect_string, first.use_windows_authentication, first.username or None)
                rest = (first.transaction_staging_timeout, first.memory_limit, first.options)
                self.run(FIRST_CONFIG, *said, *rest)
            if not self.ask("SELECT 1 FROM cdc.xdbcdc_state"):
                self.run(FIRST_STATE, False, False)
        return True

    def translated(self, doing: str) -> AbstractContextManager[None]:
        return translated(doing)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    def _session(self) -> Connection:
        if self._open is None or self._open.closed:
            self._open = connect(self._endpoint, "anabranch-state attunity", autocommit=True)
        return self._open


def attunity_tables(endpoint: Endpoint) -> SqlAttunity:
    return SqlAttunity(PostgresAttunitySession(endpoint))
