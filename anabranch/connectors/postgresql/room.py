"""How many sessions a server, a database and a role let the job open, and whether that is enough; for either end.

What does not live here: slots and readers of the log (preflight_server.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString, NamedTuple

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import quote

LEAST_PARALLEL = 1  # a load goes on with one piece at a time
# Sessions of others: ours are counted as free, since a job that runs already has its own. Of foreign sessions a user without
# rights sees database and role only. https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-ACTIVITY-VIEW
# https://www.postgresql.org/docs/current/runtime-config-connection.html#GUC-MAX-CONNECTIONS
# The database's and the role's limit hold for nobody who is a superuser: https://www.postgresql.org/docs/current/sql-createrole.html
_ROOM: LiteralString = """
WITH others AS (
  SELECT datid, usesysid FROM pg_catalog.pg_stat_activity
   WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'
     AND pid <> pg_catalog.pg_backend_pid()
     AND NOT (usename = session_user AND coalesce(application_name, '') LIKE 'anabranch%'))
SELECT 'server', '', current_setting('max_connections')::int - CASE WHEN r.rolsuper THEN 0 ELSE
         current_setting('superuser_reserved_connections')::int
         + coalesce(current_setting('reserved_connections', true), '0')::int END, (SELECT count(*) FROM others)
  FROM pg_catalog.pg_roles r WHERE r.rolname = session_user
UNION ALL
SELECT 'database', d.datname::text, d.datconnlimit, (SELECT count(*) FROM others WHERE others.datid = d.oid)
  FROM pg_catalog.pg_database d, pg_catalog.pg_roles r
 WHERE d.datname = current_database() AND r.rolname = session_user AND d.datconnlimit >= 0 AND NOT r.rolsuper
UNION ALL
SELECT 'role', r.rolname::text, r.rolconnlimit, (SELECT count(*) FROM others WHERE others.usesysid = r.oid)
  FROM pg_catalog.pg_roles r WHERE r.rolname = session_user AND r.rolconnlimit >= 0 AND NOT r.rolsuper
"""


class Room(NamedTuple):
    """Of one limit. `usable`: by ordinary users."""

    of: str
    name: str
    usable: int
    taken: int

    @property
    def free(self) -> int:
        return self.usable - self.taken

    @property
    def shown(self) -> str:
        return {
            "server": f"the server has {self.usable} for ordinary users (max_connections without what is reserved)",
            "database": f"the database {self.name} takes {self.usable} (CONNECTION LIMIT)",
            "role": f"the role {self.name} may have {self.usable} (CONNECTION LIMIT)",
        }[self.of]


class Judged(NamedTuple):
    """What preflight says of one limit."""

    verdict: str
    message: str
    hint: str


def judge(connection: Connection, end: str, own: int, parallel: int) -> Iterator[Judged]:
    """`own`: sessions of the job beside those of the load's `parallel` pieces. A limit that can never be enough fails; where
    others leave too few at the moment, or pieces would have to wait for each other, that is a warning. Raises psycopg.Error."""
    most, least = own + parallel, own + LEAST_PARALLEL
    rooms = [Room(*row) for row in connection.execute(_ROOM).fetchall()]
    for room in rooms:
        message = f"{room.shown}, others have {room.taken}: {max(0, room.free)} are free, the job opens up to {most}"
        hint = f"{_mending(connection, room, most, end)}; or lower [load] parallel, which is {parallel}"
        if room.usable < least:
            yield Judged("failed", f"{message}, and needs {least} with [load] parallel = {LEAST_PARALLEL}", hint)
        elif room.free < most:
            yield Judged("warning", message, hint)
    if all(room.free >= most for room in rooms):
        free = min(room.free for room in rooms)
        yield Judged("ok", f"{free} connections are free, the job opens up to {most}", "")


def _mending(connection: Connection, room: Room, most: int, end: str) -> str:
    wanted = room.taken + most
    if room.of == "server":
        row = connection.execute("SELECT current_setting('max_connections')::int").fetchone()
        reserved = (int(row[0]) if row else 0) - room.usable
        return f"ALTER SYSTEM SET max_connections = {wanted + reserved}; restart the {end}"
    return f"ALTER {room.of.upper()} {quote(room.name)} CONNECTION LIMIT {wanted}"
