"""Rows that COPY puts into a table, counted: the server says how many it took, we know how many were sent.

https://www.postgresql.org/docs/current/sql-copy.html: a trigger BEFORE INSERT may leave rows out, and COPY counts without them.
What does not live here: sending rows (load.py, staging.py).
"""

from __future__ import annotations

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.errors import TargetError
from anabranch.model.ids import TableId

# tgtype: of each row 1, before it 2, for inserts 4
# https://www.postgresql.org/docs/current/catalog-pg-trigger.html, src/include/catalog/pg_trigger.h
TRIGGERS = """
SELECT t.tgrelid::regclass::text, quote_ident(t.tgname) FROM pg_trigger t
 WHERE (t.tgrelid = %(table)s::regclass OR t.tgrelid IN (SELECT relid FROM pg_partition_tree(%(table)s::regclass)))
   AND t.tgtype::int & 7 = 7 AND t.tgenabled <> 'D' ORDER BY 1, 2
"""
ELSE = "look for rules, triggers and extensions at the target that take rows away, then load the table again"


def refuse_miscount(connection: Connection, table: TableId, sent: int, taken: int, what: str, source: TableId) -> None:
    """Raise TargetError where the server took another number of rows than were sent. Call it before the commit."""
    if sent == taken:
        return
    found = connection.execute(TRIGGERS.encode(), {"table": table_name(table).as_string(None)}).fetchall()
    mend = "; ".join(f"ALTER TABLE {where} DISABLE TRIGGER {name}" for where, name in found)
    raise TargetError(
        f"{what}: {sent} rows were sent to {table}, and the server took {taken}",
        table=str(source),
        hint=f"triggers of the target may leave rows out: {mend}; then start again" if mend else ELSE,
    )
