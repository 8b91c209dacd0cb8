"""Target tables whose rows are not theirs alone: a job does not write to one.

What is written to a table by UPDATE, DELETE or TRUNCATE is written to the rows of those that inherit from it as well, and
reading it reads them. A partition is no heir; but one that is a foreign table has its rows on another server, which may be
the source: to empty the table would empty that one. https://www.postgresql.org/docs/current/ddl-inherit.html
https://www.postgresql.org/docs/current/postgres-fdw.html
What does not live here: tables of the source that inherit (source_connection.own_rows).
"""

from __future__ import annotations

from typing import LiteralString, NamedTuple

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
FOREIGN: LiteralString = """
SELECT n.nspname::text, c.relname::text, pn.nspname::text, up.relname::text
  FROM pg_catalog.pg_class p JOIN pg_catalog.pg_namespace k ON k.oid = p.relnamespace
 CROSS JOIN LATERAL pg_catalog.pg_partition_tree(p.oid) AS t
  JOIN pg_catalog.pg_class c ON c.oid = t.relid AND c.relkind = 'f' JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_class up ON up.oid = t.parentrelid JOIN pg_catalog.pg_namespace pn ON pn.oid = up.relnamespace
 WHERE k.nspname = %s AND p.relname = %s AND p.relkind = 'p' ORDER BY 1, 2
"""


class Mixed(NamedTuple):
    """Why rows of a target table are not its own alone, and the statements that change that."""

    why: str
    remedy: str


def mixed(connection: Connection, table: TableId) -> Mixed | None:
    """Say why a table has rows of other tables; None for a table whose rows are its own."""
    if found := heirs(connection, table):
        return Mixed(why(found), remedy(table, found))
    rows = connection.execute(FOREIGN, [table.schema, table.name]).fetchall()
    foreign = {TableId(*row[:2]): TableId(*row[2:]) for row in rows}
    if not foreign:
        return None
    are = "is a partition of it and a foreign table" if len(foreign) == 1 else "are partitions of it and foreign tables"
    detach = (f"ALTER TABLE {qualified(above)} DETACH PARTITION {qualified(one)}" for one, above in foreign.items())
    return Mixed(
        f"{', '.join(map(str, foreign))} {are}: what is written there is written to another server's table",
        f"{'; '.join(detach)}; or choose another target name",
    )


def heirs(connection: Connection, table: TableId) -> list[TableId]:
    """Return the tables that inherit from it themselves."""
    rows = connection.execute(HEIRS, [table.schema, table.name]).fetchall()
    return [TableId(*row) for row in rows]


def why(found: list[TableId]) -> str:
    return f"{', '.join(map(str, found))} inherit from it: what is written to it would change their rows"


def remedy(table: TableId, found: list[TableId]) -> str:
    statements = "; ".join(f"ALTER TABLE {qualified(heir)} NO INHERIT {qualified(table)}" for heir in found)
    return f"{statements}; or choose another target name"


def refuse_mixed(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise TargetError if the table has rows of other tables."""
    if found := mixed(connection, table.target):
        raise TargetError(f"{table.target}: {found.why}", job=job, table=str(table.source), hint=found.remedy)


def written_with(table: str) -> TargetError:
    """Return the error for a `table`, quoted, that was found to have rows of other tables after an epoch wrote to it."""
    hint = (
        f"ALTER TABLE <heir> NO INHERIT {table}, or ALTER TABLE {table} DETACH PARTITION <foreign table>, at the target;"
        " the epoch is carried out when the job starts again"
    )
    return TargetError(
        f"tables inherit from {table} at the target, or partitions of it are foreign tables: what is written to it would"
        " change their rows",
        hint=hint,
    )
