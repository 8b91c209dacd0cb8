"""Is this server ready to be the job's source? Every check reads only; what fails says what mends it.

What does not live here: rights (`privileges.py`), types that are refused (the engine's rules say them), the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import pymysql

from anabranch.abc import CheckResult, PreflightContext
from anabranch.connectors.mysql import foreign_keys, mending, privileges
from anabranch.connectors.mysql.catalog import cascades_are_logged
from anabranch.connectors.mysql.connection import account, ask, connect, family, version
from anabranch.connectors.mysql.log_end import log_status
from anabranch.connectors.mysql.snapshot import has_transactions
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Column, ForeignKey, TableSchema

DAY = 86_400
REPLICA_STATUS_SINCE = (8, 0, 22)  # https://dev.mysql.com/doc/refman/8.0/en/show-replica-status.html
NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
OLDEST = {"mysql": (5, 7, 0), "mariadb": (10, 5, 0)}
TESTED = {"mysql": ((8, 0),), "mariadb": ((10, 11),)}  # by this project's own test run
# Collations that compare bytes and do not pad: from MySQL 8.0.17, MariaDB 10.2.
LOOSE_HINTS = {
    family: f"give the key's columns a collation that compares exactly ({collation}), at both ends, or the key RESTRICT"
    for family, collation in (("mysql", "utf8mb4_0900_bin"), ("mariadb", "utf8mb4_nopad_bin"))
}
SHOWN = 8  # names in one message
FULL_IMAGES = "tables.full_images"  # the engine's list of tables whose filter needs full row images (K27)


class Setting(NamedTuple):
    """A server variable that must have, or must not have, some value. One that a server lacks is as it should be."""

    name: str
    good: frozenset[str]
    verdict: str
    message: str
    hint: str


# https://dev.mysql.com/doc/refman/8.0/en/replication-options-binary-log.html
# https://mariadb.com/kb/en/replication-and-binary-log-system-variables/
SETTINGS = (
    Setting("log_bin", frozenset(("ON",)), "failed", "the server writes no binary log",
            "set log_bin = mysql-bin in the server's configuration and restart it"),
    Setting("binlog_format", frozenset(("ROW",)), "failed", "changes are logged as statements",
            "SET GLOBAL binlog_format = 'ROW' (and in the configuration), then let all sessions connect again"),
    Setting("log_bin_compress", frozenset(("OFF",)), "failed", "compressed row events are not read yet",
            "SET GLOBAL log_bin_compress = OFF"),
    Setting("binlog_transaction_compression", frozenset(("OFF",)), "failed",
            "compressed transactions are not read yet", "SET GLOBAL binlog_transaction_compression = OFF"),
    Setting("binlog_row_value_options", frozenset(("",)), "failed", "partial JSON updates are not read yet",
            "SET GLOBAL binlog_row_value_options = ''"),
    Setting("binlog_storage_engine", frozenset(("",)), "failed", "a binary log inside a storage engine is not read yet",
            "take binlog_storage_engine out of the configuration and restart the server"),
    Setting("binlog_row_metadata", frozenset(("FULL",)), "warning",
            "row events carry no column names: altered tables are recognised by types alone",
            "SET GLOBAL binlog_row_metadata = 'FULL'"),
    Setting("lower_case_table_names", frozenset(("0", "1")), "failed",
            "names keep their case but are compared without it", "move the database to a server with 0 or 1"),
)  # fmt: skip
# The first of these that the server has says how long it keeps its log; seconds per unit, 0 = for ever.
RETENTION = (("binlog_expire_logs_seconds", 1), ("expire_logs_days", DAY))


class MysqlChecks:
    """The checks of one source, over one connection."""

    def __init__(self, endpoint: Endpoint, scheme: str) -> None:
        self._endpoint, self._scheme = endpoint, scheme
        self._connection: pymysql.Connection | None = None

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Raises SourceUnavailable, or SourceError when the server refuses us."""
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint)
            ask(self._connection, "SET SESSION sql_mode = ''")
        live = _Live.of(self._connection, self._scheme, context)
        return [result for check in CHECKS for result in _asked(check, live)]

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


