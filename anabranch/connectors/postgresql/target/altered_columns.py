"""Columns that the source has altered are altered in the target's table, inside the epoch.

The server fills rows that are there from the default, without writing them: https://www.postgresql.org/docs/current/sql-altertable.html
What does not live here: how a column is rendered (`ddl.py`), when it comes (apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.target import ddl
from anabranch.contracts import Conflict, ValueRules
from anabranch.rows.altered import AlteredTable, ColumnAdded

# Others that use the table are waited for so long, and let go on then: whoever comes behind us waits as well.
WAIT = "SET LOCAL lock_timeout = '3s'"


def alter(connection: Connection, altered: AlteredTable, rules: ValueRules) -> None:
    """Carry out the steps, in the open transaction. Raises Conflict where rows that are there cannot have the source's values.
    Driver errors pass."""
    found = list(statements(altered, rules, connection.info.server_version))
    connection.execute(WAIT)
    for statement in found:
        connection.execute(statement.encode())
    connection.execute("RESET lock_timeout")


def statements(altered: AlteredTable, rules: ValueRules, version: int) -> Iterator[str]:
    """Yield what carries out the steps. Raises Conflict, as `alter`."""
    place, lines, behind = qualified(altered.table.target), list[str](), list[str]()
    for step in altered.steps:
        if not isinstance(step, ColumnAdded):
            raise Conflict(altered.table.source, f"{type(step).__name__} of {step.name} is not carried out here")
        lines.append(_added(altered, step, rules, version))
        target = altered.target(step.name)
        if comment := altered.schema.column(step.name).comment.replace("\x00", ""):
            behind.append(f"COMMENT ON COLUMN {place}.{quote(target)} IS {literal(comment)}")
    yield f"ALTER TABLE {place} {', '.join(lines)}"
    yield from behind


def _added(altered: AlteredTable, step: ColumnAdded, rules: ValueRules, version: int) -> str:
    schema, table, target = altered.schema, altered.table, altered.target(step.name)
    if not ddl.fits(target):
        raise Conflict(table.source, f"{target}: longer than {ddl.NAME_BYTES} bytes")
    column, logical = schema.column(step.name), table.type_of(target)
    is_as_there = ddl.is_as_there(schema, logical) and not column.default_is_expression
    if not is_as_there and ddl.loses_default(column, logical, version):
        raise Conflict(table.source, f"rows cannot have the default of {step.name} here: {ddl.told_default(column)}")
    return f"ADD COLUMN {ddl.column_line(schema, table, step.name, target, rules, version, ())}"
