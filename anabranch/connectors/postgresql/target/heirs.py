"""Target tables from which others inherit. What is written to such a table by UPDATE, DELETE or TRUNCATE is written to the rows
of its heirs as well, and reading it reads them: a job does not write to one. A partition is no heir.

https://www.postgresql.org/docs/current/ddl-inherit.html
What does not live here: tables of the source that inherit (source_connection.own_rows).
"""

from __future__ import annotations

from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

HEIRS: LiteralString = """
SELECT n.nspname::text, c.relname::text
  FROM pg_catalog.pg_inherits i
  JOIN pg_catalog.pg_class p ON p.oid = i.inhparent AND p.relkind = 'r'
  JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE pn.nspname = %s AND p.relname = %s ORDER BY 1, 2
"""


def heirs(connection: Connection, table: TableId) -> list[TableId]:
    """The tables that inherit from it themselves."""
    rows = connection.execute(HEIRS, [table.schema, table.name]).fetchall()
    return [TableId(*row) for row in rows]


def why(found: list[TableId]) -> str:
    return f"{', '.join(map(str, found))} inherit from it: what is written to it would change their rows"


def remedy(table: TableId, found: list[TableId]) -> str:
    statements = "; ".join(f"ALTER TABLE {qualified(heir)} NO INHERIT {qualified(table)}" for heir in found)
    return f"{statements}; or choose another target name"


def refuse_heirs(connection: Connection, job: str, table: TargetTable) -> None:
    """Raises TargetError."""
    if found := heirs(connection, table.target):
        raise TargetError(
            f"{table.target}: {why(found)}", job=job, table=str(table.source), hint=remedy(table.target, found)
        )


def inherited(table: str) -> TargetError:
    """For a `table`, quoted, of which this was found out behind what an epoch wrote."""
    hint = f"ALTER TABLE <heir> NO INHERIT {table} at the target; the epoch is carried out when the job starts again"
    return TargetError(
        f"tables inherit from {table} at the target: what is written to it would change their rows", hint=hint
    )
