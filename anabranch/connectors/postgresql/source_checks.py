"""Is this server ready to be the job's source? Reads only; what fails says what mends it.

https://www.postgresql.org/docs/current/runtime-config-replication.html
What does not live here: the target (preflight.py), what setup does (slots.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from anabranch.abc import PreflightContext
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.ddl import qualified, quote
from anabranch.connectors.postgresql.decoder_checks import ALLOWED, check_decoder
from anabranch.connectors.postgresql.large_objects import check_large_objects
from anabranch.connectors.postgresql.publication_checks import check_publication
from anabranch.connectors.postgresql.row_security import hidden
from anabranch.connectors.postgresql.slots import REFUSES_COMPUTED
from anabranch.connectors.postgresql.source_connection import one, open_session
from anabranch.connectors.postgresql.source_definitions import STORED, UNLOGGED
from anabranch.connectors.postgresql.source_errors import translated
from anabranch.connectors.postgresql.source_objects import objects
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

OLDEST, OLDEST_NAME = 110_000, "11"
KEEP = "max_slot_wal_keep_size"  # none before 13
SHOWN = 8  # names in one message
GIVEN = "capture.given"  # the engine's list of keys of [capture] that stand in the job file
OF_OPEN_TRANSACTIONS = ("memory_limit_mb", "transaction_staging_timeout_s")
_SETTINGS = (
    "wal_level",
    "max_replication_slots",
    "max_wal_senders",
    "max_slot_wal_keep_size",
    "wal_sender_timeout",
    ALLOWED,
    "server_encoding",
)


@dataclass(frozen=True)
class Live:
    """What the checks share."""

    connection: Connection
    settings: Mapping[str, str]
    context: PreflightContext


class PostgresSourceChecks:
    """The checks of one source, over one connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Raises SourceUnavailable, or SourceError when the server refuses us."""
        if self._connection is None:
            self._connection = open_session(self._endpoint)
        with translated("check the source"):
            query = "SELECT name::text, setting::text FROM pg_catalog.pg_settings WHERE name = ANY(%s)"
            rows = self._connection.execute(query, [list(_SETTINGS)]).fetchall()
            live = Live(self._connection, dict(rows), context)
            filtered = list(check_row_security(live))
            named = {result.table for result in filtered}
            seen = {table: schema for table, schema in context.tables.items() if str(table) not in named}
            live = replace(live, context=replace(context, tables=seen))  # no check can read those that are filtered
            return filtered + [result for check in CHECKS for result in check(live)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def check_version(live: Live) -> Iterator[CheckResult]:
    number = live.connection.info.server_version
    shown = str(one(live.connection, "SHOW server_version"))
    if number < OLDEST:
        yield _failed(
            "version", f"PostgreSQL {shown} has no pgoutput that we read", f"PostgreSQL {OLDEST_NAME} or later"
        )
    else:
        yield _ok("version", f"PostgreSQL {shown}")


def check_primary(live: Live) -> Iterator[CheckResult]:
    if one(live.connection, "SELECT pg_catalog.pg_is_in_recovery()"):
        yield _failed("primary", "the source is a standby", "point the job at the primary")


def check_wal_level(live: Live) -> Iterator[CheckResult]:
    level = live.settings["wal_level"]
    if level == "logical":
        yield _ok("wal_level", "wal_level = logical")
    else:
        hint = "ALTER SYSTEM SET wal_level = logical at the source, and restart it"
        yield _failed("wal_level", f"wal_level = {level}: the log has no rows that can be read", hint)


def check_slots(live: Live) -> Iterator[CheckResult]:
    """One slot and one sender are needed; ours may be there already."""
    used = "SELECT count(*) FROM pg_catalog.pg_replication_slots WHERE slot_name NOT LIKE 'anabranch\\_%'"
    senders = "SELECT count(*) FROM pg_catalog.pg_stat_replication"
    for setting, query in (("max_replication_slots", used), ("max_wal_senders", senders)):
        most, taken = int(live.settings[setting]), int(one(live.connection, query.encode()))
        if most - taken < 1:
            hint = f"ALTER SYSTEM SET {setting} = {most + 4} at the source, and restart it"
            yield _failed(setting, f"{setting} = {most}, and {taken} are in use", hint)
        else:
            yield _ok(setting, f"{setting} = {most}, {taken} in use")


def check_unused(live: Live) -> Iterator[CheckResult]:
    """Names keys of the job file that do nothing here: whoever wrote them expects something of them."""
    choices = live.context.user_choices
    unused = {"server_id": "a PostgreSQL knows its readers by slots"}
    if choices.get("capture.streaming") != "true":
        unused |= dict.fromkeys(OF_OPEN_TRANSACTIONS, "without streaming = true the source keeps open transactions")
    for key in choices.get(GIVEN, "").split(", "):
        if key in unused:
            yield _warning("settings", f"[capture] {key} has no effect: {unused[key]}", "take it out of the job file")


def check_plugin(live: Live) -> Iterator[CheckResult]:
    yield from check_decoder(live.connection, live.settings, live.context)


def check_kept_log(live: Live) -> Iterator[CheckResult]:
    """https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-MAX-SLOT-WAL-KEEP-SIZE"""
    most = live.settings.get("max_slot_wal_keep_size")
    if most == "-1":
        hint = f"ALTER SYSTEM SET {KEEP} = '50GB', as the disk allows; a slot that needs more is lost, its tables load again"
        yield _warning(KEEP, "nothing bounds the log that is kept while capture is away: it may fill the disk", hint)
    elif most is not None:
        yield _ok(KEEP, f"{KEEP} = {most} MB: capture that is away for longer has to load again")


def check_rights(live: Live) -> Iterator[CheckResult]:
    query = "SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
    if not one(live.connection, query):
        user = str(one(live.connection, "SELECT current_user"))
        yield _failed("replication", f"the user {user} may not read the log", f"ALTER ROLE {quote(user)} REPLICATION")
    lacking = [
        table
        for table in sorted(live.context.tables)
        if not one(live.connection, "SELECT has_table_privilege(%s, 'SELECT')", [qualified(table)])
    ]
    if lacking:
        user = quote(str(one(live.connection, "SELECT current_user")))
        hint = f"GRANT SELECT ON TABLE {', '.join(map(qualified, lacking))} TO {user}"
        yield _failed("select", f"the user may not read {_some(list(map(str, lacking)))}", hint)


def check_published(live: Live) -> Iterator[CheckResult]:
    yield from check_publication(live.connection, live.context)


def check_row_security(live: Live) -> Iterator[CheckResult]:
    """The log has all rows; the load and verify would see those that policies show."""
    for found in hidden(live.connection, live.context.tables):
        table = str(found.table) if found.table in live.context.tables else ""
        yield CheckResult("source.row_security", "failed", found.message, found.mending, table)


def check_unlogged(live: Live) -> Iterator[CheckResult]:
    for table, schema in sorted(live.context.tables.items(), key=str):
        if schema.engine == UNLOGGED:
            hint = f"ALTER TABLE {qualified(table)} SET LOGGED, or leave it out ([[rules]] exclude)"
            yield CheckResult("source.unlogged", "failed", "an unlogged table: no log has its rows", hint, str(table))
        for part in schema.partitions:
            if not part.is_logged:
                hint = f"ALTER TABLE {part.name} SET LOGGED, or DETACH it"
                why = f"its partition {part.name} is unlogged: no log has its rows"
                yield CheckResult("source.unlogged", "failed", why, hint, str(table))


def check_identity(live: Live) -> Iterator[CheckResult]:
    """https://www.postgresql.org/docs/current/logical-replication-publication.html#LOGICAL-REPLICATION-PUBLICATION-REPLICA-IDENTITY"""
    query = """
        SELECT c.relreplident::text, EXISTS (
                 SELECT FROM pg_catalog.pg_index k WHERE k.indrelid = c.oid AND k.indisprimary AND NOT k.indimmediate),
               coalesce(
                 (SELECT array_agg(a.attname::text) FROM pg_catalog.pg_index x
                    JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = ANY(x.indkey::int2[])
                   WHERE x.indrelid = c.oid AND x.indisreplident), '{}')
          FROM pg_catalog.pg_class c WHERE c.oid = %s::regclass"""
    for table, schema in sorted(live.context.tables.items(), key=str):
        kind, is_late, columns = live.connection.execute(query, [qualified(table)]).fetchall()[0]
        place = f"ALTER TABLE {qualified(table)} REPLICA IDENTITY"
        if schema.primary_key and kind == "n":
            why = "its log does not tell which rows are changed (REPLICA IDENTITY NOTHING)"
            yield CheckResult("source.replica_identity", "failed", why, f"{place} DEFAULT", str(table))
        elif schema.primary_key and kind == "d" and is_late:
            why = "its primary key is DEFERRABLE: the server refuses UPDATE and DELETE of such a table once it is published"
            yield CheckResult("source.replica_identity", "failed", why, f"{place} FULL", str(table))
        elif schema.primary_key and kind == "i" and not set(schema.primary_key) <= set(columns):
            why = f"its log names changed rows by {', '.join(columns)}, not by the primary key"
            yield CheckResult("source.replica_identity", "failed", why, f"{place} DEFAULT, or FULL", str(table))
        elif not schema.primary_key and kind == "i":
            why = "it has no primary key, and its log names changed rows by an index"
            yield CheckResult("source.replica_identity", "failed", why, f"{place} FULL", str(table))
        elif not schema.primary_key and kind != "f":
            why = "no primary key: setup gives it REPLICA IDENTITY FULL, which makes its changes larger in the log"
            yield CheckResult("source.replica_identity", "warning", why, f"{place} FULL", str(table))


