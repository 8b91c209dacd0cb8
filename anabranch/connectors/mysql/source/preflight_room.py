"""Check of the sessions that the server and the account let the job open. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.mysql.connection import account, ask
from anabranch.connectors.mysql.source.preflight_facts import Live
from anabranch.model.checks import CheckResult
from anabranch.model.room import Room, judged

# Beside those of a load's pieces: capture's two, load's own with its lock or watermark, that of `run`, and one that asks who is
# in the way.
OUR_CONNECTIONS = 6
# A session sees those of its own user without further rights.
# https://dev.mysql.com/doc/refman/8.0/en/information-schema-processlist-table.html
_OF_THE_USER = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(USER(), '@', 1)"
_OF_ALL = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
# The account's own limit, or the server's for all accounts; 0 = none.
# https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_max_user_connections
_USERS_MOST = "SELECT @@SESSION.max_user_connections, @@GLOBAL.max_user_connections"
ALTERS_LIMITS = {"mysql": (5, 7, 6), "mariadb": (10, 2, 0)}  # from here on ALTER USER … WITH; before it is a GRANT's


def check_connections(live: Live) -> Iterator[CheckResult]:
    parallel = int(live.context.user_choices.get("load.parallel") or 4)
    yield from judged(list(_rooms(live, OUR_CONNECTIONS + parallel)), "source", OUR_CONNECTIONS, parallel)


def _rooms(live: Live, wanted: int) -> Iterator[Room]:
    """Yield the limits on sessions. Nobody can say which of the user's sessions are the job's: as many as it may open
    count as its own.
    """
    ((own,),) = ask(live.connection, _OF_THE_USER)
    others = max(0, int(own) - wanted)
    ((_, connected),) = ask(live.connection, _OF_ALL)
    most = int(live.variables["max_connections"])
    taken = int(connected) - int(own) + others
    yield Room(
        f"max_connections = {most}", most, max(0, taken), f"SET GLOBAL max_connections = {max(0, taken) + wanted}"
    )
    ((mine, everybody),) = ask(live.connection, _USERS_MOST)
    if int(mine):
        user = account(live.connection)
        is_own = int(mine) != int(everybody)
        shown = (
            f"{user} may have {mine} connections (MAX_USER_CONNECTIONS)" if is_own else f"max_user_connections = {mine}"
        )
        altered = f"ALTER USER {user} WITH MAX_USER_CONNECTIONS {others + wanted}"
        if live.version < ALTERS_LIMITS[live.family]:
            altered = f"GRANT USAGE ON *.* TO {user} WITH MAX_USER_CONNECTIONS {others + wanted}"
        yield Room(
            shown, int(mine), others, altered if is_own else f"SET GLOBAL max_user_connections = {others + wanted}"
        )
