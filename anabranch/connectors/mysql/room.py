"""Asks how many sessions a server and an account let the job open; for either end.

What does not live here: how many the job opens (each role's preflight), what is said of it (model/room.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pymysql

from anabranch.connectors.mysql.connection import account, ask
from anabranch.model.room import Room

# A session sees those of its own user without further rights.
# https://dev.mysql.com/doc/refman/8.0/en/information-schema-processlist-table.html
_OF_THE_USER = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = SUBSTRING_INDEX(USER(), '@', 1)"
_OF_ALL = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
# The account's own limit, or the server's for all accounts; 0 = none.
# https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_max_user_connections
_USERS_MOST = "SELECT @@SESSION.max_user_connections, @@GLOBAL.max_user_connections"
ALTERS_LIMITS = {"mysql": (5, 7, 6), "mariadb": (10, 2, 0)}  # from here on ALTER USER … WITH; before it is a GRANT's


def rooms(
    connection: pymysql.Connection,
    variables: Mapping[str, str],
    family: str,
    version: tuple[int, int, int],
    wanted: int,
) -> Iterator[Room]:
    """Yield the limits on sessions. Nobody can say which of the user's sessions are the job's: as many as it may open
    count as its own.
    """
    ((own,),) = ask(connection, _OF_THE_USER)
    others = max(0, int(own) - wanted)
    ((_, connected),) = ask(connection, _OF_ALL)
    most = int(variables["max_connections"])
    taken = int(connected) - int(own) + others
    yield Room(
        f"max_connections = {most}", most, max(0, taken), f"SET GLOBAL max_connections = {max(0, taken) + wanted}"
    )
    ((mine, everybody),) = ask(connection, _USERS_MOST)
    if int(mine):
        user = account(connection)
        is_own = int(mine) != int(everybody)
        shown = (
            f"{user} may have {mine} connections (MAX_USER_CONNECTIONS)" if is_own else f"max_user_connections = {mine}"
        )
        altered = f"ALTER USER {user} WITH MAX_USER_CONNECTIONS {others + wanted}"
        if version < ALTERS_LIMITS[family]:
            altered = f"GRANT USAGE ON *.* TO {user} WITH MAX_USER_CONNECTIONS {others + wanted}"
        yield Room(
            shown, int(mine), others, altered if is_own else f"SET GLOBAL max_user_connections = {others + wanted}"
        )
