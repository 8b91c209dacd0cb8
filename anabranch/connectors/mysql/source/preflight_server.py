"""Is the server set up for it: version, log, settings, rights.

Every check reads only; what fails says what mends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import NamedTuple

from anabranch.connectors.mysql.connection import account, ask, connect, variables
from anabranch.connectors.mysql.rights import Rights
from anabranch.connectors.mysql.source import privileges
from anabranch.connectors.mysql.source.log_end import log_status
from anabranch.connectors.mysql.source.preflight_facts import Live, failed, ok, warning
from anabranch.connectors.mysql.source.snapshot import breaks_order
from anabranch.connectors.mysql.versions import knows
from anabranch.errors import SourceUnavailable
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.markers import SCHEMA, jobs_among

DAY = 86_400
NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
OLDEST = {"mysql": (5, 5, 3), "mariadb": (10, 5, 0)}  # from 5.5.3 on there is utf8mb4
TESTED = {"mysql": ((5, 5), (5, 6), (8, 0), (9, 7)), "mariadb": ((10, 11),)}  # by this project's own test runs
GIVEN = "capture.given"  # the engine's list of keys of [capture] that stand in the job file
UNUSED = ("memory_limit_mb", "transaction_staging_timeout_s")
UNUSED_BECAUSE = "whose log has whole transactions, of the whole server, as they were committed or prepared"
FULL_IMAGES = "tables.full_images"  # the engine's list of tables whose filter or policy needs full row images (K27)


class Setting(NamedTuple):
    """A server variable that must have, or must not have, some value. One that a server lacks is as it should be. `line`: of
    the configuration, as the recipe has it, "" for one that is good unless somebody sets it; `since`: the first release of each
    family that has it, (99,) for none."""

    name: str
    good: frozenset[str]
    verdict: CheckVerdict
    message: str
    hint: str
    line: str = ""
    needs_restart: bool = False
    since: Mapping[str, tuple[int, ...]] = MappingProxyType({})


# https://dev.mysql.com/doc/refman/8.0/en/replication-options-binary-log.html
# https://mariadb.com/kb/en/replication-and-binary-log-system-variables/
SETTINGS = (
    Setting("log_bin", frozenset(("ON",)), CheckVerdict.FAILED, "the server writes no binary log",
            "set log_bin = mysql-bin in the server's configuration and restart it", "log_bin = mysql-bin", True),
    Setting("binlog_format", frozenset(("ROW",)), CheckVerdict.FAILED, "changes are logged as statements",
            "SET GLOBAL binlog_format = 'ROW' (and in the configuration), then let all sessions connect again",
            "binlog_format = ROW"),
    Setting("binlog_storage_engine", frozenset(("",)), CheckVerdict.FAILED,
            "a binary log inside a storage engine is not read yet",
            "take binlog_storage_engine out of the configuration and restart the server"),
    Setting("binlog_row_metadata", frozenset(("FULL",)), CheckVerdict.WARNING,
            "row events carry no column names: altered tables are recognised by types alone",
            "SET GLOBAL binlog_row_metadata = 'FULL'", "binlog_row_metadata = FULL",
            since=MappingProxyType({"mysql": (8, 0, 1), "mariadb": (10, 5)})),
    Setting("lower_case_table_names", frozenset(("0", "1")), CheckVerdict.FAILED,
            "names keep their case but are compared without it", "move the database to a server with 0 or 1"),
)  # fmt: skip
# Judged by the checks below, with what else they look at.
ROW_IMAGE = Setting("binlog_row_image", frozenset(("FULL",)), CheckVerdict.WARNING, "",
                    "SET GLOBAL binlog_row_image = 'FULL'", "binlog_row_image = FULL",
                    since=MappingProxyType({"mysql": (5, 6, 2), "mariadb": (10, 1, 6)}))  # fmt: skip
SERVER_ID = Setting("server_id", frozenset(), CheckVerdict.FAILED, "the server gives its log to nobody",
                    "SET GLOBAL server_id = 1, and in the configuration", "server_id = 1")  # fmt: skip
LOG_REPLICATED = Setting("log_slave_updates", frozenset(("ON",)), CheckVerdict.FAILED,
                         "this server is a replica that does not log what it applies",
                         "set log_slave_updates = ON in the configuration and restart, or use the replica's own source",
                         "log_slave_updates = ON", True)  # fmt: skip
# The first of these that the server has says how long it keeps its log; seconds per unit, 0 = for ever.
KEPT_SECONDS, KEPT_DAYS = "binlog_expire_logs_seconds = 604800", "expire_logs_days = 7"
KEPT_SINCE = {"mysql": (8, 0, 1), "mariadb": (10, 6, 1)}  # by seconds
RETENTION = (("binlog_expire_logs_seconds", 1), ("expire_logs_days", DAY))


def check_family(live: Live) -> Iterator[CheckResult]:
    if live.family != live.scheme:
        message = f"the server is {NAMES[live.family]}, the URL says {live.scheme}://"
        yield failed("family", message, f"write {live.family}:// in [source] url")
    else:
        yield ok("family", NAMES[live.family])


def check_version(live: Live) -> Iterator[CheckResult]:
    shown = f"{NAMES[live.family]} {'.'.join(map(str, live.version))}"
    if live.version < OLDEST[live.family]:
        oldest = ".".join(map(str, OLDEST[live.family])).removesuffix(".0")
        yield failed("version", f"{shown} is too old", f"use {NAMES[live.family]} {oldest} or later")
    elif live.version[:2] not in TESTED[live.family]:
        tested = ", ".join(".".join(map(str, v)) for v in TESTED[live.family])
        message = f"{shown} is not among the versions that were tested ({tested})"
        hint = f"use {NAMES[live.family]} {tested}, or let anabranch verify JOB compare both ends"
        yield warning("version", message, hint)
    else:
        yield ok("version", shown)


def check_settings(live: Live) -> Iterator[CheckResult]:
    for setting in SETTINGS:
        value = live.variables.get(setting.name)
        if value is None or value.upper() in setting.good:
            yield ok(setting.name, "not known to this server" if value is None else f"{setting.name} = {value}")
        else:
            message = f"{setting.name} = {value}: {setting.message}"
            yield CheckResult(f"source.{setting.name}", setting.verdict, message, setting.hint)


def check_row_image(live: Live) -> Iterator[CheckResult]:
    value = live.variables.get("binlog_row_image", "FULL").upper()
    needing = live.context.user_choices.get(FULL_IMAGES, "")
    if value == "FULL":
        yield ok("binlog_row_image", "binlog_row_image = FULL")
    elif needing:
        message = f"binlog_row_image = {value}: the filter or on_conflict of {needing} needs whole rows"
        yield failed("binlog_row_image", message, ROW_IMAGE.hint)
    else:
        message = (
            f"binlog_row_image = {value}: inserts that leave out a column with an expression default park the table"
        )
        if live.family == "mariadb":
            message += "; what a REPLACE of some columns sets back to a default is not logged, and stays as it was"
        yield warning("binlog_row_image", message, ROW_IMAGE.hint)


def check_row_value_options(live: Live) -> Iterator[CheckResult]:
    """Check that logged differences of JSON documents come with the whole document before them."""
    value, image = (
        live.variables.get("binlog_row_value_options", ""),
        live.variables.get("binlog_row_image", "FULL").upper(),
    )
    if value and image != "FULL":
        message = (
            f"binlog_row_value_options = {value} with binlog_row_image = {image}: documents are not whole in the log"
        )
        yield failed("binlog_row_value_options", message, ROW_IMAGE.hint)
    else:
        yield ok("binlog_row_value_options", f"binlog_row_value_options = {value or '(none)'}")


def check_unused(live: Live) -> Iterator[CheckResult]:
    """Name keys of the job file that do nothing here: whoever wrote them expects something of them."""
    given = [key for key in live.context.user_choices.get(GIVEN, "").split(", ") if key in UNUSED]
    if given:
        message = f"[capture] {', '.join(given)}: without effect at a {NAMES[live.family]}, {UNUSED_BECAUSE}"
        yield warning("settings", message, "take them out of the job file")


def check_server_id(live: Live) -> Iterator[CheckResult]:
    theirs, ours = live.variables.get("server_id", "0"), live.options.server_id
    if theirs == "0":
        yield failed("server_id", f"server_id = 0: {SERVER_ID.message}", SERVER_ID.hint)
    elif theirs == str(ours):
        yield failed(
            "server_id",
            f"[source.options] server_id = {ours} is the server's own",
            "choose another [source.options] server_id, or none",
        )
    else:
        yield ok("server_id", f"server_id = {theirs}")


def check_retention(live: Live) -> Iterator[CheckResult]:
    seconds = _kept(live.variables)
    if live.variables.get("max_binlog_total_size", "0") != "0":
        yield warning(
            "log_retention",
            "the server drops its log by size (max_binlog_total_size)",
            "SET GLOBAL max_binlog_total_size = 0",
        )
    elif seconds and seconds < DAY:
        message = f"the log is kept for {seconds / 3600:.1f} hours: a stop of that length loses it"
        yield warning("log_retention", message, f"SET GLOBAL {_retention_setting(live.variables)}")
    else:
        yield ok(
            "log_retention", f"the log is kept for {seconds / DAY:.1f} days" if seconds else "the log is kept for ever"
        )


def check_gtid(live: Live) -> Iterator[CheckResult]:
    if live.has_gtids:
        yield ok("gtid", "transactions have GTIDs")
    else:
        mode = live.variables.get("gtid_mode", "not known")
        yield ok("gtid", f"gtid_mode = {mode}: positions are files and offsets, another server cannot take over")
    if live.needs_watermark and (name := breaks_order(live.variables)):
        hint = f'SET GLOBAL {name} = ON, or [load] lock = "table"'
        yield failed(name, f"{name} = OFF: no consistent start for the load", hint)
    if live.needs_watermark and live.variables.get("read_only") == "ON":
        hint = ("" if live.has_gtids else "gtid_mode = ON at the source, or ") + '[load] lock = "table"'
        yield failed("read_only", "the load has to write a watermark, and the server is read-only", hint)


def check_filters(live: Live) -> Iterator[CheckResult]:
    """Check which databases the server leaves out of its log (K33)."""
    if live.variables.get("log_bin") != "ON":
        return
    _, _, only, never = (*log_status(live.connection)[:4], "", "")[:4]
    if not only and not never:
        yield ok("binlog_filters", "nothing is left out of the log")
        return
    only_set, never_set = set(filter(None, only.split(","))), set(filter(None, never.split(",")))
    schemas = {table.schema for table in live.context.tables} | (
        {SCHEMA} if jobs_among(live.context.leave_out) else set()
    )
    lost = sorted(name for name in schemas if name in never_set or (only_set and name not in only_set))
    hint = "take binlog_do_db and binlog_ignore_db out of the configuration and restart the server"
    if SCHEMA in lost:
        why = f"rows of the database {SCHEMA} are left out of the log: they say which transactions [source] leave_out names"
        yield failed("binlog_filters", why, hint)
    elif lost:
        yield failed("binlog_filters", f"changes of {', '.join(lost)} are left out of the log", hint)
    elif live.needs_watermark:
        yield failed("binlog_filters", "our watermark may be left out of the log", f'{hint}, or [load] lock = "table"')
    else:
        yield warning("binlog_filters", "changes of some databases are left out of the log, none of this job's", hint)


def check_replica(live: Live) -> Iterator[CheckResult]:
    """Check for a replica that does not log what it applies (K33): of several servers each is one, now or later."""
    logged = _logs_replicated(live.variables)
    if len(live.endpoint.each) > 1:
        yield from _each_logs_replicated(live)
        return
    if logged == "ON":
        yield ok("log_slave_updates", "what arrives by replication is logged")
        return
    is_renamed = knows(live.connection, "replica status")
    is_replica = bool(ask(live.connection, "SHOW REPLICA STATUS" if is_renamed else "SHOW SLAVE STATUS"))
    if is_replica:
        yield failed("log_slave_updates", LOG_REPLICATED.message, LOG_REPLICATED.hint)
    else:
        yield ok("log_slave_updates", "the server is no replica")


def _logs_replicated(values: Mapping[str, str]) -> str:
    return values.get("log_replica_updates", values.get("log_slave_updates", "ON"))


def _each_logs_replicated(live: Live) -> Iterator[CheckResult]:
    for one in live.endpoint.each:
        try:
            with closing(connect(one)) as connection:
                logged = _logs_replicated(variables(connection, "log_replica_updates", "log_slave_updates"))
        except SourceUnavailable as error:
            hint = "start it, or take it out of the URL; then look again"
            yield warning("log_slave_updates", f"cannot be looked at: {error.message}", hint)
            continue
        if logged == "ON":
            yield ok("log_slave_updates", f"{one.place} logs what arrives by replication")
        else:
            why = f"{one.place} does not log what it applies as a replica: who takes over would lack it in the log"
            hint = f"set log_slave_updates = ON in the configuration of {one.place} and restart it"
            yield failed("log_slave_updates", f"{why}, and it would be lost", hint)


def check_xa(live: Live) -> Iterator[CheckResult]:
    """Check for transactions that are prepared and undecided: they stand before every position (K6)."""
    prepared = ask(live.connection, "XA RECOVER")
    if prepared:
        yield warning(
            "xa",
            f"{len(prepared)} XA transactions are prepared: a job begins when they have ended",
            "XA COMMIT or XA ROLLBACK them (XA RECOVER lists them)",
        )
    else:
        yield ok("xa", "no XA transaction is prepared")


def check_grants(live: Live) -> Iterator[CheckResult]:
    user = account(live.connection)
    rights = Rights([str(row[0]) for row in ask(live.connection, "SHOW GRANTS")])
    needs = privileges.Needs(lock=live.lock if live.family == "mysql" else "none", watermark=live.needs_watermark)
    absent = list(privileges.missing(rights, live.family, user, sorted(live.context.tables), needs))
    absent += privileges.unseen(rights, user, live.context)
    yield from absent or [ok("grants", f"{user} has every right that the job needs")]


def _kept(variables: Mapping[str, str]) -> float:
    """Return seconds for which the log is kept at least; 0 = for ever."""
    if variables.get("binlog_expire_logs_auto_purge") == "OFF":
        return 0
    return next((float(variables[n]) * unit for n, unit in RETENTION if float(variables.get(n, 0))), 0)


def _retention_setting(variables: Mapping[str, str]) -> str:
    return KEPT_SECONDS if RETENTION[0][0] in variables else KEPT_DAYS
