"""Definitions of a PostgreSQL that is the source: a handful of queries, whatever the number of tables.

https://www.postgresql.org/docs/current/catalogs.html
What does not live here: which types we know (native_types.py), what a target has (catalog.py).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from anabranch.abc import HeldLog
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.native_types import logical_type
from anabranch.connectors.postgresql.positions import Place
from anabranch.connectors.postgresql.slots import held
from anabranch.connectors.postgresql.source_connection import identity, log_end, open_session
from anabranch.connectors.postgresql.source_errors import translated
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema

ROOTS = 130_000  # from here on rows of partitions may come as rows of their root
TREES = 120_000  # pg_partition_tree
GENERATED = 120_000  # https://www.postgresql.org/docs/12/ddl-generated-columns.html
UNLOGGED = "unlogged"  # in TableSchema.engine
COMPUTED = "computed: the target computes it, too"
STILL = 1.0  # seconds after which a commit that waits for no standby is through
ACTIONS = {"a": Action.RESTRICT, "r": Action.RESTRICT}
ACTIONS |= {"c": Action.CASCADE, "n": Action.SET_NULL, "d": Action.SET_DEFAULT}

# Tables of the server's, of extensions, of ours and of single sessions are none of ours.
_TABLES = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relpersistence::text,
       coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), '')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r'{roots}) AND c.relpersistence <> 't' {leaves}
   AND n.nspname NOT IN ('information_schema', 'anabranch') AND n.nspname !~ '^pg_'
   AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                    WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
"""
_COLUMNS = """
SELECT a.attrelid::bigint, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_catalog.pg_get_expr(d.adbin, d.adrelid), a.attidentity::text, {generated},
       coalesce(pg_catalog.col_description(a.attrelid, a.attnum), ''),
       pg_catalog.pg_get_serial_sequence(pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname),
                                         a.attname)
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_INDEXES = """
SELECT x.indrelid::bigint, i.relname::text, x.indisprimary, x.indisunique, m.amname::text,
       x.indpred IS NOT NULL OR 0 = ANY(x.indkey::int2[]),
       ARRAY(SELECT a.attname::text FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k (number, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number
              WHERE k.place <= x.indnkeyatts ORDER BY k.place),
       ARRAY(SELECT o.flags & 1 = 1 FROM unnest(x.indoption::int2[]) WITH ORDINALITY AS o (flags, place)
              WHERE o.place <= x.indnkeyatts ORDER BY o.place)
  FROM pg_catalog.pg_index x
  JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
  JOIN pg_catalog.pg_am m ON m.oid = i.relam
 WHERE x.indrelid = ANY(%s::oid[]) AND x.indisvalid ORDER BY x.indrelid, i.relname
"""
_FOREIGN_KEYS = """
SELECT k.conrelid::bigint, k.conname::text, n.nspname::text, p.relname::text, k.confdeltype::text, k.confupdtype::text,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS u (number, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number ORDER BY u.place),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS u (number, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number ORDER BY u.place)
  FROM pg_catalog.pg_constraint k
  JOIN pg_catalog.pg_class p ON p.oid = k.confrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = p.relnamespace
 WHERE k.contype = 'f' AND k.conparentid = 0 AND k.conrelid = ANY(%s::oid[]) ORDER BY k.conrelid, k.conname
"""
# Each holds its own id until others see what it did; a snapshot does not name the newest.
# https://www.postgresql.org/docs/current/view-pg-locks.html
_IN_PROGRESS = b"""
SELECT transactionid::text FROM pg_catalog.pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
"""
# `attached`: it was a table before. Of one that was made as a partition both rows are of one transaction.
# https://www.postgresql.org/docs/current/catalog-pg-inherits.html
_PARTITIONS = """
SELECT r.oid::bigint, t.relid::regclass::text, i.xmin <> a.xmin
  FROM pg_catalog.pg_class r CROSS JOIN LATERAL pg_catalog.pg_partition_tree(r.oid) AS t
  JOIN pg_catalog.pg_inherits i ON i.inhrelid = t.relid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = t.relid AND a.attname = 'ctid'
 WHERE r.oid = ANY(%s::oid[]) AND r.relkind = 'p' ORDER BY t.relid
"""
# Who waits for a standby has committed and is not seen. Others see that only with the right to.
# https://www.postgresql.org/docs/current/monitoring-stats.html#WAIT-EVENT-IPC-TABLE
_WAITING = b"""
SELECT coalesce(array_agg(backend_xid::text) FILTER (WHERE wait_event = 'SyncRep'), '{}'),
       pg_catalog.current_setting('synchronous_standby_names') = '' OR pg_has_role('pg_read_all_stats', 'USAGE')
  FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL
"""
_Rows = Mapping[int, list[Any]]


class PostgresCatalog:
    """SourceCatalog. What is read is what was there between two moments: the engine compares marks (K19)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._connection = open_session(endpoint)
        self.attached = set[str]()  # partitions that were tables before, of what was read
        self._open: dict[str, tuple[frozenset[str], float]] = {}  # what `unseen` asked about first, and when

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        version = self._connection.info.server_version
        roots = version >= ROOTS
        query = _TABLES.format(roots=", 'p'" * roots, leaves="AND NOT c.relispartition" * roots)
        with translated("read the tables of the source"):
            rows = self._connection.execute(query.encode()).fetchall()
            chosen = {oid: row for oid, *row in rows if wanted(TableId(row[0], row[1]))}
            generated = "a.attgenerated::text" if version >= GENERATED else "''"
            columns = self._by_table(_COLUMNS.format(generated=generated), chosen)
            indexes, keys = self._by_table(_INDEXES, chosen), self._by_table(_FOREIGN_KEYS, chosen)
            partitions = self._by_table(_PARTITIONS, chosen) if version >= TREES else defaultdict(list)
        self.attached |= {name for rows in partitions.values() for name, is_attached in rows if is_attached}
        found = (_schema(row, columns[oid], indexes[oid], keys[oid], partitions[oid]) for oid, row in chosen.items())
        return {schema.id: schema for schema in found}

    def _by_table(self, query: str, chosen: Mapping[int, Any]) -> _Rows:
        found: dict[int, list[Any]] = defaultdict(list)
        for oid, *row in self._connection.execute(query.encode(), [list(chosen)]).fetchall():
            found[oid].append(row)
        return found

    def mark(self) -> LogMark:
        with translated("read the position of the source's log"):
            return mark(self._connection)

    def logs_whole_rows(self) -> bool:
        """What is large and was not changed is not in the log."""
        return False

    def log_sizes(self) -> Mapping[str, int]:
        return {}

    def logs_cascades(self) -> bool:
        return True

    def prepared(self) -> frozenset[str] | None:
        """The log has rows where they are committed."""
        return frozenset()

    def held(self, name: str) -> HeldLog | None:
        with translated("look at the slot"):
            return held(self._connection, name)

    def in_progress(self) -> frozenset[str]:
        with translated("read the transactions of the source"):
            return self._in_progress()

    def _in_progress(self) -> frozenset[str]:
        return frozenset(xid for (xid,) in self._connection.execute(_IN_PROGRESS).fetchall())

    def unseen(self, before: LogMark) -> frozenset[str]:
        """Transactions that were in progress at the first look, still are, and may have their commit in the log already: it
        is logged before it is seen, and waits for standbys in between (synchronous replication)."""
        with translated("read the transactions of the source"):
            now = self._in_progress()
            first, since = self._open.setdefault(before.resume, (now, time.monotonic()))
            left = first & now
            if not left or time.monotonic() - since < STILL:
                return left
            waiting, is_all = self._connection.execute(_WAITING).fetchall()[0]
            return left & frozenset(waiting) if is_all else left

    def close(self) -> None:
        self._connection.close()


def mark(connection: Connection) -> LogMark:
    return Place(identity(connection), log_end(connection)).mark()


def _schema(row: Any, columns: list[Any], indexes: list[Any], keys: list[Any], partitions: list[Any]) -> TableSchema:
    schema, name, persistence, comment = row
    primary = [index for index in indexes if index[1]]
    plain = [index for index in indexes if not index[1] and not index[4]]
    return TableSchema(
        TableId(schema, name),
        tuple(map(_column, columns)),
        tuple(primary[0][5]) if primary else (),
        tuple(Index(i[0], tuple(i[5]), i[2], (None,) * len(i[5]), i[3], tuple(i[6])) for i in plain),
        tuple(_foreign_key(key) for key in keys),
        engine=UNLOGGED if persistence == "u" else "",
        comment=comment,
        partitions=tuple(name for name, _ in partitions),
    )


def _column(row: Any) -> Column:
    name, native, not_null, expression, identity_kind, generated, comment, sequence = row
    counts = bool(identity_kind) or bool(sequence and expression and expression.startswith("nextval("))
    has_default = expression is not None and not generated and not counts
    return Column(
        name,
        None if generated else logical_type(native),
        native,
        nullable=not not_null,
        has_default=has_default,
        default=expression if has_default else None,
        default_is_expression=has_default,
        generated=bool(generated),
        expression=expression or "" if generated else "",
        auto_increment=counts,
        comment=comment,
        refusal=COMPUTED if generated else "",
    )


def _foreign_key(row: Any) -> ForeignKey:
    name, schema, parent, on_delete, on_update, columns, parent_columns = row
    return ForeignKey(
        name, tuple(columns), TableId(schema, parent), tuple(parent_columns), ACTIONS[on_delete], ACTIONS[on_update]
    )
