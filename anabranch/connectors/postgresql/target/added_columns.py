"""Columns that the source has added to a table are added to the target's, inside the epoch.

The server fills rows that are there from the default, without writing them: https://www.postgresql.org/docs/current/sql-altertable.html
What does not live here: how a column is rendered (`ddl.py`), when it comes (apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.target import ddl
from anabranch.contracts import Conflict, ValueRules
from anabranch.rows.altered import AddedColumns

# Others that use the table are waited for so long, and let go on then: whoever comes behind us waits as well.
WAIT = "SET LOCAL lock_timeout = '3s'"


def add(connection: Connection, added: AddedColumns, rules: ValueRules) -> None:
    """Add the columns, in the open transaction. Raises Conflict where one cannot have the source's values in rows that are
    there. Driver errors pass."""
    found = list(statements(added, rules, connection.info.server_version))
    connection.execute(WAIT)
    for statement in found:
        connection.execute(statement.encode())
    connection.execute("RESET lock_timeout")


def statements(added: AddedColumns, rules: ValueRules, version: int) -> Iterator[str]:
    """Yield what adds the columns and their comments. Raises Conflict, as `add`."""
    schema, table, place = added.schema, added.table, qualified(added.table.target)
    if long := [name for name in added.targets if not ddl.fits(name)]:
        raise Conflict(table.source, f"{', '.join(long)}: longer than {ddl.NAME_BYTES} bytes")
    lines, comments = [], []
    for source, target in zip(added.names, added.targets, strict=True):
        column = schema.column(source)
        if ddl.loses_default(column, table.type_of(target), version):
            raise Conflict(table.source, f"rows cannot have the default of {source} here: {ddl.told_default(column)}")
        lines.append(f"ADD COLUMN {ddl.column_line(schema, table, source, target, rules, version, ())}")
        if comment := column.comment.replace("\x00", ""):
            comments.append(f"COMMENT ON COLUMN {place}.{quote(target)} IS {literal(comment)}")
    yield f"ALTER TABLE {place} {', '.join(lines)}"
    yield from comments
