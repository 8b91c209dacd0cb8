"""Is this server ready to be the job's source? What fails says what mends it. The checks of tables live here.

Nothing is changed: to see whether the log can be read a connection is opened, and for a decoder that is no part of the
server a slot, which ends with its session.
What does not live here: the server (preflight_server.py), rights (rights.py), the target (preflight.py), what setup
does (slots.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.quoting import qualified
from anabranch.connectors.postgresql.registered import may_read, may_see_jobs
from anabranch.connectors.postgresql.row_security import hidden
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.definitions import STORED, UNLOGGED
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.postgresql.source.large_objects import check_large_objects
from anabranch.connectors.postgresql.source.options import USUAL, PostgresSourceOptions
from anabranch.connectors.postgresql.source.preflight_decoder import ALLOWED, check_decoder
from anabranch.connectors.postgresql.source.preflight_facts import Live, Setting, some, warning
from anabranch.connectors.postgresql.source.preflight_failover import check_failover
from anabranch.connectors.postgresql.source.preflight_objects import objects
from anabranch.connectors.postgresql.source.preflight_publication import check_publication
from anabranch.connectors.postgresql.source.preflight_server import (
    SETTINGS,
    check_connections,
    check_encoding,
    check_idle_slots,
    check_kept_log,
    check_log_connection,
    check_primary,
    check_sender_timeout,
    check_slots,
    check_version,
    check_wal_level,
)
from anabranch.connectors.postgresql.source.rights import check_rights, rights
from anabranch.connectors.postgresql.source.slots import REFUSES_COMPUTED
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

WHOLE_ROWS = "target.form"  # the engine says so of a target that keeps changes: it needs each row before it is changed
NOT_WHOLE = "its log has only the key of rows that go or change, and change tables need whole ones"
# Partitions, over all levels, whose rows are not whole in the log: each has an identity of its own.
_PARTS_IN_PART = """
WITH RECURSIVE below (oid) AS (
  SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhparent
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s AND c.relkind = 'p'
  UNION ALL SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN below b ON b.oid = i.inhparent)
