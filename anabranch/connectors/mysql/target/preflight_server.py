"""Is the server set up for it: family, release, settings that keep the job from writing, or make it slower.

What does not live here: rights (`preflight_rights.py`), clusters (`preflight_cluster.py`), tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from anabranch.connectors.mysql.room import rooms
from anabranch.connectors.mysql.target.names import refused_names, shortened
from anabranch.connectors.mysql.target.preflight_facts import NAMES, Live
from anabranch.connectors.mysql.target.session import ask
from anabranch.connectors.sql.findings import failed, ok, some, toml, warning
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.room import judged
from anabranch.rows.net import TargetTable

# From 5.6 on there are DATETIME(6) and rows beyond 767 bytes of index; MariaDB's is the oldest that its vendor still mends.
OLDEST = {"mysql": (5, 6, 10), "mariadb": (10, 5, 0)}
TESTED = {
    "mysql": ((5, 6), (8, 0), (9, 7)),
    "mariadb": ((10, 11),),
}  # releases that this project's own test runs have written to
# Beside those of a load's pieces: apply, load, state for three parts, and two that ask who is in the way.
OUR_CONNECTIONS = 7
PACKET, SMALL_PACKET = 64 << 20, 1 << 20  # bytes: what MySQL 8 has by itself; what a server cannot work with
PRIMARY = "point the job at a server that is a primary of its own"
LOG_FORMAT, LARGEST_PACKET = "binlog_format = ROW", "max_allowed_packet = 1073741824"  # lines of the configuration
_OFF = frozenset(("OFF", "0"))
# Rights with which read_only does not hold: https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_read_only
# https://mariadb.com/kb/en/grant/#read_only-admin
_PASSES_READ_ONLY = ("SUPER", "CONNECTION_ADMIN", "READ_ONLY ADMIN", "READ ONLY ADMIN")


class Setting(NamedTuple):
    """A server variable that must have one of some values. One that a server lacks is as it should be."""

    name: str
    good: frozenset[str]
    verdict: CheckVerdict
    message: str
    hint: str


# https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html · https://mariadb.com/kb/en/server-system-variables/
SETTINGS = (
    Setting("super_read_only", _OFF, CheckVerdict.FAILED, "nobody may write to the target",
            f"SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF; or {PRIMARY}"),
    Setting("innodb_read_only", _OFF, CheckVerdict.FAILED, "nobody may write to the target",
            f"take innodb_read_only out of the configuration and restart the target; or {PRIMARY}"),
    Setting("innodb_force_recovery", _OFF, CheckVerdict.FAILED, "the target was started to be repaired",
            "take innodb_force_recovery out of the configuration and restart the target"),
    Setting("local_infile", frozenset(("ON", "1")), CheckVerdict.WARNING,
            "LOAD DATA LOCAL is refused: the load sends INSERT statements of many rows, which takes longer",
            "SET GLOBAL local_infile = ON (and in the configuration)"),
)  # fmt: skip


def too_old(live: Live) -> Iterator[CheckResult]:
    """Check for a server that cannot be a target: of another family than the URL says, or too old."""
    if live.family != live.scheme:
        message = f"the server is {NAMES[live.family]}, the URL says {live.scheme}://"
        yield failed("family", message, f"write {live.family}:// in [target] url")
    elif live.version < OLDEST[live.family]:
        oldest = ".".join(map(str, OLDEST[live.family])).removesuffix(".0")
        yield failed("version", f"{_shown(live)} is too old", f"use {NAMES[live.family]} {oldest} or later")


def check_version(live: Live) -> Iterator[CheckResult]:
    if live.version[:2] in TESTED[live.family]:
        yield ok("version", _shown(live))
        return
    tested = ", ".join(".".join(map(str, one)) for one in TESTED[live.family])
    message = f"{_shown(live)} is not among the versions that were tested as a target ({tested})"
    hint = f"use {NAMES[live.family]} {tested}, or let anabranch verify JOB compare both ends"
    yield warning("version", message, hint)


def check_settings(live: Live) -> Iterator[CheckResult]:
    for setting in SETTINGS:
        value = live.variables.get(setting.name)
        if value is not None and value.upper() not in setting.good:
            message = f"{setting.name} = {value}: {setting.message}"
            yield CheckResult(f"target.{setting.name}", setting.verdict, message, setting.hint)


def check_read_only(live: Live) -> Iterator[CheckResult]:
    if not live.is_on("read_only") or live.is_on("super_read_only"):
        return
    off = f"SET GLOBAL read_only = OFF; or {PRIMARY}"
    if not live.rights.has_any(_PASSES_READ_ONLY):
        yield failed("read_only", "read_only is on: the target is a replica, or is to stay as it is", off)
        return
    message = "read_only is on, and the job's user passes it: a cut-over has fenced the target, or it is a replica"
    yield warning("read_only", message, f"leave the fence of a cut-over as it is, its way back writes here; else {off}")


def check_engine(live: Live) -> Iterator[CheckResult]:
    """Check that there is InnoDB: rows and checkpoint commit together in no other engine."""
    found = {str(row[0]).upper(): str(row[1]).upper() for row in ask(live.connection, "SHOW ENGINES")}
    disabled = live.variables.get("disabled_storage_engines", "").upper().replace(" ", "").split(",")
    if found.get("INNODB") not in ("YES", "DEFAULT") or "INNODB" in disabled:
        hint = "take what switches InnoDB off out of the configuration (disabled_storage_engines, skip-innodb), restart"
        yield failed("engine", "the target has no InnoDB", hint)


def check_log_format(live: Live) -> Iterator[CheckResult]:
    """Check the target's own log: READ COMMITTED cannot be logged as statements.

    https://dev.mysql.com/doc/refman/8.0/en/innodb-transaction-isolation-levels.html
    """
    form = live.variables.get("binlog_format", "ROW").upper()
    if not live.is_on("log_bin") or form == "ROW":
        return
    hint = f"SET GLOBAL {LOG_FORMAT.replace('ROW', repr('ROW'))} (and in the configuration)"
    if form == "STATEMENT":
        yield failed(
            "binlog_format", "the target logs statements: changes of READ COMMITTED sessions are refused", hint
        )
    else:
        yield warning(
            "binlog_format", f"binlog_format = {form}: temporary tables of ours get into the target's log", hint
        )


def check_packet(live: Live) -> Iterator[CheckResult]:
    """Check for values that may be larger than what the server takes at once."""
    most = live.number("max_allowed_packet", PACKET)
    hint = f"SET GLOBAL {LARGEST_PACKET} (and in the configuration)"
    large = [
        f"{table.source}.{column}"
        for table in live.context.targets.values()
        for column, type in zip(table.columns, table.types, strict=True)
        if type.kind in _UNBOUNDED and (type.length is None or type.length > most)
    ]
    if most < SMALL_PACKET:
        yield failed("max_allowed_packet", f"max_allowed_packet = {most}: statements of ours are refused", hint)
    elif most < PACKET and large:
        text = f"max_allowed_packet = {most}: a row that takes more, as text or as hexadecimal digits, is refused"
        yield warning("max_allowed_packet", f"{text} ({some(large)})", hint, names=large)


_UNBOUNDED = (Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.GEOMETRY, Kind.NATIVE)


def check_connections(live: Live) -> Iterator[CheckResult]:
    parallel = int(live.context.user_choices.get("load.parallel") or 4)
    wanted = OUR_CONNECTIONS + parallel
    found = list(rooms(live.connection, live.variables, live.family, live.version, wanted))
    yield from judged(found, "target", OUR_CONNECTIONS, parallel)


def check_names(live: Live) -> Iterator[CheckResult]:
    """Check for names that the server does not take, and for tables that would be one there."""
    by_target: dict[tuple[str, str], list[TargetTable]] = defaultdict(list)
    folds = live.variables.get("lower_case_table_names", "0") != "0"
    for table in live.context.targets.values():
        place = (table.target.schema, table.target.name)
        by_target[(place[0].lower(), place[1].lower()) if folds else place].append(table)
        for name in refused_names(table):
            text = f"{name!r} is no name there: longer than 64 characters, or with characters that it may not have"
            yield failed("names", text, _renamed(table, name), table)
        for name in _told_by_case_alone(table):
            text = f"column {name!r} has the name of another one there: names of columns have no case"
            yield failed("names", text, _renamed(table, name, f"{name}_2"), table)
    for tables in by_target.values():
        if len(tables) > 1:
            sources = ", ".join(str(t.source) for t in tables)
            why = "" if len({t.target for t in tables}) == 1 else ": its names have no case (lower_case_table_names)"
            text = f"{sources} would all go into {tables[0].target}{why}"
            yield failed("names", text, "give each its own [[rules]] target", names=[str(t.source) for t in tables])


def _told_by_case_alone(table: TargetTable) -> Iterator[str]:
    """Yield columns whose names an earlier column has, but for the case."""
    seen: set[str] = set()
    for name in (*table.columns, *(name for _, name in table.computed)):
        if name.lower() in seen:
            yield name
        seen.add(name.lower())


def _renamed(table: TargetTable, name: str, otherwise: str = "") -> str:
    """Suggest what the job file may say instead, with a name that fits."""
    if name in table.columns:
        source = table.source_columns[table.columns.index(name)] if table.source_columns else name
        renamed = f"{{ {toml(source)} = {toml(otherwise or shortened(name))} }}"
        return f"[[tables]] name = {toml(str(table.source))}, columns.rename = {renamed}"
    target = TableId(shortened(table.target.schema), shortened(table.target.name))
    return f"before the other rules: [[rules]] include = [{toml(str(table.source))}], target = {toml(str(target))}"


def _shown(live: Live) -> str:
    return f"{NAMES[live.family]} {'.'.join(map(str, live.version))}"
