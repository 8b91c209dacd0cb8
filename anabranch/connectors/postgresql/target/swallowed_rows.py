"""Rows that a trigger of the target leaves out: one that fires before a row is written and returns NULL takes it away, and the
server says so by its count alone. Where the job's user may not switch triggers off, such a row is refused by the trigger's
name, never missed.

A redundant update that suppress_redundant_updates_trigger() leaves out is refused as well: by the count it is the same.
https://www.postgresql.org/docs/current/trigger-definition.html
What does not live here: COPY, whose rows are counted as they are sent (copy_in.py), rules (preflight refuses them).
"""

from __future__ import annotations

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

# Bits of pg_trigger.tgtype; each row 1, before it 2: src/include/catalog/pg_trigger.h
_EVENTS = {"insert": 4, "delete": 8, "update": 16}
UPSERT = ("insert", "update")  # an insert of a row that may be there
# Names are read from the catalogue, not by regclass: the session need not see the table's schema.
_FIRING = b"""
WITH session AS (SELECT CASE WHEN current_setting('session_replication_role') = 'replica' THEN '{R,A}'
                             ELSE '{O,A}' END::"char"[] AS states),
     named AS (SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = %s AND c.relname = %s)
SELECT DISTINCT format('ALTER TABLE %%I.%%I DISABLE TRIGGER %%I', n.nspname, c.relname, t.tgname)
  FROM named CROSS JOIN LATERAL (SELECT named.oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(named.oid)) AS part
  JOIN pg_catalog.pg_trigger t ON t.tgrelid = part.oid CROSS JOIN session
  JOIN pg_catalog.pg_class c ON c.oid = part.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE NOT t.tgisinternal AND t.tgtype::int & 3 = 3 AND t.tgtype::int & %s <> 0 AND t.tgenabled = ANY (states) ORDER BY 1
"""


def switches(connection: Connection, table: TableId, *events: str) -> list[str]:
    """Return statements that switch off the triggers which fire in this session before a row of such statements."""
    bits = sum(_EVENTS[event] for event in events)
    return [row[0] for row in connection.execute(_FIRING, [table.schema, table.name, bits]).fetchall()]


def reason(table: TableId, found: list[str]) -> str:
    """Name the triggers, and says what to do."""
    return (
        f"a trigger of {table} that fires before each row has left it out: {'; '.join(found)}; or let the job's user switch"
        " triggers off (GRANT SET ON PARAMETER session_replication_role)"
    )


def refuse_left(connection: Connection, table: TargetTable, event: str, left: sql.Composed) -> None:
    """Raise Conflict where a trigger has left out rows: `left` finds those that a statement had to reach and did not."""
    found = switches(connection, table.target, event)
    if found and connection.execute(left).rowcount > 0:
        raise Conflict(table.source, reason(table.target, found))