@dataclass(frozen=True)
class _Live:
    """What the checks share."""

    connection: pymysql.Connection
    scheme: str
    family: str
    version: tuple[int, int, int]
    variables: Mapping[str, str]
    context: PreflightContext

    @classmethod
    def of(cls, connection: pymysql.Connection, scheme: str, context: PreflightContext) -> _Live:
        rows = ask(connection, "SHOW GLOBAL VARIABLES")
        values = {str(name).lower(): str(value) for name, value in rows}
        return cls(connection, scheme, family(connection), version(connection), values, context)

    @property
    def lock(self) -> str:
        return self.context.user_choices.get("load.lock", "none") or "none"

    @property
    def has_gtids(self) -> bool:
        return self.family == "mariadb" or self.variables.get("gtid_mode") == "ON"

    @property
    def is_exact(self) -> bool:
        """Does the server say where a snapshot lies in its log, or a lock? (K2)"""
        return self.family == "mariadb" or self.lock != "none"

    @property
    def needs_watermark(self) -> bool:
        return not self.has_gtids and self.lock == "none"

    def tables(self, where: Callable[[TableSchema], bool]) -> list[TableSchema]:
        return [schema for _, schema in sorted(self.context.tables.items()) if where(schema)]


# --- the server -------------------------------------------------------------------------------------------------------


def check_family(live: _Live) -> Iterator[CheckResult]:
    if live.family != live.scheme:
        message = f"the server is {NAMES[live.family]}, the URL says {live.scheme}://"
        yield _failed("family", message, f"write {live.family}:// in [source] url")
    else:
        yield _ok("family", NAMES[live.family])


def check_version(live: _Live) -> Iterator[CheckResult]:
    shown = f"{NAMES[live.family]} {'.'.join(map(str, live.version))}"
    if live.version < OLDEST[live.family]:
        oldest = ".".join(map(str, OLDEST[live.family][:2]))
        yield _failed("version", f"{shown} is too old", f"use {NAMES[live.family]} {oldest} or later")
    elif live.version[:2] not in TESTED[live.family]:
        tested = ", ".join(".".join(map(str, v)) for v in TESTED[live.family])
        message = f"{shown} is not among the versions that were tested ({tested})"
        hint = f"use {NAMES[live.family]} {tested}, or let anabranch verify {live.context.job} compare both ends"
        yield _warning("version", message, hint)
    else:
        yield _ok("version", shown)


def check_settings(live: _Live) -> Iterator[CheckResult]:
    for setting in SETTINGS:
        value = live.variables.get(setting.name)
        if value is None or value.upper() in setting.good:
            yield _ok(setting.name, "not known to this server" if value is None else f"{setting.name} = {value}")
        else:
            message = f"{setting.name} = {value}: {setting.message}"
            yield CheckResult(f"source.{setting.name}", setting.verdict, message, setting.hint)


def check_row_image(live: _Live) -> Iterator[CheckResult]:
    value = live.variables.get("binlog_row_image", "FULL").upper()
    needing = live.context.user_choices.get(FULL_IMAGES, "")
    if value == "FULL":
        yield _ok("binlog_row_image", "binlog_row_image = FULL")
    elif needing:
        message = f"binlog_row_image = {value}: the filters of {needing} need whole rows"
        yield _failed("binlog_row_image", message, "SET GLOBAL binlog_row_image = 'FULL'")
    else:
        message = (
            f"binlog_row_image = {value}: inserts that leave out a column with an expression default park the table"
        )
        yield _warning("binlog_row_image", message, "SET GLOBAL binlog_row_image = 'FULL'")


