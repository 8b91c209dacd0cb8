"""Asks a PostgreSQL that is the source about itself and its log, and about its tables (definitions.py).

What does not live here: what it keeps for a job (held_log.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.lookout import who_has
from anabranch.connectors.postgresql.registered import may_read, writers
from anabranch.connectors.postgresql.source.connection import identity, log_end, open_session
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.held_log import held
from anabranch.connectors.postgresql.source.options import USUAL, PostgresSourceOptions
from anabranch.connectors.postgresql.source.positions import Place, lsn_of
from anabranch.connectors.postgresql.source.seen import is_seen
from anabranch.connectors.postgresql.source.statement_notes import is_set_up, read_note, tells_defaults
from anabranch.errors import ConfigError
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.connectors.postgresql.source.added_columns import SeenFile
    from anabranch.connectors.postgresql.source.definitions import Attached
    from anabranch.model.column_changes import Altered
    from anabranch.model.endpoint import Endpoint
    from anabranch.model.pair_notes import PairNotes, StandingRow
    from anabranch.model.position import HeldLog, LogMark
    from anabranch.model.schema import TableSchema
    from anabranch.model.writers import SourceWriter
    from anabranch.rows.log_items import LogRedefined

FORESEEN = "columns that come (with a constant default), go, or get another name, type, default or NULL are, in one ALTER TABLE"
NONE_SEEN: Mapping[int, SeenFile] = {}
STILL = 1.0  # seconds after which a commit that waits for no standby is through
# Each holds its own id until others see what it did; a snapshot does not name the newest. Of this database alone.
# https://www.postgresql.org/docs/current/view-pg-locks.html
_IN_PROGRESS = b"""
SELECT l.transactionid::text FROM pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = l.transactionid
 WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
   AND coalesce(a.datname, p.database, pg_catalog.current_database()) = pg_catalog.current_database()
"""
# Who waits for a standby has committed and is not seen. Others see that only with the right to.
# https://www.postgresql.org/docs/current/monitoring-stats.html#WAIT-EVENT-IPC-TABLE
_WAITING = b"""
SELECT coalesce(array_agg(backend_xid::text) FILTER (WHERE wait_event = 'SyncRep' AND backend_xid IS NOT NULL), '{}')
         || CASE WHEN bool_or(wait_event = 'SyncRep')
                 THEN ARRAY(SELECT transaction::text FROM pg_catalog.pg_prepared_xacts) ELSE '{}' END,
       pg_catalog.current_setting('synchronous_standby_names') = '' OR pg_has_role('pg_read_all_stats', 'USAGE')
         AS is_all, pg_catalog.pg_current_wal_flush_lsn()::text
  FROM pg_catalog.pg_stat_activity
"""
# Everybody may read these, whatever rights he has to the tables. Tables of extensions are there as well.
_PRESENT = """
SELECT n.nspname::text, c.relname::text, rn.nspname::text, r.relname::text
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_class r ON {root}
  LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
 WHERE c.relkind IN ('r', 'p')
   AND (n.nspname::text, c.relname::text) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""
CLOCK = "SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint"
_ROOT = "c.relispartition AND r.oid = pg_catalog.pg_partition_root(c.oid)"  # with which its rows come


