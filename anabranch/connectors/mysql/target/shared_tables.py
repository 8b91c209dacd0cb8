"""Target tables that other jobs write to, too (consolidation), or that hold rows which are nobody's: what one job may not do
to them. Who else is there stands in anabranch.table_state; who asks holds the lock of those that begin (`begin.py`), and of two
that have not begun the first by name does.

What does not live here: loading and applying rows, which is the same with or without others.
"""

from __future__ import annotations

import json

from anabranch.connectors.mysql.target.session import Connection, ask
from anabranch.connectors.sql.shared_tables import (
    Other,
    refuse_loads_of_others,
    refuse_rows_of_others,
    refuse_truncate_of_others,
)
from anabranch.model.ids import TableId
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import Life, read_stored
from anabranch.rows.net import TargetTable

HAS_STATES = """
SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = 'table_state'
"""
OTHERS = """
SELECT job, state, generation, reason, facts FROM anabranch.table_state
 WHERE (target_table = %s OR (@@lower_case_table_names <> 0 AND LOWER(target_table) = LOWER(%s))) AND job <> %s ORDER BY job
"""
FACTS = "SELECT state, reason, facts FROM anabranch.table_state WHERE job = %s AND source_table = %s"


def others(connection: Connection, job: str, target: TableId) -> list[Other]:
    """Return other jobs that write to the table, or are about to."""
    if not ask(connection, HAS_STATES):
        return []
    found = ask(connection, OTHERS, str(target), str(target), job)
    return [Other(str(name), _is_through(job, str(name), *rest)) for name, *rest in found]


def whose_rows(connection: Connection, table: TableId) -> str:
    """Say what rows a table has beside those of one job, "" where no state tells of any."""
    if not ask(connection, HAS_STATES):
        return ""
    found = ask(connection, OTHERS, str(table), str(table), "")
    if len(found) > 1:
        return f"other jobs write to {table}, too, and have other labels"
    is_kept = any(_facts(state, reason, facts)[1].kept for _, state, _, reason, facts in found)
    return f"{table} has rows that were there before the load" if is_kept else ""


def refuse_to_empty(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise TargetError if other jobs have rows in the table."""
    refuse_rows_of_others(job, table, others(connection, job, table.target))


def refuse_unfinished(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise TargetError if another job's load of the table has not ended."""
    refuse_loads_of_others(job, table, others(connection, job, table.target))


def refuse_truncate(connection: Connection, job: str, table: TargetTable) -> None:
    """Raise Conflict where a TRUNCATE of the source would remove rows that are not the source's."""
    found, rows = others(connection, job, table.target), ask(connection, FACTS, job, str(table.source))
    refuse_truncate_of_others(table, found, bool(rows) and _facts(*rows[0])[1].kept)


def _is_through(job: str, other: str, state: str, generation: int, reason: str, facts: str) -> bool:
    life, known = _facts(state, reason, facts)
    is_behind = life is Life.PENDING and generation == 0 and other > job
    return is_behind or life is Life.PARKED or (life is Life.STREAMING and known.built)


def _facts(state: str, reason: str, facts: str) -> tuple[Life, Facts]:
    return read_stored(state, reason or "", json.loads(facts or "{}"))
