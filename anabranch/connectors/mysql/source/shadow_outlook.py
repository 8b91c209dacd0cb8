"""Foresee what a drill's shadow takes at a MySQL or MariaDB: room, rights, and whether it is kept out of the server's log.

Nothing is changed there. What does not live here: making it (shadow.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import pymysql

from anabranch.connectors.mysql.connection import account, ask, family, variables, version
from anabranch.connectors.mysql.rights import TO_WRITE, Rights, as_pattern, grant, log_right
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.contracts import Outlook
from anabranch.errors import SourceError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId

SIZES = """
SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(DATA_LENGTH, 0) + COALESCE(INDEX_LENGTH, 0) FROM information_schema.TABLES
 WHERE TABLE_TYPE <> 'VIEW' AND TABLE_SCHEMA IN ({})
"""
DENIED = (1227, 1142, 1044)  # ER_SPECIFIC_ACCESS_DENIED_ERROR and its like
WSREP, GROUP = "wsrep_on", "group_replication_group_name"
PORT = 2  # of SHOW REPLICAS: a job of ours says 0
NAMED = 5
LOGGED = "anabranch drill JOB --logged takes that"


def outlook(connection: pymysql.Connection, schema: str, tables: Collection[TableId], admits_log: bool) -> Outlook:
    """Return what a shadow of this name takes. It is kept out of the log wherever that can be had."""
    findings = list(_rights(connection, schema, tables))
    why = _why_logged(connection)
    if why:
        findings.append(_logged(connection, why, admits_log))
    return Outlook(_room(connection, tables), tuple(findings), {} if why else {"sql_log_bin": False})


def code_of(error: SourceError) -> Any:
    """Return the server's number of an error."""
    cause = error.__cause__
    return cause.args[0] if isinstance(cause, pymysql.err.Error) and cause.args else None


def _room(connection: pymysql.Connection, tables: Collection[TableId]) -> int:
    if not tables:
        return 0
    schemas = ", ".join(connection.escape(one) for one in sorted({table.schema for table in tables}))
    return sum(int(size) for of, name, size in ask(connection, SIZES.format(schemas)) if TableId(of, name) in tables)


def _rights(connection: pymysql.Connection, schema: str, tables: Collection[TableId]) -> Iterator[CheckResult]:
    """Find rights that are missing, on any table of the shadow and on those that are copied."""
    rights, user = Rights([str(row[0]) for row in ask(connection, "SHOW GRANTS")]), account(connection)
    wanted = TableId(schema, "any")
    if lacking := [right for right in TO_WRITE if not rights.has(right, wanted)]:
        text = f"{user} lacks {', '.join(lacking)} on the database of the shadow, {schema}"
        yield _failed("rights", text, grant(", ".join(TO_WRITE), f"{as_pattern(schema)}.*", user))
    for table in sorted(tables):
        if not rights.has("SELECT", table):
            yield _failed(
                "rights", f"{user} lacks SELECT on {table}", grant("SELECT", qualified(table), user), str(table)
            )


def _why_logged(connection: pymysql.Connection) -> str:
    """Say why what is written to the shadow stands in the server's log, "" where it can be kept out of it."""
    found = variables(connection, WSREP, GROUP)
    if found.get(WSREP, "OFF").upper() in ("ON", "1") or found.get(GROUP):
        return "the server is one of a cluster, and its log is how the others get what is written"
    try:
        ask(connection, "SET SESSION sql_log_bin = 0")
    except SourceError as error:
        if code_of(error) not in DENIED:
            raise
        right = log_right(family(connection), version(connection))
        return f"{account(connection)} may not keep its writes out of it ({grant(right, '*.*', account(connection))})"
    ask(connection, "SET SESSION sql_log_bin = 1")
    return ""


def _logged(connection: pymysql.Connection, why: str, admits_log: bool) -> CheckResult:
    replicas = _replicas(connection)
    whom = f", and its replicas get all of it ({', '.join(replicas[:NAMED])})" if replicas else ""
    text = f"what is written to the shadow would stand in the source's log{whom}: {why}"
    if admits_log:
        return CheckResult("drill.log", CheckVerdict.WARNING, text.replace(" would stand", " stands"))
    return _failed("log", text, f"give it the right, or {LOGGED}" if "GRANT" in why else LOGGED)


def _replicas(connection: pymysql.Connection) -> list[str]:
    """Name servers that read the log, as far as the user may see them; jobs of ours are none."""
    for words in ("SHOW REPLICAS", "SHOW SLAVE HOSTS"):
        with suppress(SourceError):
            rows = ask(connection, words)
            return [f"server {row[0]} {row[1]}".strip() for row in rows if int(row[PORT] or 0)]
    return []


def _failed(check: str, message: str, hint: str, table: str = "") -> CheckResult:
    return CheckResult(f"drill.{check}", CheckVerdict.FAILED, message, hint, table)
