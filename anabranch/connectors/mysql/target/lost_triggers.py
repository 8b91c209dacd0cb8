"""Triggers of a table that is dropped and made anew: the server drops them with it, so they are told before.

Their names alone are told, since a trigger's body may hold a secret. Who lacks TRIGGER sees none: that is told as well.
They are not made again: DROP TABLE commits by itself, a trigger runs as its definer, and a new table may lack its columns.
Privileges stay, since a server of this family keeps them by name. https://dev.mysql.com/doc/refman/8.4/en/drop-table.html
"""

from __future__ import annotations

from anabranch import log
from anabranch.connectors.mysql.rights import Rights
from anabranch.connectors.mysql.target.session import Connection, ask
from anabranch.rows.net import TargetTable

TRIGGERS = """
SELECT TRIGGER_NAME FROM information_schema.TRIGGERS
 WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s ORDER BY EVENT_MANIPULATION, ACTION_TIMING, ACTION_ORDER
"""
UNSEEN = "the user lacks TRIGGER on the table: triggers that it may have are dropped with it, and are not known"


def tell(connection: Connection, table: TargetTable) -> None:
    """Log the names of the target table's triggers, or that nobody can see whether it has some."""
    said = log.get(table=str(table.source), target=str(table.target))
    lost = [f"trigger {name}" for (name,) in ask(connection, TRIGGERS, table.target.schema, table.target.name)]
    if lost:
        said.warning("table_made_anew_without", lost=lost)
    elif not Rights([str(row[0]) for row in ask(connection, "SHOW GRANTS")]).has("TRIGGER", table.target):
        said.warning("triggers_not_seen", why=UNSEEN)
