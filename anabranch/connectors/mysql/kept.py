"""Snapshots that one session keeps for many tables, at either end: how it lets go of the definitions of those that it has read.

Whoever alters or empties a table waits until every transaction that has read it is over, and everybody else behind him. Going
back to a savepoint lets go of what was locked behind it, and leaves the snapshot as it is. A MariaDB does so only in a session
that logs nothing (seen in 10.11; a MySQL always). https://dev.mysql.com/doc/refman/8.0/en/metadata-locking.html
"""

from __future__ import annotations

import pymysql

from anabranch.connectors.mysql.connection import account, family, fetch, version
from anabranch.connectors.mysql.rights import grant, log_right

SAVED, BACK = "SAVEPOINT anabranch", "ROLLBACK TO SAVEPOINT anabranch"
LOST = "the connection that reads in a snapshot is lost"
HOLDS = "a session of this MariaDB that may log would lock the definition of each table it has read until its snapshot ends: {}"
DENIED = (1227, 1229)  # of a session variable


def why_held(connection: pymysql.Connection) -> str:
    """Make a session let go of definitions; say why it cannot, "" where it does. Outside of a transaction; nothing is written
    in it from then on. Errors of the driver pass."""
    if family(connection) != "mariadb" or not fetch(connection, "SELECT @@GLOBAL.log_bin")[0][0]:
        return ""
    try:
        fetch(connection, "SET SESSION sql_log_bin = 0")
    except pymysql.err.Error as error:
        if error.args[0] not in DENIED:
            raise
        right = log_right(family(connection), version(connection))
        return HOLDS.format(grant(right, "*.*", account(connection)))
    return ""