def check_server_id(live: _Live) -> Iterator[CheckResult]:
    theirs, ours = live.variables.get("server_id", "0"), live.context.user_choices.get("capture.server_id", "")
    if theirs == "0":
        yield _failed(
            "server_id",
            "server_id = 0: the server gives its log to nobody",
            "SET GLOBAL server_id = 1, and in the configuration",
        )
    elif theirs == ours:
        yield _failed(
            "server_id",
            f"[capture] server_id = {ours} is the server's own",
            "choose another [capture] server_id, or none",
        )
    else:
        yield _ok("server_id", f"server_id = {theirs}")


def check_retention(live: _Live) -> Iterator[CheckResult]:
    seconds = _kept(live.variables)
    if live.variables.get("max_binlog_total_size", "0") != "0":
        yield _warning(
            "log_retention",
            "the server drops its log by size (max_binlog_total_size)",
            "SET GLOBAL max_binlog_total_size = 0",
        )
    elif seconds and seconds < DAY:
        message = f"the log is kept for {seconds / 3600:.1f} hours: a stop of that length loses it"
        yield _warning("log_retention", message, f"SET GLOBAL {_retention_setting(live.variables)}")
    else:
        yield _ok(
            "log_retention", f"the log is kept for {seconds / DAY:.1f} days" if seconds else "the log is kept for ever"
        )


def check_gtid(live: _Live) -> Iterator[CheckResult]:
    if live.has_gtids:
        yield _ok("gtid", "transactions have GTIDs")
        return
    mode = live.variables.get("gtid_mode", "not known")
    yield _ok("gtid", f"gtid_mode = {mode}: positions are files and offsets, another server cannot take over")
    if live.needs_watermark and live.variables.get("binlog_order_commits", "ON") != "ON":
        hint = 'SET GLOBAL binlog_order_commits = ON, or [load] lock = "table"'
        yield _failed("binlog_order_commits", "binlog_order_commits = OFF: no consistent start for the load", hint)
    if live.needs_watermark and live.variables.get("read_only") == "ON":
        hint = 'gtid_mode = ON at the source, or [load] lock = "table"'
        yield _failed("read_only", "the load has to write a watermark, and the server is read-only", hint)


def check_filters(live: _Live) -> Iterator[CheckResult]:
    """K33: what the server leaves out of its log."""
    if live.variables.get("log_bin") != "ON":
        return
    _, _, only, never = (*log_status(live.connection)[:4], "", "")[:4]
    if not only and not never:
        yield _ok("binlog_filters", "nothing is left out of the log")
        return
    only_set, never_set = set(filter(None, only.split(","))), set(filter(None, never.split(",")))
    lost = sorted(
        {t.schema for t in live.context.tables if t.schema in never_set or (only_set and t.schema not in only_set)}
    )
    hint = "take binlog_do_db and binlog_ignore_db out of the configuration and restart the server"
    if lost:
        yield _failed("binlog_filters", f"changes of {', '.join(lost)} are left out of the log", hint)
    elif live.needs_watermark:
        yield _failed("binlog_filters", "our watermark may be left out of the log", f'{hint}, or [load] lock = "table"')
    else:
        yield _warning("binlog_filters", "changes of some databases are left out of the log, none of this job's", hint)


def check_replica(live: _Live) -> Iterator[CheckResult]:
    """K33: a replica that does not log what it applies."""
    logged = live.variables.get("log_replica_updates", live.variables.get("log_slave_updates", "ON"))
    if logged == "ON":
        yield _ok("log_slave_updates", "what arrives by replication is logged")
        return
    is_renamed = live.family == "mysql" and live.version >= REPLICA_STATUS_SINCE
    is_replica = bool(ask(live.connection, "SHOW REPLICA STATUS" if is_renamed else "SHOW SLAVE STATUS"))
    if is_replica:
        hint = "set log_slave_updates = ON in the configuration and restart, or use the replica's own source"
        yield _failed("log_slave_updates", "this server is a replica that does not log what it applies", hint)
    else:
        yield _ok("log_slave_updates", "the server is no replica")


