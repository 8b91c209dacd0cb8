"""Asks whether a transaction of the log is seen by others: its commit is logged before that, and may wait for standbys."""

from __future__ import annotations

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.source.positions import nearest

# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-TXID-SNAPSHOT; a release before 13 has no other names
_NEWEST = "SELECT pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())"
_IS_SEEN = "SELECT pg_catalog.txid_visible_in_snapshot(%s::bigint, pg_catalog.txid_current_snapshot())"


def is_seen(connection: Connection, xid: int) -> bool:
    """Return whether a transaction of the log, by the 32 bits of its number, is seen. Driver errors pass."""
    newest = int(str(one(connection, _NEWEST)))
    return bool(one(connection, _IS_SEEN, [nearest(xid, newest)]))
