"""Attunity's tables in database `cdc` of a MySQL or MariaDB.

What does not live here: what stands in them (`connectors/sql/attunity.py`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from anabranch.connectors.mysql.target.begin import one_begins
from anabranch.connectors.mysql.target.change_tables.instances import has_instances, options_of
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, ask, connect, logged, run, transaction
from anabranch.connectors.sql.attunity import FIRST_CONFIG, FIRST_STATE, SqlAttunity
from anabranch.model.attunity import ConfigRow
from anabranch.model.endpoint import Endpoint

HAS_STATE = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'cdc' AND LOWER(TABLE_NAME) = 'xdbcdc_state'"
# A table of one row has a key that has one value. Releases without columns that nobody sees show it.
ONE_ROW = "one_row ENUM('1') NOT NULL DEFAULT '1'{hidden}, PRIMARY KEY (one_row)"
TABLES = {
    "xdbcdc_config": f"""
  version BIGINT NOT NULL DEFAULT 1, connect_string VARCHAR(2000) NOT NULL,
  use_windows_authentication TINYINT(1) NOT NULL DEFAULT 0, username VARCHAR(128) NULL, password LONGBLOB NULL,
  transaction_staging_timeout INT NOT NULL DEFAULT 120, memory_limit INT NOT NULL DEFAULT 50, options LONGTEXT NULL,
  {ONE_ROW}""",
    "xdbcdc_state": f"""
  status VARCHAR(16) NOT NULL, sub_status VARCHAR(64) NOT NULL, active TINYINT(1) NOT NULL, error TINYINT(1) NOT NULL,
  status_message LONGTEXT NULL, timestamp DATETIME(6) NULL, active_capture_node VARCHAR(256) NULL,
  last_transaction_timestamp DATETIME(6) NULL, last_change_timestamp DATETIME(6) NULL,
  transaction_log_head_cn VARCHAR(255) NULL, transaction_log_tail_cn VARCHAR(255) NULL, current_cn VARCHAR(255) NULL,
  software_version VARCHAR(64) NULL, completed_transactions BIGINT NOT NULL, written_changes BIGINT NOT NULL,
  read_changes BIGINT NOT NULL, staged_transactions INT NOT NULL, {ONE_ROW}""",
    "xdbcdc_trace": """
  timestamp DATETIME(6) NOT NULL, type VARCHAR(8) NOT NULL, node VARCHAR(256) NOT NULL, status VARCHAR(16) NOT NULL,
  sub_status VARCHAR(64) NOT NULL, status_message LONGTEXT NULL, data LONGBLOB NULL,
  id BIGINT NOT NULL AUTO_INCREMENT{hidden}, PRIMARY KEY (id), KEY xdbcdc_trace_idx (timestamp)""",
    "xdbcdc_staged_transactions": """
  transaction_id VARCHAR(255) CHARACTER SET ascii NOT NULL, seq_num INT NOT NULL, data_start_cn VARCHAR(255) NULL,
  data_end_cn VARCHAR(255) NULL, data LONGBLOB NULL, PRIMARY KEY (transaction_id, seq_num)""",
}


class MysqlAttunitySession:
    """`Session` of a MySQL or MariaDB, opened when it is used, and again after it was lost."""

    now = "UTC_TIMESTAMP(6)"
    past = "UTC_TIMESTAMP(6) - INTERVAL %s HOUR"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._open = endpoint, None

    _open: Connection | None

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return ask(self._session(), sql, *values)

    def run(self, sql: str, *values: object) -> int:
        return run(self._session(), sql, *values)

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self._session())

    def make(self, first: ConfigRow) -> bool:
        connection = self._session()
        with one_begins(connection), logged(connection):
            if not has_instances(connection):
                return False
            release = Release.of(connection)
            hidden = " INVISIBLE" if release.has("invisible columns") else ""
            for name, columns in TABLES.items():
                made = columns.replace("{hidden}", hidden)
                run(connection, f"CREATE TABLE IF NOT EXISTS cdc.{name} ({made}){options_of(release)}")
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
        if self._open is not None and self._open.open:
            self._open.close()
        self._open = None

    def _session(self) -> Connection:
        if self._open is None or not self._open.open:
            self._open = connect(self._endpoint, "anabranch-state attunity", autocommit=True)
        return self._open


def attunity_tables(endpoint: Endpoint) -> SqlAttunity:
    return SqlAttunity(MysqlAttunitySession(endpoint))