def check_partition_truncate(live: Live) -> Iterator[CheckResult]:
    for table, schema in sorted(live.context.tables.items(), key=str):
        if schema.partitions:
            why = (
                "a partitioned table: a TRUNCATE of one of its partitions alone is not in the log (DETACH and ATTACH of"
                " tables with rows are noticed, and park it)"
            )
            yield CheckResult(
                "source.partition_truncate", "warning", why, "DELETE, or TRUNCATE the whole table", str(table)
            )


def check_inheritance(live: Live) -> Iterator[CheckResult]:
    """Each table gets the rows that the log calls its own."""
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
        why = f"{_some(children)} inherit from it: each table gets its own rows (ONLY), and inherits nothing at the target"
        why += f"; the rules leave out {_some(without)}" * bool(without)
        hint = "include the children, and read them together by a view of UNION ALL where the application needs it"
        yield CheckResult("source.inheritance", "warning", why, hint, str(TableId(schema, name)))


def check_computed(live: Live) -> Iterator[CheckResult]:
    """It refuses them as soon as the table is published, to everybody.
    https://www.postgresql.org/docs/18/logical-replication-gencols.html"""
    if live.connection.info.server_version < REFUSES_COMPUTED:
        return
    query = "SELECT relreplident::text FROM pg_catalog.pg_class WHERE oid = %s::regclass"
    for table, schema in sorted(live.context.tables.items(), key=str):
        columns = [column.name for column in schema.columns if column.expression.endswith(STORED["v"])]
        if not columns or (schema.primary_key and one(live.connection, query, [qualified(table)]) != "f"):
            continue
        why = (
            "the server refuses UPDATE and DELETE of a published table whose REPLICA IDENTITY FULL has VIRTUAL columns"
        )
        why += f": {_some(columns)}"
        hint = f"ALTER TABLE {qualified(table)} REPLICA IDENTITY DEFAULT"
        hint = hint if schema.primary_key else "give it a primary key, or leave the table out ([[rules]] exclude)"
        yield CheckResult("source.computed", "failed", why, hint, str(table))


