"""Notes of what became of changes of definitions, at a PostgreSQL target: `anabranch.ddl`.

What does not live here: what a note says (model/ddl_changes.py), transactions (`apply.py`), how a table is rendered (`ddl.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.target.aside import readable
from anabranch.connectors.sql.ddl_notes import change_of
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange

WHICH: LiteralString = "job, sequence, source_table"
FACTS: LiteralString = """position, commit_time, target_table, statement, source_user, setting, action, outcome, why, version,
    digest, by"""
KEEP: LiteralString = f"""
INSERT INTO anabranch.ddl ({WHICH}, {FACTS}) VALUES (%s{", %s" * 14})
ON CONFLICT (job, source_table, sequence) DO UPDATE SET ({FACTS}, noted_at) =
    (excluded.position, excluded.commit_time, excluded.target_table, excluded.statement, excluded.source_user,
     excluded.setting, excluded.action, excluded.outcome, excluded.why, excluded.version, excluded.digest, excluded.by,
     clock_timestamp())
"""
READ: LiteralString = f"""
SELECT sequence, source_table, {FACTS}, number, (extract(epoch FROM noted_at) * 1000000)::bigint FROM anabranch.ddl
 WHERE job = %s AND (%s::text IS NULL OR source_table = %s) ORDER BY number
"""


def keep(connection: Connection, job: str, change: DdlChange) -> None:
    """Note a change in the caller's transaction. Psycopg errors pass."""
    c = change
    where = [job, c.sequence, str(c.source), c.position, c.commit_time, str(c.target)]
    done = [c.rule.setting, c.rule.action, c.outcome, readable(c.why), c.version, c.digest, c.by]
    connection.execute(KEEP, [*where, readable(c.statement), c.source_user, *done])


def read(connection: Connection, job: str, table: TableId | None) -> list[DdlChange]:
    name = str(table) if table else None
    return [change_of(row) for row in connection.execute(READ, [job, name, name])]
