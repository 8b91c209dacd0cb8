"""Transactions, prepared ones among them, that have written to some tables and have not ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection

# Whoever writes holds one of these until his transaction ends. A prepared one has no process, and goes on under the virtual
# number that its session had, or "-1/xid" where the server was started since: its own number is that of another lock of it.
# https://www.postgresql.org/docs/current/view-pg-locks.html
_WRITERS: LiteralString = """
SELECT DISTINCT l.pid, a.usename::text, a.application_name, a.state,
       to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), p.gid, p.owner::text
  FROM pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN LATERAL (
       SELECT r.gid, r.owner FROM pg_catalog.pg_locks o JOIN pg_catalog.pg_prepared_xacts r ON r.transaction = o.transactionid
        WHERE o.locktype = 'transactionid' AND o.pid IS NULL AND o.virtualtransaction = l.virtualtransaction
          AND r.database = current_database()
        LIMIT 1) p ON l.pid IS NULL
 WHERE l.locktype = 'relation' AND l.granted AND l.relation = ANY (%s)
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')
   AND l.pid IS DISTINCT FROM pg_backend_pid()
 ORDER BY 1
"""


def holders(connection: Connection, tables: Sequence[int]) -> list[str]:
    """Say, for people, who they are, and for a prepared one what ends it. `tables`: their oids."""
    return [_said(*row) for row in connection.execute(_WRITERS, [list(tables)]).fetchall()]


def _said(pid: int | None, user: str, application: str, state: str, since: str, gid: str | None, owner: str) -> str:
    if pid is None:
        return (
            f"the prepared transaction {gid!r} of {owner}: COMMIT PREPARED or ROLLBACK PREPARED it"
            if gid
            else ("a prepared transaction: pg_prepared_xacts lists it")
        )
    return f"process {pid} (user {user}, application {application}), {state}, in a transaction since {since}"
