"""Target tables that other jobs write to, too (consolidation), or that hold rows which are nobody's: what one job may not do
to them. Who else is there stands in anabranch.table_state; a job's own row is written before it asks, one asks at a time, and
of two that have not begun the first by name does.

What does not live here: loading and applying rows, which is the same with or without others.
"""

from __future__ import annotations

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.sql.shared_tables import (
    Other,
    refuse_loads_of_others,
    refuse_rows_of_others,
    refuse_truncate_of_others,
)
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

# Not `to_regclass`: with a schema that the user may not use that one is an error.
HAS_STATES = """
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'anabranch' AND c.relname = 'table_state')
"""
OTHERS = """
SELECT job, state = 'parked' OR (state = 'streaming' AND facts ? 'built')
       OR (state = 'pending' AND generation = 0 AND job COLLATE "C" > %(job)s)
  FROM anabranch.table_state WHERE target_table = %(target)s AND job <> %(job)s ORDER BY job
"""
# Above a partition. https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-PARTITION
WHOLES = """
SELECT n.nspname::text, c.relname::text FROM pg_class t JOIN pg_namespace tn ON tn.oid = t.relnamespace
  CROSS JOIN LATERAL pg_partition_ancestors(t.oid) AS a
  JOIN pg_class c ON c.oid = a.relid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE tn.nspname = %s AND t.relname = %s AND c.oid <> t.oid
"""
WRITTEN = "SELECT target_table FROM anabranch.table_state WHERE target_table = ANY(%s) LIMIT 1"
ONE_ASKS = "SELECT pg_advisory_xact_lock(7168358)"
IS_KEPT = "SELECT facts ? 'kept' FROM anabranch.table_state WHERE job = %s AND source_table = %s"


def others(connection: Connection, job: str, target: TableId) -> list[Other]:
    """Return other jobs that write to the table, or are about to."""
    there = connection.execute(HAS_STATES).fetchone()
    if not there or not there[0]:
        return []
    return [Other(*row) for row in connection.execute(OTHERS, {"job": job, "target": str(target)}).fetchall()]


def whole_of(connection: Connection, target: TableId) -> str:
    """Return the table that a job writes to and of which this one is a partition, "" for any other table."""
    there = connection.execute(HAS_STATES).fetchone()
    if not there or not there[0]:
        return ""
    above = [str(TableId(*row)) for row in connection.execute(WHOLES, [target.schema, target.name]).fetchall()]
    row = connection.execute(WRITTEN, [above]).fetchone() if above else None
    return str(row[0]) if row else ""


def refuse_partition(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise TargetError for a table of its own at the source that is a partition here: its rows would be those of two
    tables.
    """
    if whole := whole_of(connection, table.target):
        raise TargetError(
            f"{table.target} is a partition of {whole}, which a job writes to",
            job=job,
            table=str(table.source),
            hint=f"load the table that is {whole} here with --recreate first, which makes its partitions anew; or give"
            " this one another name ([[rules]] target)",
        )


def refuse_to_empty(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise TargetError if other jobs have rows in the table. Call it in the transaction in which the table is emptied,
    or dropped, for a load.
    """
    connection.execute(ONE_ASKS)
    refuse_rows_of_others(job, table, others(connection, job, table.target))


def refuse_unfinished(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise TargetError if another job's load has not ended. Call it in the transaction in which this job's load begins
    beside others' rows.
    """
    connection.execute(ONE_ASKS)
    refuse_loads_of_others(job, table, others(connection, job, table.target))


def refuse_truncate(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise Conflict where a TRUNCATE of the source would remove rows that are not the source's."""
    found = others(connection, job, table.target)
    row = connection.execute(IS_KEPT, [job, str(table.source)]).fetchone()
    refuse_truncate_of_others(table, found, bool(row and row[0]))
