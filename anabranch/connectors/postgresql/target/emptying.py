"""Tables of a PostgreSQL emptied inside an epoch.

What does not live here: who may not have them emptied (enforced.py, shared_tables.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.ids import TableId

REFERENCED = """
SELECT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND conparentid = 0
                  AND confrelid = ANY(%s::regclass[]) AND conrelid <> ALL(%s::regclass[]))
"""


def empty(connection: Connection, tables: Sequence[TableId], by_delete: bool) -> None:
    """Empty tables at once. `by_delete`: and not by TRUNCATE, which tables that others refer to get in no case."""
    names = [table_name(table) for table in tables]
    shown = [name.as_string(connection) for name in names]
    row = connection.execute(REFERENCED, [shown, shown]).fetchone()
    if by_delete or (row and row[0]):
        for name in names:
            connection.execute(sql.SQL("DELETE FROM {}").format(name))
    else:
        connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))
