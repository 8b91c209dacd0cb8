"""Emptying tables by TRUNCATE, between two epochs (`[apply] truncate = "truncate"`, K16, K17).

TRUNCATE commits by itself, so it stands outside of every epoch: the checkpoint is that of the transaction before it, and the
epoch of the transaction that truncates follows, which finds nothing left to delete. A process that dies in between does it
again, and no later row can have come. While the tables are emptied a lock keeps the checkpoint where it is: who takes over
ends this session first, or waits, so that nobody's rows are emptied away.
https://dev.mysql.com/doc/refman/8.0/en/truncate-table.html · https://dev.mysql.com/doc/refman/8.0/en/lock-tables.html ·
https://mariadb.com/kb/en/lock-tables/

What does not live here: which transactions do nothing else (apply engine), rights (`preflight_rights.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.connectors.mysql.target import ownership
from anabranch.connectors.mysql.target.exchange import REFERRED
from anabranch.connectors.mysql.target.known_columns import has_triggers
from anabranch.connectors.mysql.target.session import Connection, ask, one, run, table_name
from anabranch.connectors.mysql.target.shared_tables import refuse_truncate
from anabranch.contracts import Conflict
from anabranch.model.markers import comment
from anabranch.model.state import Checkpoint
from anabranch.rows.net import TargetTable

CHECKPOINT = "`anabranch`.`checkpoint`"
TYPE = "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
BASE = (
    "BASE TABLE"  # a table that keeps its history is not truncated: https://mariadb.com/kb/en/system-versioned-tables/
)


def takes_truncate(connection: Connection, job: str, table: TargetTable) -> bool:
    """Return whether TRUNCATE does just what deleting every row does: no trigger would see those, no key refers to them, and
    all are this job's."""
    place = (table.target.schema, table.target.name)
    if (
        one(connection, TYPE, *place) != BASE
        or has_triggers(connection, table.target)
        or ask(connection, REFERRED, *place)
    ):
        return False
    try:
        refuse_truncate(connection, job, table)
    except Conflict:  # the epoch says so
        return False
    return True


def truncate(connection: Connection, job: str, now: Checkpoint, tables: Sequence[TargetTable]) -> Checkpoint:
    """Empty tables if the checkpoint stands at `now`, and return where it stands. No transaction may be open. Driver errors
    pass."""
    names = [table_name(table.target) for table in tables]
    run(connection, f"LOCK TABLES {CHECKPOINT} READ, {', '.join(f'{name} WRITE' for name in names)}")
    try:
        found = ownership.checkpoint(connection, job)
        if (found.owner, found.epoch, found.position.sequence) == (now.owner, now.epoch, now.position.sequence):
            for name in names:
                run(connection, f"TRUNCATE TABLE {name} {comment(job)}")
        return found
    finally:
        if connection.open:
            run(connection, "UNLOCK TABLES")
