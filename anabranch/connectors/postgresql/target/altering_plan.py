"""Plan of altering a table of a PostgreSQL: the statements that apply would run, and what the server makes of them.

What does not live here: the statements themselves (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target import (
    altered_checks,
    altered_columns,
    altered_comments,
    altered_indexes,
    altered_keys,
    label_checks,
)
from anabranch.contracts import ValueRules
from anabranch.model.altering_plan import AlteringPlan
from anabranch.model.ids import TableId
from anabranch.rows.altered import AlteredTable, ColumnAdded, ColumnRetyped, filled_schema

# https://www.postgresql.org/docs/current/sql-altertable.html (Notes): from 11 on a constant default is kept beside the rows
LINK = "https://www.postgresql.org/docs/current/sql-altertable.html"
DEFAULTS_WITHOUT_ROWS = 110000
LOCK = "ACCESS EXCLUSIVE: nobody reads or writes the table until the epoch is committed; waited for three seconds at a time"
COMMENTING = "SHARE UPDATE EXCLUSIVE: others read and write rows; waited for three seconds at a time"
BUILDING = "SHARE UPDATE EXCLUSIVE: others read and write rows while the index is built"
# Of the table, and of what stands below it. https://www.postgresql.org/docs/current/catalog-pg-class.html: -1 is not known
SIZE: LiteralString = """
WITH RECURSIVE whole AS (
    SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = %s AND c.relname = %s
    UNION ALL SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN whole ON whole.oid = i.inhparent)
SELECT (sum(c.reltuples) FILTER (WHERE c.reltuples >= 0 AND c.relkind = 'r'))::bigint,
       sum(pg_catalog.pg_total_relation_size(c.oid))::bigint
  FROM whole w JOIN pg_catalog.pg_class c ON c.oid = w.oid
"""


def plan(connection: Connection, altered: AlteredTable, rules: ValueRules) -> AlteringPlan:
    """Return the plan; changes nothing. Raises Conflict as the steps would. Driver errors pass."""
    version = connection.info.server_version
    going = [found for _, found in altered_keys.dropped(connection, altered)]
    going += [found for _, found in altered_indexes.planned(connection, altered)]
    going += [found for _, found in altered_checks.dropped(connection, altered, rules)]
    found = [one for one in going if one.startswith(("DROP ", "ALTER "))]
    found += [*altered_columns.statements(altered, rules, version, label_checks.standing(connection, altered))]
    found += [statement for _, statement in altered_comments.statements(altered)]
    found += [*altered_indexes.to_build(altered), *altered_checks.to_build(altered, rules)]
    altered_columns.refuse_unlike(connection, altered, rules)
    rows, size = _size(connection, altered.table.target)
    inverse = tuple(_inverse(altered))
    is_built_behind = altered.is_all_behind or (bool(altered.checks.added) and not altered.is_about_rows)
    lock = BUILDING if is_built_behind else LOCK if altered.is_about_rows else COMMENTING
    return AlteringPlan(tuple(found), inverse, lock, LINK, _rewrites(altered, rules, version), rows, size)


def _rewrites(altered: AlteredTable, rules: ValueRules, version: int) -> bool:
    for step in altered.steps:
        match step:
            case ColumnAdded():
                column = filled_schema(altered.schema, step).column(step.name)
                if version < DEFAULTS_WITHOUT_ROWS and column.default is not None:
                    return True
            case ColumnRetyped():
                former, native = altered_columns.types(altered, step, rules)
                if former != native:
                    return True
    return False


def _inverse(altered: AlteredTable) -> Iterator[str]:
    """Yield what takes columns off again that have come. For other steps there is no statement that certainly leads back."""
    if altered.steps and all(isinstance(step, ColumnAdded) for step in altered.steps):
        lines = ", ".join(f"DROP COLUMN {quote(altered.target(step.name))}" for step in altered.steps)
        yield f"ALTER TABLE {qualified(altered.table.target)} {lines}"


def _size(connection: Connection, table: TableId) -> tuple[int | None, int | None]:
    row = connection.execute(SIZE, [table.schema, table.name]).fetchone()
    return (None, None) if row is None else (row[0], row[1])