def check_keys(live: Live) -> Iterator[CheckResult]:
    for table, schema in sorted(live.context.tables.items(), key=str):
        if not schema.primary_key:
            why = "no primary key: a load of it that is interrupted begins anew, rows are found by all their columns"
            yield CheckResult("source.keys", "warning", why, "a primary key makes load and apply faster", str(table))


def check_values(live: Live) -> Iterator[CheckResult]:
    yield from check_large_objects(live.connection, live.context)


def check_objects(live: Live) -> Iterator[CheckResult]:
    yield from objects(live.connection, live.context.tables)


def check_encoding(live: Live) -> Iterator[CheckResult]:
    encoding = live.settings["server_encoding"]
    if encoding == "SQL_ASCII":
        why = "the database has no encoding (SQL_ASCII): text that is not UTF-8 stops the job"
        yield _warning("encoding", why, "make sure that its text is UTF-8")


Check = Callable[[Live], Iterator[CheckResult]]
CHECKS: tuple[Check, ...] = (
    check_version,
    check_primary,
    check_wal_level,
    check_slots,
    check_unused,
    check_plugin,
    check_kept_log,
    check_rights,
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


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _ok(check: str, message: str) -> CheckResult:
    return CheckResult(f"source.{check}", "ok", message)


def _warning(check: str, message: str, hint: str) -> CheckResult:
    return CheckResult(f"source.{check}", "warning", message, hint)


def _failed(check: str, message: str, hint: str) -> CheckResult:
    return CheckResult(f"source.{check}", "failed", message, hint)
