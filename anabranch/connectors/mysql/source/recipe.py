"""Tell what has to be set up at a MySQL or MariaDB before a job reads it: the facts of preflight, as steps in their order.

What does not live here: the facts themselves (`preflight_server.py`, `privileges.py`), which the checks judge by.
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.mysql import versions
from anabranch.connectors.mysql.rights import as_pattern, grant
from anabranch.connectors.mysql.source.preflight_room import OUR_CONNECTIONS
from anabranch.connectors.mysql.source.preflight_server import (
    KEPT_DAYS,
    KEPT_SECONDS,
    KEPT_SINCE,
    LOG_REPLICATED,
    NAMES,
    OLDEST,
    ROW_IMAGE,
    SERVER_ID,
    SETTINGS,
    Setting,
)
from anabranch.connectors.mysql.source.privileges import GLOBAL_RIGHTS, WATERMARK_RIGHTS
from anabranch.connectors.mysql.source.watermark import SCHEMA
from anabranch.model.checks import CheckVerdict
from anabranch.model.recipe import Asked, EndRecipe, Item, Step, Version, check, made, setting, statement

GTID = ("gtid_mode = ON", "enforce_gtid_consistency = ON")
# Rights without which a check can only say that it could not ask, or tables show less than they have.
OPTIONAL = {
    "mysql": (("XA_RECOVER_ADMIN", "a job waits for XA transactions that are older than its start", (8, 0)),),
    "mariadb": (("SLAVE MONITOR", "preflight sees how a replica is filtered", (10, 5)),),
}


def recipe_of(family: str, asked: Asked) -> EndRecipe:
    """Return the steps for a server of this family. Pure: no server is asked."""
    return EndRecipe((*_server(family, asked.version), *_user(family, asked), _tables()), OLDEST[family])


def _server(family: str, version: Version) -> Iterator[Step]:
    oldest = ".".join(map(str, OLDEST[family])).removesuffix(".0")
    text = f"{NAMES[family]} {oldest} or later; the URL begins with {family}://"
    yield Step("source.release", "The release", (check(text),), ("source.family", "source.version"))
    judged = (*SETTINGS, ROW_IMAGE, SERVER_ID, LOG_REPLICATED)
    yield Step(
        "source.log",
        "The binary log, with rows",
        (*_lines(family, version, judged), *_gtids(family, version), check(LEFT_OUT)),
        (*(f"source.{one.name}" for one in judged), *OF_LOG),
    )
    kept = KEPT_SECONDS if version >= KEPT_SINCE[family] else KEPT_DAYS
    why = "longer than capture will ever stand still; no max_binlog_total_size"
    yield Step("source.retention", "How long the log is kept", (setting(kept, why),), ("source.log_retention",))
    text = f"max_connections and limits of the user leave {OUR_CONNECTIONS} connections and [load] parallel more"
    yield Step("source.connections", "Room for the job's sessions", (check(text),), ("source.connections",))


LEFT_OUT = "binlog_do_db and binlog_ignore_db leave out no database of the job, nor do a replica's filters"
OF_LOG = (
    "source.binlog_row_value_options", "source.gtid", "source.binlog_filters", "source.replica_filters",
    "source.binlog_order_commits", "source.innodb_support_xa", "source.read_only",
)  # fmt: skip


def _lines(family: str, version: Version, settings: tuple[Setting, ...]) -> Iterator[Item]:
    for one in settings:
        if one.line and version >= one.since.get(family, ()):
            is_optional = one.verdict is CheckVerdict.WARNING or one is LOG_REPLICATED
            why = f"else: {one.message}" if one.message else ""
            yield setting(one.line, why or "else: some changes park their table", one.needs_restart, is_optional)


def _gtids(family: str, version: Version) -> Iterator[Item]:
    if family == "mysql" and versions.has("GTIDs", family, version):
        why = "another server can take over" + (
            "" if _is_told(family, version) else "; the load needs a watermark all the same"
        )
        yield from (setting(line, why, is_optional=True) for line in GTID)


def _is_told(family: str, version: Version) -> bool:
    """Return whether a snapshot knows its place in the log, where GTIDs are on: else the load writes a row of its own."""
    return versions.has("GTIDs of what is committed", family, version)


def _user(family: str, asked: Asked) -> Iterator[Step]:
    user = f"'{asked.user}'@'%'"
    login = statement(f"CREATE USER {user} IDENTIFIED BY '<password>'")
    yield Step("source.user", "The job's user", (login,), ("source.reached",))
    given = [statement(grant(", ".join(names[0] for names in GLOBAL_RIGHTS[family]), "*.*", user), "read the log")]
    read = "SELECT, REFERENCES" if family == "mariadb" else "SELECT"
    why = "read the tables" + (", and see their foreign keys" if family == "mariadb" else "")
    given += [statement(grant(read, f"{as_pattern(schema)}.*", user), why) for schema in asked.schemas]
    why = "preflight and cut-overs see which triggers its tables have"
    given += [statement(grant("TRIGGER", f"{as_pattern(schema)}.*", user), why, True) for schema in asked.schemas]
    place = f"`{SCHEMA}`.*"
    if family == "mysql":
        why = "the load notes its place in the log there" + (
            " unless gtid_mode = ON" if _is_told(family, asked.version) else ""
        )
        given.append(statement(grant(", ".join(WATERMARK_RIGHTS), place, user), why, _is_told(family, asked.version)))
    given.append(statement(grant("SELECT", place, user), "see what other jobs write to this server", True))
    for right, why, since in OPTIONAL[family]:
        if asked.version >= since:
            given.append(statement(grant(right, "*.*", user), why, True))
    mended = ("source.grants", "source.rights", "source.xa", "source.replica", "source.triggers")
    yield Step("source.rights", "Its rights", tuple(given), mended)
    if family == "mysql":
        text = f"table watermark of the database {SCHEMA}"
        why = "where the load has to note its place in the log; anabranch drop JOB removes it"
        yield Step("source.made", "What the product makes here", (made(text, why),))


def _tables() -> Step:
    text = "anabranch preflight JOB: engines with transactions, a primary key, types and keys that can be followed"
    return Step("source.tables", "The tables", (check(text),), ("source.engines", "source.keys"))