SELECT c.oid::regclass::text FROM below b JOIN pg_catalog.pg_class c ON c.oid = b.oid
 WHERE c.relkind = 'r' AND c.relreplident <> 'f' ORDER BY 1"""
GIVEN = "capture.given"  # the engine's list of keys of [capture] that stand in the job file
OF_OPEN_TRANSACTIONS = ("memory_limit_mb", "transaction_staging_timeout_s")
# https://www.postgresql.org/docs/current/view-pg-settings.html
_SETTINGS = """
SELECT name::text, setting::text, pending_restart, coalesce(unit, '') FROM pg_catalog.pg_settings WHERE name = ANY(%s)
"""


class PostgresSourceChecks:
    """The checks of one source, over one connection."""

    def __init__(self, endpoint: Endpoint, options: PostgresSourceOptions = USUAL) -> None:
        self._endpoint, self._options = endpoint, options
        self._connection: Connection | None = None

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Run all checks. Raises SourceUnavailable, or SourceError when the server refuses us."""
        if self._connection is None:
            self._connection = open_session(self._endpoint)
        with translated("check the source"):
            rows = self._connection.execute(_SETTINGS, [[*SETTINGS, ALLOWED]]).fetchall()
            settings = {name: Setting(*facts) for name, *facts in rows}
            user = str(one(self._connection, "SELECT current_user"))
            live = Live(self._connection, settings, context, self._endpoint, user, self._options)
            found = rights(self._connection, context.tables)
            first = [*check_row_security(live), *check_rights(live, found)]
            filtered = {result.table for result in first}
            seen = {table: context.tables[table] for table in found.there if str(table) not in filtered}
            live = replace(live, context=replace(context, tables=seen))  # no check can read the others
            return first + [result for check in CHECKS for result in check(live)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def check_registered(live: Live) -> Iterator[CheckResult]:
    """Check that the user may read what jobs write here: else a job's own targets look like tables of the source, and
    loops go unnoticed.
    """
    if may_read(live.connection) is False:
        grant = "; ".join(may_see_jobs(live.user))
        message = "jobs write to this database, and the user may not read to which tables: loops are not noticed"
        yield warning("registered", message, grant)


def check_unused(live: Live) -> Iterator[CheckResult]:
    """Name keys of the job file that do nothing here: whoever wrote them expects something of them."""
    given = live.context.user_choices.get(GIVEN, "").split(", ")
    for key in () if live.options.streaming else OF_OPEN_TRANSACTIONS:
        if key in given:
            why = f"[capture] {key} has no effect: without streaming = true the source keeps open transactions"
            yield warning("settings", why, "take it out of the job file")


def check_plugin(live: Live) -> Iterator[CheckResult]:
    yield from check_decoder(live)


def check_published(live: Live) -> Iterator[CheckResult]:
    yield from check_publication(live.connection, live.context)


def check_row_security(live: Live) -> Iterator[CheckResult]:
    """Check for policies that hide rows: the log has all rows, load and verify would see only those that policies show."""
    for found in hidden(live.connection, live.context.tables):
        table = str(found.table) if found.table in live.context.tables else ""
        yield CheckResult("source.row_security", CheckVerdict.FAILED, found.message, found.mending, table)


def check_unlogged(live: Live) -> Iterator[CheckResult]:
    for table, schema in sorted(live.context.tables.items(), key=str):
        if schema.engine == UNLOGGED:
            hint = f"ALTER TABLE {qualified(table)} SET LOGGED, or leave it out ([[rules]] exclude)"
            yield CheckResult(
                "source.unlogged", CheckVerdict.FAILED, "an unlogged table: no log has its rows", hint, str(table)
            )
        for part in schema.partitions:
            if not part.is_logged:
                hint = f"ALTER TABLE {part.name} SET LOGGED, or DETACH it"
                why = f"its partition {part.name} is unlogged: no log has its rows"
                yield CheckResult("source.unlogged", CheckVerdict.FAILED, why, hint, str(table))


def check_identity(live: Live) -> Iterator[CheckResult]:
    """Check the replica identities.

    https://www.postgresql.org/docs/current/logical-replication-publication.html#LOGICAL-REPLICATION-PUBLICATION-REPLICA-IDENTITY
    """
    query = """
        SELECT c.relreplident::text, EXISTS (
                 SELECT FROM pg_catalog.pg_index k WHERE k.indrelid = c.oid AND k.indisprimary AND NOT k.indimmediate),
               coalesce(
                 (SELECT array_agg(a.attname::text) FROM pg_catalog.pg_index x
                    JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = ANY(x.indkey::int2[])
                   WHERE x.indrelid = c.oid AND x.indisreplident), '{}')
          FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = %s AND c.relname = %s"""
    needs_whole = bool(live.context.user_choices.get(WHOLE_ROWS))
    for table, schema in sorted(live.context.tables.items(), key=str):
        kind, is_late, columns = live.connection.execute(query, [table.schema, table.name]).fetchall()[0]
        place = f"ALTER TABLE {qualified(table)} REPLICA IDENTITY"
        if needs_whole and schema.primary_key and kind != "f":
            yield CheckResult("source.replica_identity", CheckVerdict.FAILED, NOT_WHOLE, f"{place} FULL", str(table))
        elif needs_whole and (parts := live.connection.execute(_PARTS_IN_PART, [table.schema, table.name]).fetchall()):
            hint = "; ".join(f"ALTER TABLE {part} REPLICA IDENTITY FULL" for (part,) in parts)
            yield CheckResult("source.replica_identity", CheckVerdict.FAILED, NOT_WHOLE, hint, str(table))
        elif schema.primary_key and kind == "n":
            why = "its log does not tell which rows are changed (REPLICA IDENTITY NOTHING)"
            yield CheckResult("source.replica_identity", CheckVerdict.FAILED, why, f"{place} DEFAULT", str(table))
        elif schema.primary_key and kind == "d" and is_late:
            why = "its primary key is DEFERRABLE: the server refuses UPDATE and DELETE of such a table once it is published"
            yield CheckResult("source.replica_identity", CheckVerdict.FAILED, why, f"{place} FULL", str(table))
        elif schema.primary_key and kind == "i" and not set(schema.primary_key) <= set(columns):
            why = f"its log names changed rows by {', '.join(columns)}, not by the primary key"
            yield CheckResult(
                "source.replica_identity", CheckVerdict.FAILED, why, f"{place} DEFAULT, or FULL", str(table)
            )
        elif not schema.primary_key and kind == "i":
            why = "it has no primary key, and its log names changed rows by an index"
            yield CheckResult("source.replica_identity", CheckVerdict.FAILED, why, f"{place} FULL", str(table))
        elif not schema.primary_key and kind != "f":
            why = "no primary key: setup gives it REPLICA IDENTITY FULL, which makes its changes larger in the log"
            yield CheckResult("source.replica_identity", CheckVerdict.WARNING, why, f"{place} FULL", str(table))


def check_partition_truncate(live: Live) -> Iterator[CheckResult]:
    for table, schema in sorted(live.context.tables.items(), key=str):
        if schema.partitions:
            why = (
                "a partitioned table: a TRUNCATE of one of its partitions alone is not in the log (partitions that go with"
                " rows, and tables that are attached with rows, are noticed, and park it unless [ddl] partitions follows)"
            )
            yield CheckResult(
                "source.partition_truncate",
                CheckVerdict.WARNING,
                why,
                "DELETE, or TRUNCATE the whole table",
                str(table),
            )


def check_inheritance(live: Live) -> Iterator[CheckResult]:
    """Check for inheritance: each table gets the rows that the log calls its own."""
    parents = [str(table) for table in live.context.tables]
    query = """
        SELECT pn.nspname::text, p.relname::text, array_agg(cn.nspname || '.' || c.relname ORDER BY cn.nspname, c.relname)
          FROM pg_catalog.pg_inherits i
          JOIN pg_catalog.pg_class p ON p.oid = i.inhparent AND p.relkind = 'r'
          JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
          JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
         WHERE pn.nspname || '.' || p.relname = ANY(%s) GROUP BY 1, 2 ORDER BY 1, 2"""
    for schema, name, children in live.connection.execute(query, [parents]).fetchall():
        without = [child for child in children if child not in parents]
        why = (
            f"{some(children)} inherit from it: each table gets its own rows (ONLY), and inherits nothing at the target"
        )
        why += f"; the rules leave out {some(without)}" * bool(without)
        hint = "include the children, and read them together by a view of UNION ALL where the application needs it"
        yield CheckResult("source.inheritance", CheckVerdict.WARNING, why, hint, str(TableId(schema, name)))


def check_computed(live: Live) -> Iterator[CheckResult]:
    """Check for computed columns in replica identities: once the table is published, the server refuses its updates to
    everybody.

    https://www.postgresql.org/docs/18/logical-replication-gencols.html
    """
    if live.connection.info.server_version < REFUSES_COMPUTED:
        return
    query = """
        SELECT c.relreplident::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = %s AND c.relname = %s"""
    for table, schema in sorted(live.context.tables.items(), key=str):
        columns = [column.name for column in schema.columns if column.expression.endswith(STORED["v"])]
        if not columns or (schema.primary_key and one(live.connection, query, [table.schema, table.name]) != "f"):
            continue
        why = (
            "the server refuses UPDATE and DELETE of a published table whose REPLICA IDENTITY FULL has VIRTUAL columns"
        )
        why += f": {some(columns)}"
        hint = f"ALTER TABLE {qualified(table)} REPLICA IDENTITY DEFAULT"
        hint = hint if schema.primary_key else "give it a primary key, or leave the table out ([[rules]] exclude)"
        yield CheckResult("source.computed", CheckVerdict.FAILED, why, hint, str(table))


def check_keys(live: Live) -> Iterator[CheckResult]:
    for table, schema in sorted(live.context.tables.items(), key=str):
        if not schema.primary_key:
            why = "no primary key: a load of it that is interrupted begins anew, rows are found by all their columns"
            yield CheckResult(
                "source.keys", CheckVerdict.WARNING, why, "a primary key makes load and apply faster", str(table)
            )


def check_values(live: Live) -> Iterator[CheckResult]:
    yield from check_large_objects(live.connection, live.context, live.options.large_objects)


def check_objects(live: Live) -> Iterator[CheckResult]:
    yield from objects(live.connection, live.context.tables)


Check = Callable[[Live], Iterator[CheckResult]]
CHECKS: tuple[Check, ...] = (
    check_version,
    check_primary,
    check_registered,
    check_wal_level,
    check_connections,
    check_slots,
    check_unused,
    check_log_connection,
    check_sender_timeout,
    check_idle_slots,
    check_failover,
    check_plugin,
    check_kept_log,
    check_published,
    check_encoding,
    check_unlogged,
    check_identity,
    check_partition_truncate,
    check_inheritance,
    check_computed,
    check_keys,
    check_values,
    check_objects,
)
