"""The partitions that a table has at the target: those of the source, and one more for what comes later.

The source makes partitions while the job runs, and its log has their rows and nothing of them. So rows that no partition takes
have a place here: where the source has no DEFAULT partition the target gets one, and of hashes those that are missing.
https://www.postgresql.org/docs/current/ddl-partitioning.html
What does not live here: the partitioned table itself (ddl.py), its indexes and constraints (constraints.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified
from anabranch.connectors.postgresql.target.ddl import shortened, with_digest
from anabranch.connectors.postgresql.verbatim import NOT_VALID, is_partitioned
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

DEFAULT = "DEFAULT"
PARTITIONED = "partitioned table"  # catalog.RELATION_KINDS
# Foreign keys of a partitioned table that are not validated: https://www.postgresql.org/docs/release/18.0/
UNSEEN_KEYS_SINCE = 180_000
# What is divided so has no DEFAULT partition: https://www.postgresql.org/docs/current/sql-createtable.html
BY_HASH, HASHED = "HASH", re.compile(r"modulus (\d+), remainder (\d+)", re.IGNORECASE)
# Parents first; what holds rows is no "p".
PARTS: LiteralString = """
WITH RECURSIVE tree (oid, level) AS (
  SELECT c.oid, 0 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname = %s AND c.relname = %s
  UNION ALL SELECT i.inhrelid, t.level + 1 FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid)
SELECT n.nspname::text, c.relname::text
  FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE t.level > 0 AND c.relkind = 'r' ORDER BY n.nspname, c.relname
"""
TAKEN: LiteralString = """
SELECT n.nspname::text, c.relname::text
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name) JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
"""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """`rest`: its bound, and how it is divided itself."""

    name: TableId
    parent: TableId
    rest: str

    @property
    def sql(self) -> str:
        return f"CREATE TABLE {qualified(self.name)} PARTITION OF {qualified(self.parent)} {self.rest}"


def plan_partitions(
    schema: TableSchema, table: TargetTable, beside: Collection[TableId] = ()
) -> list[PlannedPartition]:
    """Plan a table's partitions, parents first; [] for a table that has none.

    They have their names at the source, unless something else (`beside`) has the name, and are in the schema of their
    table, if they are at the source.
    """
    schema = replace(
        schema, partitions=tuple(part for part in schema.partitions if not part.told_by)
    )  # no bound is known
    if not is_partitioned(schema, table):
        return []
    names, planned = {"": table.target}, list[PlannedPartition]()
    for part in schema.partitions:
        assert part.table is not None
        is_with_table = part.table.schema == schema.id.schema
        wanted = TableId(table.target.schema if is_with_table else part.table.schema, part.table.name)
        names[part.name] = _free(wanted, table, {*beside, *names.values()})
        divided = f" PARTITION BY {part.key}" if part.key else ""
        planned.append(PlannedPartition(names[part.name], names[part.parent], part.bound + divided))
    for whole, rest, bound in _rests(schema):
        wanted = TableId(names[whole].schema, shortened(f"{names[whole].name}{rest}"))
        names[whole + rest] = _free(wanted, table, {*beside, *names.values()})
        planned.append(PlannedPartition(names[whole + rest], names[whole], bound))
    return planned


def _rests(schema: TableSchema) -> Iterator[tuple[str, str, str]]:
    """Yield default partitions for rows that fit no other, for the table and for partitions that are divided: of which,
    end of the name, bound.
    """
    keys = {"": schema.partition_key} | {part.name: part.key for part in schema.partitions if part.key}
    for whole, key in keys.items():
        bounds = [part.bound for part in schema.partitions if part.parent == whole]
        if key.startswith(BY_HASH):
            for modulus, remainder in _missing(bounds):
                yield whole, f"_default_{remainder}", f"FOR VALUES WITH (MODULUS {modulus}, REMAINDER {remainder})"
        elif DEFAULT not in bounds:
            yield whole, "_default", DEFAULT


def _missing(bounds: Iterable[str]) -> list[tuple[int, int]]:
    """Return modulus and remainder of what no partition by hash takes: each modulus is a factor of the next larger one."""
    there = [(int(modulus), int(remainder)) for bound in bounds for modulus, remainder in HASHED.findall(bound)]
    most = max((modulus for modulus, _ in there), default=1)
    return [(most, n) for n in range(most) if not any(n % modulus == remainder for modulus, remainder in there)]


def _free(wanted: TableId, table: TargetTable, taken: Collection[TableId]) -> TableId:
    return (
        wanted
        if wanted not in taken
        else TableId(wanted.schema, with_digest(wanted.name, f"{table.target}.{wanted.name}"))
    )


def taken(connection: Connection, wanted: Iterable[TableId]) -> set[TableId]:
    """Pick the names that a relation has already."""
    wanted = list(wanted)
    rows = connection.execute(TAKEN, ([one.schema for one in wanted], [one.name for one in wanted])).fetchall()
    return {TableId(*row) for row in rows}


def at_once(statement: str) -> str:
    """Return ADD FOREIGN KEY that checks the rows, as a partitioned table needs before UNSEEN_KEYS_SINCE."""
    return statement.removesuffix(NOT_VALID)


def leaves(connection: Connection, table: TableId) -> list[TableId]:
    """Return the tables that hold the rows of a partitioned table."""
    return [TableId(*row) for row in connection.execute(PARTS, (table.schema, table.name)).fetchall()]