def check_xa(live: _Live) -> Iterator[CheckResult]:
    """K6: transactions that are prepared and undecided stand before every position."""
    prepared = ask(live.connection, "XA RECOVER")
    if prepared:
        yield _warning(
            "xa",
            f"{len(prepared)} XA transactions are prepared: the job stops when one of them is logged",
            "XA COMMIT or XA ROLLBACK them (XA RECOVER lists them)",
        )
    else:
        yield _ok("xa", "no XA transaction is prepared")


def check_grants(live: _Live) -> Iterator[CheckResult]:
    user = account(live.connection)
    rights = privileges.Rights([str(row[0]) for row in ask(live.connection, "SHOW GRANTS")])
    needs = privileges.Needs(lock=live.lock if live.family == "mysql" else "none", watermark=live.needs_watermark)
    absent = list(privileges.missing(rights, live.family, user, sorted(live.context.tables), needs))
    yield from absent or [_ok("grants", f"{user} has every right that the job needs")]


# --- the tables -------------------------------------------------------------------------------------------------------


def check_engines(live: _Live) -> Iterator[CheckResult]:
    loaded = live.context.loaded
    torn = live.tables(lambda s: not has_transactions(s) and not s.primary_key and s.id not in loaded)
    if torn:
        names = _names(torn)
        message = (
            f"neither transactions nor a primary key in {_some(names)}: a row inserted during the load comes twice"
        )
        yield replace(_failed("engines", message, mending.give_either(torn)), names=names)
    found = [table for table in live.tables(lambda s: not has_transactions(s)) if table not in torn]
    if found:
        names = _names(found)
        message = (
            f"no transactions in {_some(names)}: rows stay after ROLLBACK, and a load has no consistent view of them"
        )
        hint = f"{mending.give_transactions(found)}; or write nothing to them during the load"
        yield replace(_warning("engines", message, hint), names=names)
    elif not torn:
        yield _ok("engines", "every table has transactions")


def check_keys(live: _Live) -> Iterator[CheckResult]:
    found = live.tables(lambda schema: not schema.primary_key)
    if not found:
        yield _ok("keys", "every table has a primary key")
        return
    names = _names(found)
    message = f"no primary key in {_some(names)}: loaded in one piece, rows are found by all their columns"
    if not live.is_exact:
        message += "; the load waits for a moment at which nothing changes them"
    hint = mending.give_keys(found) + ("" if live.is_exact else '; or [load] lock = "table"')
    yield replace(_warning("keys", message, hint), names=names)


def check_hidden_keys(live: _Live) -> Iterator[CheckResult]:
    """K1: a foreign key that is not seen cascades unseen."""
    found = list(foreign_keys.hidden(live.connection, live.context.tables))
    for schema in sorted({table.schema for table in found}):
        names = tuple(str(table) for table in found if table.schema == schema)
        place, user = f"{privileges.as_pattern(schema)}.*", account(live.connection)
        hint = privileges.grant(foreign_keys.RIGHT, place, user)
        yield replace(_failed("hidden_keys", f"{_some(names)}: {foreign_keys.MESSAGE}", hint), names=names)


def check_foreign_keys(live: _Live) -> Iterator[CheckResult]:
    """K1: what cascades is found at the target by equal values. A source that takes different texts for equal ('a' and
    'A', 'a' and 'a ') cascades further than that."""
    if cascades_are_logged(live.family, live.version, live.variables):
        return
    for table, schema in sorted(live.context.tables.items()):
        for key in schema.foreign_keys:
            loose = sorted(_loose_columns(key, schema, live.context.tables.get(key.parent)))
            if key.changes_rows and loose:
                message = (
                    f"foreign key {key.name} changes rows, the log does not show it, and the source takes different "
                    f"values of {', '.join(loose)} for equal"
                )
                yield _failed("foreign_keys", message, f"{LOOSE_HINTS[live.family]}, or exclude {table}", str(table))


