"""Does the source, as a replica, leave out what its own source logs, where the job needs it?

What does not live here: what the server leaves out of its own log (`preflight_server.py`).
https://dev.mysql.com/doc/refman/8.0/en/replication-rules.html · https://mariadb.com/kb/en/replication-filters/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from anabranch.connectors.mysql.errors import translate
from anabranch.connectors.mysql.source.preflight_facts import Live, ok, warning
from anabranch.connectors.mysql.versions import knows
from anabranch.model.checks import CheckResult
from anabranch.model.markers import SCHEMA, TABLES, jobs_among


def check_replica_filters(live: Live) -> Iterator[CheckResult]:
    """Check whether rows that say which job has written a transaction pass the filters of a replica (K21)."""
    if not jobs_among(live.context.leave_out):
        return
    found = _rows(live, _words(live))
    lost = sorted({f"{SCHEMA}.{table}" for of in found for table in TABLES if not passes(of, table)})
    if lost:
        why = f"this replica leaves out {', '.join(lost)}: what a job writes at its source comes here without saying so"
        hint = f"let the database {SCHEMA} pass the replica's filters, or read the server to which the other job writes"
        yield warning("replica_filters", why, hint)
    else:
        yield ok("replica_filters", "no filter of a replica hides which job has written a transaction")


def passes(filters: Mapping[str, Any], table: str) -> bool:
    """Return whether rows of a table of `anabranch` pass a replica's filters under their own name, as its status shows them:
    filters see names as they are rewritten."""
    if rewritten(filters.get("Replicate_Rewrite_DB")).get(SCHEMA, SCHEMA) != SCHEMA:
        return False
    given = {name: _list(filters.get(f"Replicate_{name}")) for name in NAMES}
    name = f"{SCHEMA}.{table}"
    if (given["Do_DB"] and SCHEMA not in given["Do_DB"]) or (not given["Do_DB"] and SCHEMA in given["Ignore_DB"]):
        return False
    for do, ignore, fits in (("Do_Table", "Ignore_Table", _equal), ("Wild_Do_Table", "Wild_Ignore_Table", _like)):
        if any(fits(one, name) for one in given[do]):
            return True
        if any(fits(one, name) for one in given[ignore]):
            return False
    return not (given["Do_Table"] or given["Wild_Do_Table"])


def rewritten(text: Any) -> dict[str, str]:
    """Return under which names databases are written, as a MySQL lists them, `(a,b),(c,d)`, or a MariaDB, `a->b,c->d`."""
    return {source.strip(): target.strip() for source, target in PAIR.findall(str(text or ""))}


PAIR = re.compile(r"([^,()>]+?)(?:->|,)([^,()>]+)")
NAMES = ("Do_DB", "Ignore_DB", "Do_Table", "Ignore_Table", "Wild_Do_Table", "Wild_Ignore_Table")


def _words(live: Live) -> str:
    """Return what lists all connections over which the server replicates."""
    if live.family == "mariadb":
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if knows(live.connection, "replica status") else "SHOW SLAVE STATUS"


def _rows(live: Live, statement: str) -> list[dict[str, Any]]:
    try:
        with live.connection.cursor(DictCursor) as cursor:
            cursor.execute(statement)
            return [dict(row) for row in cursor.fetchall()]
    except (pymysql.err.Error, OSError) as error:
        raise translate(error) from error


def _list(text: Any) -> list[str]:
    return [one.strip() for one in str(text or "").split(",") if one.strip()]


def _equal(one: str, name: str) -> bool:
    return one == name


def _like(pattern: str, name: str) -> bool:
    parts = re.findall(r"\\.|.", pattern)
    made = ("." if one == "_" else ".*" if one == "%" else re.escape(one.removeprefix("\\")) for one in parts)
    return re.fullmatch("".join(made), name) is not None
