"""Checks of the fence of a MySQL or MariaDB: rights that it needs, and who would pass it.

What does not live here: raising the fence (fence.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
from pymysql.cursors import DictCursor

from anabranch.connectors.mysql.connection import account, ask, family, variables, version
from anabranch.connectors.mysql.errors import translate
from anabranch.connectors.mysql.rights import Rights, grant
from anabranch.connectors.mysql.source.privileges import WATERMARK_RIGHTS
from anabranch.connectors.mysql.source.watermark import SCHEMA
from anabranch.connectors.mysql.versions import knows
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId

CHECK = "cutover.fence"
# Any of these names is enough; the last is the one to grant, where the release knows it.
# https://dev.mysql.com/doc/refman/8.0/en/privileges-provided.html · https://mariadb.com/kb/en/grant/#read_only-admin
NEEDS = {
    "mysql": (("SUPER", "SYSTEM_VARIABLES_ADMIN"), ("SUPER", "CONNECTION_ADMIN"), ("PROCESS",), ("XA_RECOVER_ADMIN",)),
    "mysql before 8.0": (("SUPER",), ("PROCESS",)),
    "mariadb": (("READ ONLY ADMIN", "READ_ONLY ADMIN"), ("PROCESS",), ("SUPER", "SLAVE MONITOR", "REPLICA MONITOR")),
}
XA = "GRANT XA_RECOVER_ADMIN ON *.* to the job's user"
PASSING = ("SUPER", "READ_ONLY ADMIN", "READ ONLY ADMIN")
ACCOUNTS = "SELECT DISTINCT GRANTEE FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN %s"
MEMBERS = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'"
NODES = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'"


def checks(connection: pymysql.Connection, has_super: bool) -> Iterator[CheckResult]:
    """Yield what is missing, and who passes. `has_super`: the server has super_read_only."""
    found = [*_rights(connection, has_super), *_others(connection)]
    if variables(connection, "read_only").get("read_only") == "ON":
        hint = "where that is another job's fence, that job has to return first; else SET GLOBAL read_only = OFF"
        found.append(_failed("read_only is on at the source: something else keeps the server shut", hint))
    found += [] if has_super else _accounts(connection)
    if not any(one.verdict == CheckVerdict.FAILED for one in found):
        by = (
            "super_read_only: nobody writes, SUPER included; once a way back is armed, read_only is left, which SUPER and"
            " CONNECTION_ADMIN pass"
            if has_super
            else "read_only, and the event scheduler is stopped"
        )
        found.append(CheckResult(CHECK, CheckVerdict.OK, f"the server is shut by {by}"))
    yield from found


def replicates(connection: pymysql.Connection) -> list[str]:
    """Say that the server applies another one's log, which no fence of ours stops; [] where it does not."""
    try:
        rows = _dicts(connection, _status(connection))
    except SourceUnavailable:
        raise
    except SourceError:  # for want of a right that `_rights` names
        return []
    applies = any(row.get("Replica_SQL_Running", row.get("Slave_SQL_Running")) == "Yes" for row in rows)
    return ["the source applies the log of another server, which a fence does not stop"] if applies else []


def _rights(connection: pymysql.Connection, has_super: bool) -> Iterator[CheckResult]:
    user, rights = account(connection), Rights([str(row[0]) for row in ask(connection, "SHOW GRANTS")])
    kind = family(connection)
    wanted = [*NEEDS[kind if kind == "mariadb" or version(connection) >= (8, 0, 0) else "mysql before 8.0"]]
    if not has_super and variables(connection, "event_scheduler").get("event_scheduler") == "ON":
        wanted.append(("SUPER",))
    for names in wanted:
        if not rights.has_any(names):
            yield _failed(f"{user} lacks {names[-1]}", grant(names[-1], "*.*", user))
    lacking = [right for right in WATERMARK_RIGHTS if not rights.has(right, TableId(SCHEMA, "watermark"))]
    if lacking:
        place = f"`{SCHEMA}`.*"
        yield _failed(f"{user} lacks {', '.join(lacking)} on {place}", grant(", ".join(WATERMARK_RIGHTS), place, user))


def _others(connection: pymysql.Connection) -> Iterator[CheckResult]:
    for said in replicates(connection):
        yield _failed(said, f"end that first: {_stop(connection)}")
    nodes = [int(value) for _, value in ask(connection, NODES) if str(value).isdigit()]
    if max(nodes, default=1) > 1 or _group_members(connection) > 1:
        yield _failed("the source is one of several nodes that take writes", "end the cluster down to this node first")


def _accounts(connection: pymysql.Connection) -> list[CheckResult]:
    mine = account(connection)
    names = sorted(str(row[0]) for row in ask(connection, ACCOUNTS, PASSING) if str(row[0]) != mine)
    if not names:
        return []
    said = f"{', '.join(names[:10])} may write in spite of read_only: what they do behind the fence breaks the cut-over off"
    return [CheckResult(CHECK, CheckVerdict.WARNING, said, "let none of them write meanwhile", names=tuple(names))]


def _group_members(connection: pymysql.Connection) -> int:
    try:
        return int(ask(connection, MEMBERS)[0][0])
    except SourceUnavailable:
        raise
    except SourceError:  # a server without it
        return 1


def _status(connection: pymysql.Connection) -> str:
    if family(connection) == "mariadb":
        return "SHOW ALL SLAVES STATUS"
    return "SHOW REPLICA STATUS" if knows(connection, "replica status") else "SHOW SLAVE STATUS"


def _stop(connection: pymysql.Connection) -> str:
    if family(connection) == "mariadb":
        return "STOP ALL SLAVES"
    return "STOP REPLICA SQL_THREAD" if knows(connection, "replica status") else "STOP SLAVE SQL_THREAD"


def _dicts(connection: pymysql.Connection, query: str) -> list[dict[str, object]]:
    try:
        with connection.cursor(DictCursor) as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())
    except (pymysql.err.Error, OSError) as error:
        raise translate(error) from error


def _failed(message: str, hint: str) -> CheckResult:
    return CheckResult(CHECK, CheckVerdict.FAILED, message, hint)