def _loose_columns(key: ForeignKey, child: TableSchema, parent: TableSchema | None) -> Iterator[str]:
    """Columns of the key, with their collation, in which equal values may differ."""
    for name, parent_name in zip(key.columns, key.parent_columns, strict=True):
        column = child.column(name)
        ends = [column, parent.column(parent_name) if parent is not None else column]
        if not any(end.collation for end in ends) or all(_compares_exactly(end) for end in ends):
            continue
        if column.type is not None and column.type.values and len({end.type for end in ends}) == 1:
            continue  # an ENUM or SET is a number at the source: with the same labels it is the same text
        yield f"{name} ({column.collation})"


def _compares_exactly(column: Column) -> bool:
    """By its bytes, with the spaces at its end: CHAR has none. https://dev.mysql.com/doc/refman/8.0/en/charset-binary-collations.html
    https://mariadb.com/kb/en/supported-character-sets-and-collations/#no-pad-collations"""
    collation = column.collation
    if collation in ("", "binary"):
        return True
    has_no_padding = "_0900_" in collation or "_nopad_" in collation or column.native.startswith("char(")
    return collation.endswith("_bin") and has_no_padding


def check_generated(live: _Live) -> Iterator[CheckResult]:
    found = live.tables(lambda schema: any(column.generated for column in schema.columns))
    if found:
        names = _names(found)
        message = f"generated columns of {_some(names)} arrive as plain values"
        yield replace(_ok("generated", message), names=names)


Check = Callable[[_Live], Iterator[CheckResult]]
CHECKS: tuple[Check, ...] = (
    check_family,
    check_version,
    check_settings,
    check_row_image,
    check_server_id,
    check_retention,
    check_gtid,
    check_filters,
    check_replica,
    check_xa,
    check_grants,
    check_engines,
    check_keys,
    check_hidden_keys,
    check_foreign_keys,
    check_generated,
)


# The right that a check itself needs, where it is not one that the job needs anyway.
# https://dev.mysql.com/doc/refman/8.0/en/privileges-provided.html#priv_xa-recover-admin
# https://mariadb.com/kb/en/grant/#replica-monitor
_RIGHT_TO_ASK: Mapping[tuple[str, Check], str] = {
    ("mysql", check_xa): "XA_RECOVER_ADMIN",
    ("mariadb", check_replica): "SLAVE MONITOR",
}


def _asked(check: Check, live: _Live) -> list[CheckResult]:
    """Its results; a warning where the user may not ask."""
    try:
        return list(check(live))
    except SourceUnavailable:
        raise
    except SourceError as error:
        right = _RIGHT_TO_ASK.get((live.family, check))
        hint = privileges.grant(right, "*.*", account(live.connection)) if right else error.hint
        return [_warning(check.__name__.removeprefix("check_"), f"could not be asked: {error.message}", hint)]


def _kept(variables: Mapping[str, str]) -> float:
    """Seconds for which the log is kept at least; 0 = for ever."""
    if variables.get("binlog_expire_logs_auto_purge") == "OFF":
        return 0
    return next((float(variables[n]) * unit for n, unit in RETENTION if float(variables.get(n, 0))), 0)


def _retention_setting(variables: Mapping[str, str]) -> str:
    return "binlog_expire_logs_seconds = 604800" if RETENTION[0][0] in variables else "expire_logs_days = 7"


def _names(tables: Iterable[TableSchema]) -> tuple[str, ...]:
    return tuple(str(table.id) for table in tables)


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _ok(check: str, message: str) -> CheckResult:
    return CheckResult(f"source.{check}", "ok", message)


def _warning(check: str, message: str, hint: str = "") -> CheckResult:
    return CheckResult(f"source.{check}", "warning", message, hint)


def _failed(check: str, message: str, hint: str, table: str = "") -> CheckResult:
    return CheckResult(f"source.{check}", "failed", message, hint, table)
