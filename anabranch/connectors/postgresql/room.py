"""Asks how many sessions a server, a database and a role let the job open; for either end.

What does not live here: slots and readers of the log (preflight_server.py).
"""

from __future__ import annotations

from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import quote
from anabranch.model.room import Room

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


def rooms(connection: Connection, end: str, wanted: int) -> list[Room]:
    """Return the limits on sessions. Raises psycopg.Error."""
    found = connection.execute(_ROOM).fetchall()
    return [
        Room(_shown(of, name, usable), usable, taken, _raised(connection, end, (of, name, usable), taken + wanted))
        for of, name, usable, taken in found
    ]


def _shown(of: str, name: str, usable: int) -> str:
    return {
        "server": f"the server has {usable} for ordinary users (max_connections without what is reserved)",
        "database": f"the database {name} takes {usable} (CONNECTION LIMIT)",
        "role": f"the role {name} may have {usable} (CONNECTION LIMIT)",
    }[of]


def _raised(connection: Connection, end: str, limit: tuple[str, str, int], enough: int) -> str:
    of, name, usable = limit
    if of == "server":
        row = connection.execute("SELECT current_setting('max_connections')::int").fetchone()
        reserved = (int(row[0]) if row else 0) - usable
        return f"ALTER SYSTEM SET max_connections = {enough + reserved}; restart the {end}"
    return f"ALTER {of.upper()} {quote(name)} CONNECTION LIMIT {enough}"
