"""Ask whether the job's user passes `read_only`, which the fence of a cut-over leaves on at this server for everybody else.

https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_read_only · https://mariadb.com/kb/en/grant/#read_only-admin
What does not live here: the fence (`source/fence.py`), accounts that should not pass it (`source/fence_checks.py`).
"""

from __future__ import annotations

from contextlib import closing

from anabranch.connectors.mysql.connection import account, family, version
from anabranch.connectors.mysql.rights import Rights, grant
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.session import ask, connect
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint

CHECK = "cutover.reverse"
KNOWN_SINCE = (10, 5, 2)  # before, a MariaDB has no right but SUPER that passes it
OWN_RIGHT_SINCE = (10, 11, 0)  # a MariaDB's SUPER does not pass it from here on
SPELLED = ("READ_ONLY ADMIN", "READ ONLY ADMIN")


def passes_fence(endpoint: Endpoint) -> list[CheckResult]:
    with closing(connect(endpoint, "anabranch-preflight", autocommit=True)) as connection:
        with translated("ask which rights the job's user has"):
            rights = Rights([str(row[0]) for row in ask(connection, "SHOW GRANTS")])
            user, passing = account(connection), passes(family(connection), version(connection))
        if rights.has_any(passing):
            return []
    said = f"{user} cannot write at {endpoint.place} while its fence stands: it lacks {passing[0]}"
    return [CheckResult(CHECK, CheckVerdict.FAILED, said, grant(passing[0], "*.*", user))]


def passes(kind: str, release: tuple[int, ...]) -> tuple[str, ...]:
    """Return the rights with which read_only does not hold, the one to grant first."""
    if kind == "mariadb":
        if release < KNOWN_SINCE:
            return ("SUPER",)
        return SPELLED if release >= OWN_RIGHT_SINCE else (*SPELLED, "SUPER")
    return ("CONNECTION_ADMIN", "SUPER") if release >= (8, 0, 0) else ("SUPER",)
