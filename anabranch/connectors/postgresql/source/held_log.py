"""A job's slot as the source has it, and the log that is kept for it.

https://www.postgresql.org/docs/current/view-pg-replication-slots.html
What does not live here: making and removing slots (slots.py), reading one (capture.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.source.connection import log_end
from anabranch.connectors.postgresql.source.positions import lsn_of
from anabranch.model.position import HeldLog

_LIMIT = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size'"
_WAL_STATUS = 130_000  # https://www.postgresql.org/docs/13/view-pg-replication-slots.html
_REASON = 170_000  # https://www.postgresql.org/docs/17/view-pg-replication-slots.html
_REMOVED = "the server has removed log that it needs (max_slot_wal_keep_size)"
_REASONS = {
    "idle_timeout": "nobody has read it for longer than idle_replication_slot_timeout",
    "wal_level_insufficient": "wal_level was lowered meanwhile",
    "rows_removed": "the server has removed rows of the catalogue that it needs",
}
_SLOT = """
SELECT plugin::text, database::text, coalesce(confirmed_flush_lsn::text, '0/0'), coalesce(restart_lsn::text, '0/0'),
       active_pid, {status}, {reason}, {failover} FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""


@dataclass(frozen=True, slots=True)
class Slot:
    """`lost`: why nothing can be read from it any more, "" if it can."""

    plugin: str
    database: str
    confirmed: int
    restart: int
    reader: int | None
    lost: str
    failover: bool | None = None  # do standbys keep it? None where they cannot


def read_slot(connection: Connection, name: str) -> Slot | None:
    status = "wal_status::text" if connection.info.server_version >= _WAL_STATUS else "NULL::text"
    reason = "invalidation_reason::text" if connection.info.server_version >= _REASON else "NULL::text"
    failover = "failover" if connection.info.server_version >= _REASON else "NULL::bool"
    query = _SLOT.format(status=status, reason=reason, failover=failover)
    row = connection.execute(query.encode(), [name]).fetchone()
    if row is None:
        return None
    plugin, database, confirmed, restart, reader, status, reason, failover = row
    lost = _REASONS.get(reason, _REMOVED) if status == "lost" else ""
    return Slot(str(plugin), str(database), lsn_of(confirmed), lsn_of(restart), reader, lost, failover)


def held(connection: Connection, name: str, much: int) -> HeldLog | None:
    """Log that the slot keeps, with transactions that were open where it begins. From `much` bytes on somebody should look."""
    slot = read_slot(connection, name)
    if slot is None:
        return None
    if slot.lost:
        return HeldLog(0, None, slot.lost)
    size = max(0, log_end(connection) - slot.restart)
    setting = one(connection, _LIMIT)
    limit = int(setting) << 20 if setting not in (None, "-1") else None
    warning = ""
    if limit is not None and size > limit // 2:
        warning = "more than half of max_slot_wal_keep_size: beyond it the slot is lost, and all tables load again"
    elif size > much:
        bound = "" if limit is not None else "; nothing bounds it (max_slot_wal_keep_size): it may fill the disk"
        warning = f"more than [source.options] held_log_warning_mb = {much >> 20}{bound}"
    return HeldLog(size, limit, warning)