class PostgresCatalog:
    """SourceCatalog. What is read is what was there between two moments: the engine compares marks (K19)."""

    def __init__(
        self,
        endpoint: Endpoint,
        options: PostgresSourceOptions = USUAL,
        files: Mapping[int, SeenFile] = NONE_SEEN,
    ) -> None:
        self._files = files
        self._much = options.held_log_warning_mb << 20
        self._connection = open_session(endpoint)
        self.attached: Attached | None = None  # of the tables that were read last
        self._flushed: dict[str, float] = {}  # since when the log before such a mark is seen to be on disk
        self._open: dict[str, tuple[frozenset[str], float]] = {}  # what `unseen` asked about first, and when

    @property
    def log(self) -> PostgresCatalog:
        return self

    @property
    def transactions(self) -> PostgresCatalog:
        return self

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        from anabranch.connectors.postgresql.source.definitions import Definitions

        definitions = Definitions(self._connection)
        found = definitions.tables(wanted, whole)
        self.attached = definitions.attached
        return found

    def behind(self, then: TableSchema, item: LogRedefined) -> Altered | str | None:
        """Return what RedefinedCatalog.behind returns. Whoever altered the table before the item's transaction wrote rows to it
        had released it by then, and was seen: so who sees that transaction sees the statement."""
        from anabranch.connectors.postgresql.source import added_columns, redefined_columns

        with translated("read what became of a table's columns"):
            if item.xid and not self._is_seen(int(item.xid)):
                return None
            before = added_columns.attributes(self._connection, then.oid)
        now = self.tables(then.id.__eq__).get(then.id)
        with translated("read what became of a table's columns"):
            after = added_columns.attributes(self._connection, then.oid)
        if now is None or before != after:  # it is being altered
            return None
        seen = self._files.get(then.oid)
        if item.note is not None and (note := read_note(item.note.text)) is not None:
            return redefined_columns.behind_note(then, note, now, after, seen, item.note.ends_nulls)
        return redefined_columns.behind(then, item.columns, now, after, seen)

    def named(self, sql: str) -> tuple[TableId, str] | None:
        from anabranch.connectors.postgresql.source.foreseen_clauses import shown, table_of

        table = table_of(sql)
        return None if table is None else (table, shown(sql))

    def foreseen(self, sql: str, then: TableSchema) -> Altered | str | None:
        from anabranch.connectors.postgresql.source.foreseen import foreseen
        from anabranch.connectors.postgresql.source.foreseen_clauses import Unread

        with translated("ask whether the source notes its statements"):
            is_noted = is_set_up(self._connection)
            has_defaults = is_noted and tells_defaults(self._connection)
        try:
            return foreseen(sql, then, is_noted, has_defaults)
        except Unread as what:
            raise ConfigError(f"what becomes of this statement is not foreseen: {what}", hint=FORESEEN) from None

    def _is_seen(self, xid: int) -> bool:
        """Return whether a transaction that is in the log is seen: it is a moment later, or once its standbys have it."""
        return is_seen(self._connection, xid)

    def names(self) -> dict[TableId, str]:
        from anabranch.connectors.postgresql.source.definitions import Definitions

        return Definitions(self._connection).names()

    def gone(self, tables: Collection[TableId]) -> dict[TableId, str]:
        from anabranch.connectors.postgresql.source.definitions import ROOTS

        asked = [[table.schema for table in tables], [table.name for table in tables]]
        query = _PRESENT.format(root=_ROOT if self._connection.info.server_version >= ROOTS else "false")
        with translated("look which tables the source has no more"):
            rows = self._connection.execute(query.encode(), asked).fetchall()
        there = {
            TableId(schema, name): f"a partition of {of[0]}.{of[1]}" if of[0] else "" for schema, name, *of in rows
        }
        return {table: there.get(table, "") for table in tables if table not in there or there[table]}

    def writers(self) -> list[SourceWriter]:
        with translated("ask who writes to tables of the source"):
            return writers(self._connection)

    def sees_writers(self) -> bool:
        with translated("ask who may see the jobs that write to tables of the source"):
            return may_read(self._connection) is not False

    def pair_notes(self, job: str, limit: int = 0, after: str = "") -> PairNotes:
        from anabranch.connectors.postgresql.pair_notes import read_at_source  # few jobs are of a pair

        with translated("read notes of deletes"):
            return read_at_source(self._connection, job, limit, after)

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        from anabranch.connectors.postgresql.pair_notes import standing_at_source  # few jobs are of a pair

        with translated("read notes of rows that stay"):
            return standing_at_source(self._connection, job, limit, after)

    def mark(self) -> LogMark:
        with translated("read the position of the source's log"):
            return mark(self._connection)

    def clock(self) -> int:
        with translated("read the source's clock"):
            return int(str(one(self._connection, CLOCK)))

    def logs_whole_rows(self) -> bool:
        """Return False: large values that were not changed are not in the log."""
        return False

    def log_sizes(self) -> Mapping[str, int]:
        return {}

    def logs_cascades(self) -> bool:
        return True

    def prepared(self) -> frozenset[str] | None:
        """Return none: the log has a transaction's rows where it is committed."""
        return frozenset()

    def held(self, name: str) -> HeldLog | None:
        with translated("look at the slot"):
            return held(self._connection, name, self._much)

    def in_progress(self) -> frozenset[str]:
        with translated("read the transactions of the source"):
            return self._in_progress()

    def who_has(self, transactions: Collection[str]) -> list[str]:
        with translated("ask who has the transactions of the source"):
            return list(map(str, who_has(self._connection, transactions)))

    def _in_progress(self) -> frozenset[str]:
        return frozenset(xid for (xid,) in self._connection.execute(_IN_PROGRESS).fetchall())

    def unseen(self, before: LogMark) -> frozenset[str]:
        """Return transactions that were in progress at the first look, still are, and may have their commit in the log
        already: it is logged before it is seen, and waits for standbys in between (synchronous replication).
        """
        with translated("read the transactions of the source"):
            now = self._in_progress()
            first, since = self._open.setdefault(before.resume, (now, time.monotonic()))
            left = first & now
            if not left or time.monotonic() - since < STILL:
                return left
            waiting, is_all, flushed = self._connection.execute(_WAITING).fetchall()[0]
            if before.resume not in self._flushed:  # a disk that is slow holds commits up as a standby does
                if lsn_of(flushed) >= lsn_of(before.native):
                    self._flushed[before.resume] = time.monotonic()
                return left
            is_through = time.monotonic() - self._flushed[before.resume] >= STILL
            return left & frozenset(waiting) if is_all and is_through else left

    def close(self) -> None:
        self._connection.close()


def mark(connection: Connection) -> LogMark:
    return Place(identity(connection), log_end(connection)).mark()
