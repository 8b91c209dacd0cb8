"""Triggers of a table that is dropped and made anew: the server drops them with it, so they are told before.

They are not made again: DROP TABLE commits by itself, a trigger runs as its definer, and a new table may lack its columns.
Privileges stay, since a server of this family keeps them by name. https://dev.mysql.com/doc/refman/8.4/en/drop-table.html
"""

from __future__ import annotations

from anabranch import log
from anabranch.connectors.mysql.target.session import Connection, ask, quoted
from anabranch.rows.net import TargetTable

TRIGGERS = """
SELECT TRIGGER_NAME FROM information_schema.TRIGGERS
 WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s ORDER BY EVENT_MANIPULATION, ACTION_TIMING, ACTION_ORDER
"""


def tell(connection: Connection, table: TargetTable) -> None:
    """Log the triggers of the target table with the statements that make them."""
    schema = quoted(table.target.schema)
    names = [str(name) for (name,) in ask(connection, TRIGGERS, table.target.schema, table.target.name)]
    lost = [str(ask(connection, f"SHOW CREATE TRIGGER {schema}.{quoted(name)}")[0][2]) for name in names]
    if lost:
        log.get(table=str(table.source), target=str(table.target)).warning("table_made_anew_without", lost=lost)
